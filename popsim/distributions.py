"""Distributions for the quantities of a trial."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from popsim._shared import checks
from popsim._shared.argument_shapes import check_one_number
from popsim.per_member import is_per_member
from popsim.randomness import as_key

__all__ = ["AbstractDistribution", "Constant", "Uniform", "Normal", "Choice", "TruncatedExponential"]


class AbstractDistribution(eqx.Module):
    """Base class of distributions, which are sampled once per trial.

    Subclasses implement `sample` and `bounds`. Parameters are arrays: they may be a `PerMember`, or follow a
    schedule over training batches (`popsim.tasks.ParameterCurriculum`).

    !!! example

        ```python
        >>> import jax, jax.numpy as jnp, popsim
        >>> class Sign(popsim.distributions.AbstractDistribution):
        ...     def sample(self, *, key):
        ...         return jax.random.rademacher(key, (), float)
        ...     def bounds(self):
        ...         return jnp.array(-1.0), jnp.array(1.0)
        >>> float(abs(Sign().sample(key=jax.random.key(0))))
        1.0

        ```
    """

    @abc.abstractmethod
    def sample(self, *, key: Key[Array, ""]) -> Float[Array, "*shape"]:
        """Draw one sample."""

    @abc.abstractmethod
    def bounds(self) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
        """Return the lowest and the highest possible value; infinite where there is no bound."""


class Constant(AbstractDistribution):
    """A distribution that always returns `value`, a number or an array."""

    value: Float[Array, "*shape"] = eqx.field(converter=checks.as_float_array)

    def __check_init__(self):
        checks.check_finite("value", self.value)

    def sample(self, *, key: Key[Array, ""]) -> Float[Array, "*shape"]:
        return self.value

    def bounds(self) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
        return self.value, self.value


class Uniform(AbstractDistribution):
    """A uniform distribution between `low` and `high`, numbers or arrays of the same shape."""

    low: Float[Array, "*shape"] = eqx.field(converter=checks.as_float_array)
    high: Float[Array, "*shape"] = eqx.field(converter=checks.as_float_array)

    def __check_init__(self):
        _check_order("low", self.low, "high", self.high)

    def sample(self, *, key: Key[Array, ""]) -> Float[Array, "*shape"]:
        u = jax.random.uniform(as_key(key), self.low.shape, self.low.dtype)
        return self.low + (self.high - self.low) * u

    def bounds(self) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
        return self.low, self.high


class Normal(AbstractDistribution):
    """A normal distribution with mean `mean` and standard deviation `std`, of the same shape."""

    mean: Float[Array, "*shape"] = eqx.field(converter=checks.as_float_array)
    std: Float[Array, "*shape"] = eqx.field(converter=checks.as_float_array)

    def __check_init__(self):
        checks.check_finite("mean", self.mean)
        checks.check_non_negative("std", self.std)
        _check_same_shape("mean", self.mean, "std", self.std)

    def sample(self, *, key: Key[Array, ""]) -> Float[Array, "*shape"]:
        return self.mean + self.std * jax.random.normal(as_key(key), self.mean.shape, self.mean.dtype)

    def bounds(self) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
        infinite = jnp.full_like(self.mean, jnp.inf)
        return -infinite, infinite


class Choice(AbstractDistribution):
    """A uniform choice among `values`: numbers, or arrays stacked on the leading axis."""

    values: Float[Array, "choice ..."] = eqx.field(converter=checks.as_float_array)

    def __check_init__(self):
        checks.check_finite("values", self.values)
        if not is_per_member(self.values) and (self.values.ndim == 0 or not self.values.size):
            raise ValueError(f"`values` must be some to choose from, got {self.values}.")

    def sample(self, *, key: Key[Array, ""]) -> Float[Array, "*shape"]:
        return self.values[jax.random.randint(as_key(key), (), 0, self.values.shape[0])]

    def bounds(self) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
        return jnp.min(self.values, axis=0), jnp.max(self.values, axis=0)


class TruncatedExponential(AbstractDistribution):
    """An exponential distribution with scale `scale` that starts at `low` and is truncated at `high`.

    Commonly used for foreperiods: the hazard rate rises only close to `high`. A sample is low - scale log(1 -
    u F), with u uniform and F the probability of the untruncated distribution below `high`.
    """

    low: Float[Array, ""] = eqx.field(converter=checks.as_float_array)
    high: Float[Array, ""] = eqx.field(converter=checks.as_float_array)
    scale: Float[Array, ""] = eqx.field(converter=checks.as_float_array)

    def __check_init__(self):
        _check_order("low", self.low, "high", self.high)
        checks.check_positive("scale", self.scale)
        for name in ("low", "scale"):
            check_one_number(name, getattr(self, name))

    def sample(self, *, key: Key[Array, ""]) -> Float[Array, ""]:
        below = -jnp.expm1(-(self.high - self.low) / self.scale)
        u = jax.random.uniform(as_key(key), (), self.low.dtype)
        return jnp.minimum(self.low - self.scale * jnp.log1p(-u * below), self.high)  # against rounding

    def bounds(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        return self.low, self.high


def as_distribution(value: Any) -> AbstractDistribution:
    """Convert a number or an array to a `Constant`, and return a distribution unchanged."""
    return value if isinstance(value, AbstractDistribution) else Constant(value)


def _check_order(lower_name: str, lower: Any, upper_name: str, upper: Any) -> None:
    """Raise `ValueError` unless two parameters are finite, in order and of the same shape."""
    checks.check_finite(lower_name, lower)
    checks.check_finite(upper_name, upper)
    _check_same_shape(lower_name, lower, upper_name, upper)
    low, high = (bound.values if is_per_member(bound) else bound for bound in (lower, upper))
    if not checks.is_traced(low, high) and np.any(np.asarray(low) > np.asarray(high)):
        raise ValueError(
            f"`{upper_name}` must be at least `{lower_name}`, {checks.short_repr(low)}, "
            f"got {checks.short_repr(high)}."
        )


def _check_same_shape(name: str, values: Any, other_name: str, other_values: Any) -> None:
    """Raise `ValueError` unless two parameters have the same shape; for a `PerMember`, per member."""
    shape, other_shape = (
        parameter.values.shape[1:] if is_per_member(parameter) else parameter.shape
        for parameter in (values, other_values)
    )
    if shape != other_shape:
        raise ValueError(f"`{other_name}` must have the shape of `{name}`, {shape}, got {other_shape}.")


FARTHEST = 1e30
"""A logit whose probability is zero or one in any precision."""


def bounded_logits(logits: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Return logits within ±1e30, so that p log p of what is forbidden is 0, not 0 times infinity."""
    return jnp.clip(logits, -FARTHEST, FARTHEST)


def weigh(weights: Float[Array, "*#axes"], values: Float[Array, "*#axes"]) -> Float[Array, "*axes"]:
    """Return the product, zero as its derivatives where the weight is zero and the value is infinite."""
    return weights * jnp.where((weights == 0) & jnp.isinf(values), 0.0, values)
