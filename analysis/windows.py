"""What happens in a window of each trial, by epoch, event or time."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from popsim.analysis.trial_axes import time_back, trial_back, trial_time_last
from popsim.timeline import Timeline
from popsim.trial import Trial, n_trials
from popsim.windows import AbstractWindow


def window_mask(trials: Trial, window: AbstractWindow) -> Bool[Array, "trial time"]:
    """Which time steps of each trial are in a window.

    **Arguments:**

    - `trials`: stacked trials; each has its own epochs and events.
    - `window`: such as `popsim.FromEvent("go cue")` or `popsim.InEpoch("hold")`.

    **Raises:** `ValueError` if the trials have no epoch or event of that name.
    """

    def of_trial(timeline: Timeline, index: Int[Array, ""]) -> Bool[Array, " time"]:
        return window(timeline)

    return jax.vmap(of_trial)(trials.timeline, jnp.arange(n_trials(trials)))


def in_window(
    values: Float[Array, "..."], trials: Trial, window: AbstractWindow, *, time_axis: int = -1
) -> Float[Array, "..."]:
    """The values at the steps of a window, and NaN at all others; the shape stays.

    **Arguments:**

    - `values`: such as `hand_speed(states.hand)`, with axes (member, trial, time).
    - `trials`, `window`: as for `window_mask`.
    - `time_axis`: which axis is time, after that of the trials; -2 where features follow it.

    **Raises:** `ValueError` if `values` are not of these trials, or they have no such epoch or event.
    """
    last = trial_time_last(values, trials, time_axis)
    return time_back(jnp.where(window_mask(trials, window), last, jnp.nan), time_axis)


def mean_in_window(
    values: Float[Array, "..."], trials: Trial, window: AbstractWindow, *, time_axis: int = -1
) -> Float[Array, "..."]:
    """The mean over the steps of a window, without the axis of time; NaN in trials where no step is in it.

    **Arguments:** as for `in_window`.

    **Raises:** as `in_window`.
    """
    last, mask = trial_time_last(values, trials, time_axis), window_mask(trials, window)
    mean = jnp.mean(last, axis=-1, where=mask)
    return trial_back(jnp.where(jnp.any(mask, axis=-1), mean, jnp.nan), time_axis)


def last_in_window(
    values: Float[Array, "..."], trials: Trial, window: AbstractWindow, *, time_axis: int = -1
) -> Float[Array, "..."]:
    """The value at the last step of a window, without the axis of time; NaN where no step is in it.

    Of `cursor_error` in `popsim.InEpoch("movement")` it is the end-point error of that movement.

    **Arguments:** as for `in_window`.

    **Raises:** as `in_window`.
    """
    last, mask = trial_time_last(values, trials, time_axis), window_mask(trials, window)
    step = mask.shape[-1] - 1 - jnp.argmax(mask[:, ::-1], axis=-1)
    value = last[..., jnp.arange(step.size), step]
    return trial_back(jnp.where(jnp.any(mask, axis=-1), value, jnp.nan), time_axis)
