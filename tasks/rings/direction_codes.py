"""Codes by which the activity of several units represents a direction."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim._argument_shapes import check_fields
from popsim._checks import as_float_array, check_finite, check_positive, check_positive_int
from popsim._plain_values import plain_number
from popsim.tasks.trial_parts import even_directions, ring_tuning, wrap_angle

__all__ = ["AbstractDirectionCode", "RingCode", "SineCode"]


class AbstractDirectionCode(eqx.Module):
    """Base class of codes by which the activity of units represents a direction.

    A subclass has `n_units`, and `silence`, the target of each unit where there is no direction.

    !!! example

        ```python
        >>> import equinox as eqx, jax, jax.numpy as jnp
        >>> from popsim.tasks import AbstractDirectionCode
        >>> class Cosines(AbstractDirectionCode):
        ...     n_units: int = 4
        ...     silence: jax.Array = eqx.field(default_factory=lambda: jnp.zeros(()))
        ...     def encode(self, direction):
        ...         return jnp.cos(direction[..., None] - jnp.arange(4) * jnp.pi / 2)
        ...     def decode(self, activity):
        ...         right, up, left, down = jnp.moveaxis(activity, -1, 0)
        ...         return jnp.arctan2(up - down, right - left)
        >>> code = Cosines()
        >>> round(float(code.decode(code.encode(jnp.array(2.0)))), 4)
        2.0

        ```
    """

    n_units: eqx.AbstractVar[int]
    silence: eqx.AbstractVar[Float[Array, ""]]

    @abc.abstractmethod
    def encode(self, direction: Float[Array, "*axes"]) -> Float[Array, "*axes unit"]:
        """Return the activity for a direction in rad, without `silence`."""

    @abc.abstractmethod
    def decode(self, activity: Float[Array, "*axes unit"]) -> Float[Array, "*axes"]:
        """Return the direction that an activity represents, in rad in (-pi, pi]."""


class RingCode(AbstractDirectionCode):
    """Units on a ring, with Gaussian tuning, that are read out by their population vector.

    The tuning is `peak` exp(-(8 d / pi)² / 2) at distance d from the preferred direction; the population
    vector is the direction of sum_i r_i (cos, sin) of the preferred directions. Both are those of Yang,
    Joglekar, Song, Newsome & Wang 2019, Nat Neurosci 22:297 (checked in gyyang/multitask, `task.py` and
    `popvec` in `network.py`).

    **Arguments:**

    - `n_units`: the number of units.
    - `peak`: the activity of a unit for its preferred direction.
    - `silence`: the target of each unit where there is no direction, to which a direction adds.
    """

    n_units: int = eqx.field(static=True, converter=plain_number, default=32)
    peak: Float[Array, ""] = eqx.field(converter=as_float_array, kw_only=True, default=0.8)
    silence: Float[Array, ""] = eqx.field(converter=as_float_array, kw_only=True, default=0.05)

    def __check_init__(self):
        check_fields(self)
        check_positive_int("n_units", self.n_units)
        check_positive("peak", self.peak)
        check_finite("silence", self.silence)
        if self.n_units < 3:
            raise ValueError(f"`n_units` must be at least 3, for a population vector, got {self.n_units}.")

    def encode(self, direction: Float[Array, "*axes"]) -> Float[Array, "*axes unit"]:
        return self.peak * ring_tuning(direction, self.n_units)

    def decode(self, activity: Float[Array, "*axes unit"]) -> Float[Array, "*axes"]:
        preferred = even_directions(self.n_units)
        return wrap_angle(jnp.arctan2(activity @ jnp.sin(preferred), activity @ jnp.cos(preferred)))


class SineCode(AbstractDirectionCode):
    """The sine and the cosine of a direction, in this order.

    The code of Driscoll, Shenoy & Sussillo 2024, Nat Neurosci 27:1349 (checked in
    lauradriscoll/flexible_multitask, `stepnet/task.py` and `popvec` in `stepnet/network.py`).

    **Arguments:**

    - `n_units`: 2.
    - `silence`: the target of each unit where there is no direction, to which a direction adds.
    """

    n_units: int = eqx.field(static=True, converter=plain_number, default=2)
    silence: Float[Array, ""] = eqx.field(converter=as_float_array, kw_only=True, default=0.0)

    def __check_init__(self):
        check_fields(self)
        check_finite("silence", self.silence)
        if self.n_units != 2:
            raise ValueError(
                f"`n_units` must be 2, one for the sine and one for the cosine, got {self.n_units}."
            )

    def encode(self, direction: Float[Array, "*axes"]) -> Float[Array, "*axes unit"]:
        return jnp.stack([jnp.sin(direction), jnp.cos(direction)], axis=-1)

    def decode(self, activity: Float[Array, "*axes unit"]) -> Float[Array, "*axes"]:
        return wrap_angle(jnp.arctan2(activity[..., 0], activity[..., 1]))
