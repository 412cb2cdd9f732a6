"""Schedules over training batches."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from popsim._shared.checks import as_float_array, check_finite, check_fraction, concrete_value
from popsim._shared.plain_values import plain_number
from popsim.per_member import has_per_member, is_per_member

__all__ = ["AbstractBatchSchedule", "ConstantSchedule", "LinearSchedule", "PiecewiseSchedule"]

LAST_BATCH = 2**30
"""A batch number after which no schedule changes: schedules have their final values here."""


class AbstractBatchSchedule(eqx.Module):
    """Base class of numbers or arrays that depend on the training batch, counted from 0.

    A schedule may replace the weight of a loss term (`LinearSchedule(...) * Effort()`), a parameter or the
    share of an intervention (`InterventionPlan`), or any array of a task
    (`popsim.tasks.ParameterCurriculum`). Subclasses implement `__call__`; after training it is called with
    `LAST_BATCH`.

    !!! example

        ```python
        >>> import jax.numpy as jnp, popsim
        >>> class EveryOther(popsim.schedules.AbstractBatchSchedule):
        ...     def __call__(self, batch):
        ...         return jnp.asarray(batch % 2, float)
        >>> float(EveryOther()(3))
        1.0

        ```
    """

    @abc.abstractmethod
    def __call__(self, batch: int | Int[Array, ""]) -> Float[Array, "*shape"]:
        """Return the value in a training batch."""

    def __mul__(self, factor: Any) -> "ScaledSchedule":
        if not is_per_member(factor) and not eqx.is_array_like(factor):
            return NotImplemented
        return ScaledSchedule(self, factor)

    def __rmul__(self, factor: Any) -> "ScaledSchedule":
        return self * factor


class ScaledSchedule(AbstractBatchSchedule):
    """A schedule times a factor, such as `0.1 * LinearSchedule(...)`; the factor may be a `PerMember`."""

    schedule: AbstractBatchSchedule
    factor: Float[Array, ""] = eqx.field(converter=as_float_array)

    def __check_init__(self):
        check_finite("factor", self.factor)

    def __call__(self, batch: int | Int[Array, ""]) -> Float[Array, "*shape"]:
        return self.factor * self.schedule(batch)


class ConstantSchedule(AbstractBatchSchedule):
    """A schedule with the same value in all batches."""

    value: Float[Array, "*shape"] = eqx.field(converter=as_float_array)

    def __check_init__(self):
        check_finite("value", self.value)

    def __call__(self, batch: int | Int[Array, ""]) -> Float[Array, "*shape"]:
        return self.value


class LinearSchedule(AbstractBatchSchedule):
    """A linear change from `start` to `stop` between two batches, constant before and after them.

    **Arguments:**

    - `start`, `stop`: the two values, numbers or arrays of the same shape.
    - `first_batch`, `last_batch`: the batches between which the value changes.
    """

    start: Float[Array, "*shape"] = eqx.field(converter=as_float_array)
    stop: Float[Array, "*shape"] = eqx.field(converter=as_float_array)
    first_batch: int = eqx.field(static=True, converter=plain_number, kw_only=True, default=0)
    last_batch: int = eqx.field(static=True, converter=plain_number, kw_only=True)

    def __check_init__(self):
        check_finite("start", self.start)
        check_finite("stop", self.stop)
        if not 0 <= self.first_batch < self.last_batch:
            raise ValueError(
                f"`last_batch` must be after `first_batch`, {self.first_batch}, got {self.last_batch}."
            )

    def __call__(self, batch: int | Int[Array, ""]) -> Float[Array, "*shape"]:
        since = jnp.asarray(batch, self.start.dtype) - self.first_batch
        passed = jnp.clip(since / (self.last_batch - self.first_batch), 0.0, 1.0)
        return self.start + passed * (self.stop - self.start)


class PiecewiseSchedule(AbstractBatchSchedule):
    """A piecewise constant schedule: `values[i]` from batch `starts[i]` on.

    **Arguments:**

    - `starts`: the first batch of each phase; that of the first phase is 0.
    - `values`: one value per phase, on the first axis.
    """

    starts: tuple[int, ...] = eqx.field(static=True, converter=tuple)
    values: Float[Array, "phase ..."] = eqx.field(converter=as_float_array)

    def __check_init__(self):
        if not self.starts or self.starts[0] != 0 or np.any(np.diff(self.starts) <= 0):
            raise ValueError(f"`starts` must begin with batch 0 and rise, got {self.starts}.")
        check_finite("values", self.values)
        values: Any = self.values
        axis = np.shape(values.values[0] if is_per_member(values) else values)[:1]
        if axis != (len(self.starts),):
            raise ValueError(f"`values` must be one for each of {len(self.starts)} phases, got {axis}.")

    def __call__(self, batch: int | Int[Array, ""]) -> Float[Array, "*shape"]:
        return self.values[self.phase(batch)]

    def phase(self, batch: int | Int[Array, ""]) -> Int[Array, ""]:
        """Return the index of the phase that a batch belongs to."""
        return jnp.searchsorted(jnp.asarray(self.starts), jnp.asarray(batch), side="right") - 1


def as_batch_schedule(value: Any) -> AbstractBatchSchedule:
    """Convert a number or an array to a `ConstantSchedule`, and return a schedule unchanged."""
    return value if isinstance(value, AbstractBatchSchedule) else ConstantSchedule(value)


def check_fractions(name: str, schedule: AbstractBatchSchedule) -> None:
    """Raise `ValueError` unless values of a schedule are from zero to one, at least its first and last."""
    if isinstance(schedule, ConstantSchedule):
        check_fraction(name, schedule.value)
    elif isinstance(schedule, PiecewiseSchedule):
        check_fraction(name, schedule.values)
    elif not has_per_member(schedule):
        for batch in (0, LAST_BATCH):
            fraction = concrete_value(lambda schedule, batch=batch: schedule(batch), schedule)
            if fraction is not None:
                check_fraction(name, fraction)
