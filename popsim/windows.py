"""Timelines of trials, and windows of time in them."""

import abc
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from popsim._shared import checks
from popsim._shared.argument_shapes import check_fields
from popsim._shared.plain_values import plain_number, step_at

__all__ = ["NEVER", "Timeline", "AbstractWindow", "WholeTrial", "InEpoch", "FromEvent", "Before", "Between"]

NEVER = 2**30
"""The time step of an event that does not happen in a trial, such as the go cue of a catch trial."""


class Timeline(eqx.Module):
    """The time steps, epochs and events of a trial.

    An event at a step is visible to the model at that step: an input that begins with an event is present
    from the event's step on.

    **Arguments:**

    - `dt`: the time step in seconds.
    - `n_steps`: the number of time steps.
    - `epochs`: by name, the first step of an epoch and the step after its last.
    - `events`: by name, the step at which an event happens; `NEVER` if it does not.
    """

    dt: float = eqx.field(static=True, converter=plain_number)
    n_steps: int = eqx.field(static=True, converter=plain_number)
    epochs: dict[str, Int[Array, "*trial 2"]] = eqx.field(
        default_factory=dict, converter=lambda epochs: _as_steps(epochs)
    )
    events: dict[str, Int[Array, "*trial"]] = eqx.field(
        default_factory=dict, converter=lambda events: _as_steps(events)
    )

    def __check_init__(self):
        check_fields(self)
        checks.check_time_step(self.dt)
        checks.check_positive_int("n_steps", self.n_steps)
        for kind, shape, named in (("epochs", (2,), self.epochs), ("events", (), self.events)):
            for name, steps in named.items():
                if steps.shape[steps.ndim - len(shape) :] != shape or steps.dtype.kind not in "iu":
                    raise ValueError(
                        f"`{kind}[{name!r}]` must be whole numbers of shape {shape}, "
                        f"got {steps.dtype} of shape {steps.shape}."
                    )

    def in_epoch(self, name: str) -> Bool[Array, "*trial time"]:
        """Return a mask of the steps that belong to the epoch `name`."""
        epoch = self._named("epochs", name)
        steps = jnp.arange(self.n_steps)
        return (steps >= epoch[..., :1]) & (steps < epoch[..., 1:])

    def since(self, event: str, delay: float = 0.0) -> Bool[Array, "*trial time"]:
        """Return a mask of the steps from `delay` seconds after an event on; empty if it does not happen."""
        return jnp.arange(self.n_steps) >= self.step_after(event, delay)[..., None]

    def step_after(self, event: str, delay: float = 0.0) -> Int[Array, "*trial"]:
        """Return the step `delay` seconds after an event, which may lie outside the trial."""
        return self._named("events", event) + checks.steps_of_delay("delay", delay, self.dt)

    def happens(self, event: str) -> Bool[Array, "*trial"]:
        """Return whether an event happens within the trial."""
        return self._named("events", event) < self.n_steps

    def _named(self, kind: str, name: str) -> Int[Array, "..."]:
        named: dict[str, Array] = getattr(self, kind)
        if name not in named:
            raise ValueError(f"`name` must be one of the {kind} of the trial, {sorted(named)}, got {name!r}.")
        return named[name]


def _as_steps(steps: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value if hasattr(value, "shape") else jnp.asarray(value) for key, value in steps.items()}


class AbstractWindow(eqx.Module):
    """Base class of windows, which select time steps of a trial. Subclasses implement `__call__`.

    Used by interventions (when they act) and by losses (which time steps count).

    !!! example

        ```python
        >>> import jax.numpy as jnp, popsim
        >>> class FirstHalf(popsim.windows.AbstractWindow):
        ...     def __call__(self, timeline):
        ...         return jnp.arange(timeline.n_steps) < timeline.n_steps // 2
        >>> FirstHalf()(popsim.Timeline(dt=0.01, n_steps=4)).tolist()
        [True, True, False, False]

        ```
    """

    def __check_init__(self):
        check_fields(self)

    @abc.abstractmethod
    def __call__(self, timeline: Timeline) -> Bool[Array, " time"]:
        """Return a mask of the steps of one trial that are in the window."""


class WholeTrial(AbstractWindow):
    """All time steps."""

    def __call__(self, timeline: Timeline) -> Bool[Array, " time"]:
        return jnp.ones(timeline.n_steps, bool)


class InEpoch(AbstractWindow):
    """The time steps of a named epoch."""

    epoch: str = eqx.field(static=True)

    def __call__(self, timeline: Timeline) -> Bool[Array, " time"]:
        return timeline.in_epoch(self.epoch)


class FromEvent(AbstractWindow):
    """The time from `delay` seconds after an event on, for `duration` seconds, or to the end if None.

    Empty if the event does not happen. The duration is rounded to time steps, half a step up, and is the same
    for every delay.
    """

    event: str = eqx.field(static=True)
    delay: float = eqx.field(static=True, converter=plain_number, default=0.0)
    duration: float | None = eqx.field(static=True, converter=plain_number, default=None)

    def __check_init__(self):
        checks.check_finite("delay", self.delay)
        if self.duration is not None:
            checks.check_non_negative("duration", self.duration)

    def __call__(self, timeline: Timeline) -> Bool[Array, " time"]:
        _check_within("delay", abs(self.delay), timeline)
        if self.duration is None:
            return timeline.since(self.event, self.delay)
        first = timeline.step_after(self.event, self.delay)
        end = first + checks.steps_of_window("duration", self.duration, timeline.dt)
        steps = jnp.arange(timeline.n_steps)
        return (steps >= first) & (steps < end)


class Before(AbstractWindow):
    """The time before an event; the whole trial if it does not happen."""

    event: str = eqx.field(static=True)

    def __call__(self, timeline: Timeline) -> Bool[Array, " time"]:
        return ~timeline.since(self.event)


class Between(AbstractWindow):
    """The time from `start` to `stop`, in seconds since the beginning of the trial.

    Both are rounded to time steps, half a step up, so that windows that adjoin in time do so in steps.
    """

    start: float = eqx.field(static=True, converter=plain_number)
    stop: float = eqx.field(static=True, converter=plain_number)

    def __check_init__(self):
        checks.check_non_negative("start", self.start)
        checks.check_non_negative("stop", self.stop)
        if not self.stop >= self.start:
            raise ValueError(f"`stop` must be at least `start`, {self.start} s, got {self.stop} s.")

    def __call__(self, timeline: Timeline) -> Bool[Array, " time"]:
        _check_within("start", self.start, timeline)
        dt, steps = timeline.dt, jnp.arange(timeline.n_steps)
        checks.steps_of_window("stop - start", round(self.stop - self.start, 12), dt)
        return (steps >= step_at(self.start, dt)) & (steps < step_at(self.stop, dt))


def _check_within(name: str, seconds: float, timeline: Timeline) -> None:
    """Raise `ValueError` if a time is longer than a trial: most likely it is not in seconds."""
    duration = timeline.n_steps * timeline.dt
    if seconds > duration:
        raise ValueError(f"`{name}` of a window must be within a trial, {duration:.4g} s, got {seconds} s.")
