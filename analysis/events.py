"""Time courses counted from an event of each trial."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.analysis.trial_axes import time_back, trial_time_last
from popsim.checks import n_steps_in
from popsim.trial import Trial


def time_from_event(trials: Trial, event: str) -> Float[Array, "trial time"]:
    """When each step of each trial begins, in seconds from an event: 0 at its step, negative before it.

    The state that is recorded at a step is that at its end, `dt` later: add `trials.timeline.dt` for the
    times of states, by which `reaction_time` and `decision_time` count. NaN in trials in which the event does
    not come.

    **Arguments:**

    - `trials`: stacked trials.
    - `event`: its name.

    **Raises:** `ValueError` if the trials have no event of that name.
    """
    happens = trials.timeline.happens(event)
    steps = jnp.arange(trials.timeline.n_steps) - trials.timeline.events[event][:, None]
    since = steps.astype(float) * trials.timeline.dt
    return jnp.where(happens[:, None], since, jnp.nan)


def aligned_to(
    values: Float[Array, "..."],
    trials: Trial,
    event: str,
    *,
    before: float,
    after: float,
    time_axis: int = -1,
) -> Float[Array, "..."]:
    """Values from `before` seconds before an event of each trial to `after` seconds after it.

    The axis of time then has the same times from the event in all trials, -before, -before + dt, ... up to
    but without `after`: its index `before / dt` is the step of the event. NaN where a trial has no such step,
    and in trials in which the event does not come.

    **Arguments:**

    - `values`: such as `hand_speed(states.hand)`, with axes (member, trial, time).
    - `trials`: stacked trials.
    - `event`: its name.
    - `before`, `after`: in seconds, multiples of the time step.
    - `time_axis`: which axis is time, after that of the trials; -2 where features follow it.

    **Raises:** `ValueError` if `values` are not of these trials, they have no such event, or a time is
        negative, longer than a trial or no multiple of the time step.
    """
    n_steps, dt = trials.timeline.n_steps, trials.timeline.dt
    for name, seconds in (("before", before), ("after", after)):
        if seconds > n_steps * dt + 1e-6:
            raise ValueError(f"`{name}` must be within a trial, {n_steps * dt:.4g} s, got {seconds} s.")
    offsets = jnp.arange(-n_steps_in("before", before, dt), n_steps_in("after", after, dt))
    last = trial_time_last(values, trials, time_axis)
    happens = trials.timeline.happens(event)
    steps = trials.timeline.events[event][:, None] + offsets
    is_there = (steps >= 0) & (steps < n_steps) & happens[:, None]
    rows = jnp.arange(steps.shape[0])[:, None]
    aligned = last[..., rows, jnp.clip(steps, 0, n_steps - 1)]
    return time_back(jnp.where(is_there, aligned, jnp.nan), time_axis)
