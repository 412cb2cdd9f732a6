"""Trials composed of epochs with random durations."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from popsim._shared import checks
from popsim._shared.argument_shapes import check_fields
from popsim._shared.plain_values import plain_number, step_at
from popsim.distributions import AbstractDistribution, Constant, as_distribution
from popsim.per_member import has_per_member, is_per_member
from popsim.randomness import key_stream
from popsim.windows import NEVER, Timeline

__all__ = ["Epoch", "TrialPlan"]


def _as_duration(value: Any) -> AbstractDistribution | None:
    return None if value is None else as_distribution(value)


class Epoch(eqx.Module):
    """An epoch of a `TrialPlan`.

    **Arguments:**

    - `name`: such as "hold".
    - `duration`: in seconds: a number, or a distribution that each trial draws from; None for the rest of the
        trial. Where an epoch ends is rounded to time steps, half a step up, so that ten epochs of .125 s last
        1.25 s at any time step.
    - `event`: the name of an event at its first step, such as "go cue"; None for no event.
    """

    name: str = eqx.field(static=True)
    duration: AbstractDistribution | None = eqx.field(converter=_as_duration, default=None)
    event: str | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        check_fields(self)


def _bounds_of_all_members(duration: AbstractDistribution) -> tuple[Array, Array]:
    """Return the lowest and the highest time that any member may draw, in seconds."""

    def at(extreme: Callable[..., Array]) -> AbstractDistribution:
        return jax.tree.map(
            lambda node: extreme(node.values, axis=0) if is_per_member(node) else node,
            duration,
            is_leaf=is_per_member,
        )

    return at(jnp.min).bounds()[0], at(jnp.max).bounds()[1]


def longest_time(epochs: Sequence[Epoch]) -> float | None:
    """Return the largest total duration of epochs that have one, in s; None if JAX traces it."""
    longest = 0.0
    for epoch in epochs:
        if epoch.duration is None:
            continue
        _, high = _bounds_of_all_members(epoch.duration)
        if checks.is_traced(high):
            return None
        longest += float(high)
    return longest


def _middle(epoch: Epoch) -> Float[Array, ""] | None:
    if epoch.duration is None:
        return None
    low, high = epoch.duration.bounds()
    return (low + high) / 2


class TrialPlan(eqx.Module):
    """A distribution of the `Timeline` of a trial.

    In a catch trial `catch_event` does not happen (its step is `NEVER`): the epoch before it lasts to the end
    of the trial, and later epochs are empty.

    **Arguments:**

    - `epochs`: the epochs in order; only the last may have no duration.
    - `duration`: of the whole trial, in seconds; the same in all trials.
    - `dt`: the time step in seconds.
    - `catch_event`: the event that catch trials omit.
    - `catch_probability`: the probability of a catch trial.

    !!! example

        ```python
        >>> import jax, popsim
        >>> plan = popsim.TrialPlan(
        ...     (
        ...         popsim.Epoch("hold", popsim.distributions.Uniform(0.2, 0.5), event="target on"),
        ...         popsim.Epoch("movement", event="go cue"),
        ...     ),
        ...     duration=1.0, dt=0.01, catch_event="go cue", catch_probability=0.1,
        ... )
        >>> timeline = plan.draw(key=jax.random.key(0))
        >>> 20 <= int(timeline.events["go cue"]) <= 50
        True

        ```
    """

    epochs: tuple[Epoch, ...] = eqx.field(
        converter=lambda epochs: checks.as_parts("epochs", epochs, Epoch, "epochs")
    )
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True)
    catch_event: str | None = eqx.field(static=True, kw_only=True, default=None)
    catch_probability: Float[Array, ""] = eqx.field(
        kw_only=True, converter=checks.as_float_array, default=0.0
    )

    def __check_init__(self):
        check_fields(self)
        checks.check_time_step(self.dt)
        checks.check_positive("duration", self.duration)
        checks.warn_of_unit("duration", self.duration, "duration")
        checks.n_steps_in("duration", self.duration, self.dt)
        checks.check_fraction("catch_probability", self.catch_probability)
        names = [epoch.name for epoch in self.epochs]
        events = [epoch.event for epoch in self.epochs if epoch.event is not None]
        for kind, labels in (("names", names), ("events", events)):
            if not names or len(set(labels)) < len(labels):
                raise ValueError(f"`epochs` must be at least one, and have different {kind}, got {labels}.")
        if any(epoch.duration is None for epoch in self.epochs[:-1]):
            raise ValueError(f"`epochs` must have durations, all but the last, got {names} without.")
        self._check_durations()
        self._check_catch()

    def _check_durations(self) -> None:
        for epoch in self.epochs:
            if epoch.duration is None:
                continue
            low, high = _bounds_of_all_members(epoch.duration)
            if np.shape(low):
                raise ValueError(
                    f"`duration` of the epoch {epoch.name!r} must be one number, got shape {np.shape(low)}."
                )
            if checks.is_traced(low) or checks.is_traced(high):
                return
            if not 0 <= float(low) <= float(high) < float("inf"):
                raise ValueError(
                    f"`duration` of the epoch {epoch.name!r} must be finite and at least zero, "
                    f"got from {checks.short_repr(low)} to {checks.short_repr(high)} s."
                )
            if isinstance(epoch.duration, Constant):
                for seconds in np.ravel((low, high)):
                    checks.steps_of_window(f"duration of the epoch {epoch.name!r}", seconds, self.dt)
        longest = longest_time(self.epochs)
        if longest is not None and longest > self.duration + 1e-6:
            raise ValueError(
                f"`epochs` must not last longer than the trial, {self.duration} s, got up to {longest:.4g} s."
            )

    def _check_catch(self) -> None:
        events = [epoch.event for epoch in self.epochs[1:] if epoch.event is not None]
        if self.catch_event is not None and self.catch_event not in events:
            raise ValueError(
                f"`catch_event` must begin an epoch after the first, one of {events}, "
                f"got {self.catch_event!r}."
            )
        probability = self.catch_probability
        is_known = not checks.is_traced(probability) and not has_per_member(probability)
        if self.catch_event is None and is_known and float(probability) > 0:
            raise ValueError("`catch_probability` needs a `catch_event`, got none.")

    @property
    def n_steps(self) -> int:
        """The number of time steps of a trial."""
        return checks.n_steps_in("duration", self.duration, self.dt)

    def draw(self, *, key: Key[Array, ""]) -> Timeline:
        """Draw the timeline of one trial."""
        durations = [
            None
            if epoch.duration is None
            else epoch.duration.sample(key=key_stream(key, f"epoch {epoch.name}"))
            for epoch in self.epochs
        ]
        u = jax.random.uniform(key_stream(key, "catch"), ())
        return self._timeline(durations, u < self.catch_probability)

    def nominal(self) -> Timeline:
        """Return the timeline of a trial that is not a catch trial, with epochs of mid-range durations."""
        return self._timeline([_middle(epoch) for epoch in self.epochs], jnp.asarray(False))

    def _timeline(self, durations: Sequence[Float[Array, ""] | None], is_catch: Bool[Array, ""]) -> Timeline:
        dtype = jnp.result_type(*[each for each in durations if each is not None] or [float])
        remainder = jnp.asarray(self.duration, dtype)  # long enough to end after the trial
        seconds = jnp.stack([remainder if each is None else each for each in durations])
        ends = jnp.minimum(step_at(jnp.cumsum(seconds), self.dt), self.n_steps)
        starts = jnp.concatenate([jnp.zeros(1, ends.dtype), ends[:-1]])
        bounds = jnp.stack([starts, ends], axis=-1)
        begins = [epoch.event for epoch in self.epochs]
        withheld = len(begins) if self.catch_event is None else begins.index(self.catch_event)
        after = jnp.arange(len(begins)) >= withheld
        caught = jnp.where(after[:, None], self.n_steps, bounds)
        caught = caught.at[withheld - 1, 1].set(self.n_steps)  # the epoch before lasts to the end
        bounds = jnp.where(is_catch, caught, bounds)
        comes = jnp.where((is_catch & after) | (starts >= self.n_steps), NEVER, starts)
        return Timeline(
            self.dt,
            self.n_steps,
            epochs={epoch.name: bounds[i] for i, epoch in enumerate(self.epochs)},
            events={event: comes[i] for i, event in enumerate(begins) if event is not None},
        )
