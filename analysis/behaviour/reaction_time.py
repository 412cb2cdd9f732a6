"""How long after a go cue the hand began to move."""

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.analysis.behaviour.movement_times import SpeedThreshold, from_rest, onset_step
from popsim.trial import Trial, n_trials


def reaction_time(
    speed: Float[AnyArray, "*axes trial time"], trials: Trial, event: str, threshold: SpeedThreshold
) -> Float[np.ndarray, "*axes trial"]:
    """The onset of the movement after an event of each trial, such as "go cue", in s from that event.

    The movement is the fastest after the event; its onset is found as by `movement_onset` and is before the
    event, and the time negative, if the hand was under way already. What comes with an event is there from
    the beginning of its step on. NaN in trials in which the event does not come, or nothing moves after it.

    **Arguments:**

    - `speed`: of the hand, in m/s, see `hand_speed`; row t is at time (t + 1) dt.
    - `trials`: those trials, stacked.
    - `event`: the name of the event.
    - `threshold`: as for `movement_onset`.

    **Raises:** `ValueError` if `speed` is not finite or not of these trials, or they have no such event.
    """
    values = finite_float64("speed", speed)
    expected = (n_trials(trials), trials.timeline.n_steps)
    if values.shape[-2:] != expected:
        raise ValueError(f"`speed` must end with (trial, time) = {expected}, got shape {values.shape}.")
    comes = np.asarray(trials.timeline.happens(event))
    step = np.where(comes, np.asarray(trials.timeline.events[event]), 0)
    forwards = from_rest(values)
    is_after = np.arange(forwards.shape[-1]) >= step[:, None]
    peak = np.argmax(np.where(is_after, forwards, -1.0), axis=-1)
    onset = onset_step(forwards, peak, threshold)
    return trials.timeline.dt * np.where(comes, onset - step, np.nan)
