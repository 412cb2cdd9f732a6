"""What units did before the go cue."""

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.analysis.windows import window_mask
from popsim.checks import n_steps_in
from popsim.trial import Trial, n_trials
from popsim.windows import FromEvent


def preparatory_activity(
    hidden: Float[AnyArray, "*axes trial time unit"], trials: Trial, event: str, *, duration: float
) -> Float[np.ndarray, "*axes trial unit"]:
    """The mean activity of each unit in the last `duration` seconds before an event, such as "go cue".

    The step of the event, at which the network is told, is not among them. NaN in trials in which the event
    does not come, or comes sooner than that. `cosine_tuning` of it are the preferred directions of
    preparation.

    **Arguments:**

    - `hidden`: such as `states.network.hidden`.
    - `trials`: those trials, stacked.
    - `event`: its name.
    - `duration`: in s, a multiple of the time step.

    **Raises:** `ValueError` if `hidden` is not finite or not of these trials, they have no such event, or
        `duration` is no positive multiple of the time step.
    """
    values, dt = finite_float64("hidden", hidden), trials.timeline.dt
    expected = (n_trials(trials), trials.timeline.n_steps)
    if values.shape[-3:-1] != expected:
        raise ValueError(f"`hidden` must end with (trial, time, unit) = {expected}, got {values.shape}.")
    if (n_steps := n_steps_in("duration", duration, dt)) == 0:
        raise ValueError(f"`duration` must be at least the time step, {dt} s, got {duration} s.")
    mask = np.asarray(window_mask(trials, FromEvent(event, delay=-duration, duration=duration)))
    mean = np.einsum("...tsu,ts->...tu", values, mask / n_steps)
    return np.where((mask.sum(axis=-1) == n_steps)[:, None], mean, np.nan)
