"""Time windows within trials, and times relative to events."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from popsim._shared.checks import n_steps_in
from popsim.trial import Trial, n_trials
from popsim.windows import AbstractWindow, Timeline

__all__ = [
    "window_mask",
    "mask_outside_window",
    "mean_in_window",
    "last_value_in_window",
    "time_from_event",
    "align_to_event",
]


def trial_time_axes(trials: Trial) -> str:
    """Return the axes that values of trials end with, for `check_axes`."""
    return f"trial={n_trials(trials)} time={trials.timeline.n_steps}"


def move_trial_time_last(
    values: Shaped[Array, "..."], trials: Trial, time_axis: int
) -> tuple[Shaped[Array, "*axes trial time"], int]:
    """Move the axes of trials and time to the end; return the place of time, from 0, too."""
    sizes = (n_trials(trials), trials.timeline.n_steps)
    axis = time_axis % values.ndim if -values.ndim <= time_axis < values.ndim else 0
    if values.shape[max(axis - 1, 0) : axis + 1] != sizes:
        raise ValueError(
            f"`values` must have {sizes[0]} trials and {sizes[1]} time steps before and at `time_axis`, "
            f"{time_axis}, got shape {values.shape}."
        )
    return jnp.moveaxis(values, (axis - 1, axis), (-2, -1)), axis


def window_mask(trials: Trial, window: AbstractWindow) -> Bool[Array, "trial time"]:
    """Return whether each time step of each trial lies in a window.

    **Arguments:**

    - `trials`: stacked trials; each has its own epochs and events.
    - `window`: such as `popsim.windows.FromEvent("go cue")` or `popsim.windows.InEpoch("hold")`.
    """

    def mask_of_trial(timeline: Timeline, index: Int[Array, ""]) -> Bool[Array, " time"]:
        return window(timeline)

    return jax.vmap(mask_of_trial)(trials.timeline, jnp.arange(n_trials(trials)))


def mask_outside_window(
    values: Float[Array, "..."], trials: Trial, window: AbstractWindow, *, time_axis: int = -1
) -> Float[Array, "..."]:
    """Return the values inside a window and NaN outside it, in the same shape.

    **Arguments:**

    - `values`: such as `hand_speed(states.hand)`, with axes (member, trial, time).
    - `trials`, `window`: as for `window_mask`.
    - `time_axis`: the axis of time, which follows that of the trials; -2 if a feature axis comes last.
    """
    last, axis = move_trial_time_last(values, trials, time_axis)
    kept = jnp.where(window_mask(trials, window), last, jnp.nan)
    return jnp.moveaxis(kept, (-2, -1), (axis - 1, axis))


def mean_in_window(
    values: Float[Array, "..."], trials: Trial, window: AbstractWindow, *, time_axis: int = -1
) -> Float[Array, "..."]:
    """Average over the steps of a window. NaN in trials where the window is empty.

    **Arguments:** as for `mask_outside_window`.
    """
    (last, axis), mask = move_trial_time_last(values, trials, time_axis), window_mask(trials, window)
    mean = jnp.mean(last, axis=-1, where=mask)
    return jnp.moveaxis(jnp.where(jnp.any(mask, axis=-1), mean, jnp.nan), -1, axis - 1)


def last_value_in_window(
    values: Float[Array, "..."], trials: Trial, window: AbstractWindow, *, time_axis: int = -1
) -> Float[Array, "..."]:
    """Return the value at the last step of a window. NaN in trials where the window is empty.

    For example, `cursor_error` at the end of `popsim.windows.InEpoch("movement")` is the end-point error.

    **Arguments:** as for `mask_outside_window`.
    """
    (last, axis), mask = move_trial_time_last(values, trials, time_axis), window_mask(trials, window)
    step = mask.shape[-1] - 1 - jnp.argmax(mask[:, ::-1], axis=-1)
    value = last[..., jnp.arange(step.size), step]
    return jnp.moveaxis(jnp.where(jnp.any(mask, axis=-1), value, jnp.nan), -1, axis - 1)


def time_from_event(trials: Trial, event: str) -> Float[Array, "trial time"]:
    """Return the time at which each step begins, in s relative to an event; NaN in trials without it.

    The state recorded at a step is the one at its end: add `trials.timeline.dt` to get the times of states.
    """
    happens = trials.timeline.happens(event)
    steps = jnp.arange(trials.timeline.n_steps) - trials.timeline.events[event][:, None]
    since = steps.astype(float) * trials.timeline.dt
    return jnp.where(happens[:, None], since, jnp.nan)


def align_to_event(
    values: Float[Array, "..."],
    trials: Trial,
    event: str,
    *,
    before: float,
    after: float,
    time_axis: int = -1,
) -> Float[Array, "..."]:
    """Align values to an event of each trial, from `before` seconds before it to `after` seconds after it.

    The time axis of the result is -before, -before + dt, ... up to but excluding `after`; the event is at
    index `before / dt`. NaN where a trial has no such step, and in trials in which the event does not occur.

    **Arguments:**

    - `values`, `trials`, `time_axis`: as for `mask_outside_window`.
    - `before`, `after`: in s, multiples of the time step.
    """
    n_steps, dt = trials.timeline.n_steps, trials.timeline.dt
    for name, seconds in (("before", before), ("after", after)):
        if seconds > n_steps * dt + 1e-6:
            raise ValueError(f"`{name}` must be within a trial, {n_steps * dt:.4g} s, got {seconds} s.")
    offsets = jnp.arange(-n_steps_in("before", before, dt), n_steps_in("after", after, dt))
    last, axis = move_trial_time_last(values, trials, time_axis)
    happens = trials.timeline.happens(event)
    steps = trials.timeline.events[event][:, None] + offsets
    is_there = (steps >= 0) & (steps < n_steps) & happens[:, None]
    rows = jnp.arange(steps.shape[0])[:, None]
    aligned = last[..., rows, jnp.clip(steps, 0, n_steps - 1)]
    return jnp.moveaxis(jnp.where(is_there, aligned, jnp.nan), (-2, -1), (axis - 1, axis))
