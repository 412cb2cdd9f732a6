"""Windows: which time steps of a trial are meant, by epoch, event or time."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool

from popsim.checks import check_non_negative
from popsim.timeline import Timeline


class AbstractWindow(eqx.Module):
    """Which time steps of a trial are meant. A subclass supplies `__call__`.

    Used by interventions (when they act) and by losses (what counts).

    !!! example

        ```python
        >>> import jax.numpy as jnp, popsim
        >>> class FirstHalf(popsim.AbstractWindow):
        ...     def __call__(self, timeline):
        ...         return jnp.arange(timeline.n_steps) < timeline.n_steps // 2
        >>> FirstHalf()(popsim.Timeline(dt=0.01, n_steps=4)).tolist()
        [True, True, False, False]

        ```
    """

    @abc.abstractmethod
    def __call__(self, timeline: Timeline) -> Bool[Array, " time"]:
        """Which steps of one trial are meant."""


class WholeTrial(AbstractWindow):
    """Every time step."""

    def __call__(self, timeline: Timeline) -> Bool[Array, " time"]:
        return jnp.ones(timeline.n_steps, bool)


class InEpoch(AbstractWindow):
    """The time steps of a named epoch."""

    epoch: str = eqx.field(static=True)

    def __call__(self, timeline: Timeline) -> Bool[Array, " time"]:
        return timeline.in_epoch(self.epoch)


class FromEvent(AbstractWindow):
    """From a named event on: after `delay` seconds, for `duration` seconds or, if None, to the end.

    Where the event never comes, no step is meant.

    **Raises:** `ValueError` if `delay` is not finite, or longer than the trial, or `duration` negative.
    """

    event: str = eqx.field(static=True)
    delay: float = eqx.field(static=True, default=0.0)
    duration: float | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        check_non_negative("delay", abs(self.delay))
        if self.duration is not None:
            check_non_negative("duration", self.duration)

    def __call__(self, timeline: Timeline) -> Bool[Array, " time"]:
        _check_within("delay", abs(self.delay), timeline)
        begun = timeline.since(self.event, self.delay)
        if self.duration is None:
            return begun
        return begun & ~timeline.since(self.event, self.delay + self.duration)


class Before(AbstractWindow):
    """Until a named event; the whole trial where it never comes."""

    event: str = eqx.field(static=True)

    def __call__(self, timeline: Timeline) -> Bool[Array, " time"]:
        return ~timeline.since(self.event)


class Between(AbstractWindow):
    """From `start` to `stop`, in seconds since the beginning of the trial.

    **Raises:** `ValueError` if `start` is negative, or `stop` is before it or not finite.
    """

    start: float = eqx.field(static=True)
    stop: float = eqx.field(static=True)

    def __check_init__(self):
        check_non_negative("start", self.start)
        check_non_negative("stop", self.stop)
        if not self.stop >= self.start:
            raise ValueError(f"`stop` must be at least `start`, {self.start} s, got {self.stop} s.")

    def __call__(self, timeline: Timeline) -> Bool[Array, " time"]:
        _check_within("start", self.start, timeline)
        steps = jnp.arange(timeline.n_steps)
        return (steps >= round(self.start / timeline.dt)) & (steps < round(self.stop / timeline.dt))


def _check_within(name: str, seconds: float, timeline: Timeline) -> None:
    """Raise `ValueError` if a time is longer than a trial: most likely it was not given in seconds."""
    duration = timeline.n_steps * timeline.dt
    if seconds > duration:
        raise ValueError(f"`{name}` of a window must be within a trial, {duration:.4g} s, got {seconds} s.")
