"""Muscle activation driven by excitation."""

import abc
from collections.abc import Sequence
from typing import ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from popsim._shared import checks
from popsim._shared.argument_shapes import check_of_one_model
from popsim.parameters import Constants

__all__ = ["AbstractActivation", "FirstOrderActivation", "LinearActivation"]

Muscles = Float[Array, " muscles"]
ModuleType = TypeVar("ModuleType", bound=eqx.Module)


def check_parameters(
    module: eqx.Module, *, positive: Sequence[str] = (), non_negative: Sequence[str] = ()
) -> None:
    """Raise `ValueError` unless the fields named have their sign, and all arrays agree on the muscles."""
    for name in (*positive, *non_negative):
        check_of_one_model(name, getattr(module, name))
    for name in positive:
        checks.check_positive(name, getattr(module, name))
    for name in non_negative:
        checks.check_non_negative(name, getattr(module, name))
    n_muscles = None
    for path, value in jax.tree_util.tree_leaves_with_path(module):
        if np.ndim(value) == 0:
            continue
        if np.ndim(value) > 1 or len(value) != (n_muscles or len(value)):
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            expected = "" if n_muscles is None else f" of {n_muscles}"
            raise ValueError(
                f"`{name}` must be one number, or one for each muscle{expected}, got shape {np.shape(value)}."
            )
        n_muscles = len(value)


def check_above(name: str, value: Array, bound: Array | float) -> None:
    """Raise `ValueError` unless `value` is above `bound`."""
    if checks.violates(np.greater, value, bound):
        raise ValueError(f"`{name}` must be above {bound}, got {value}.")


def join(first: ModuleType, second: eqx.Module) -> ModuleType:
    """Concatenate muscles of one class, with each parameter per muscle; a module of scalars is one."""
    if jax.tree.structure(first) != jax.tree.structure(second):
        expected = f"of the same class and options, a {type(first).__name__}"
        raise ValueError(f"`other` must be {expected}, got {checks.short_repr(second)}.")
    n_first, n_second = _n_muscles(first), _n_muscles(second)

    def of_all(a: Array, b: Array) -> Array:
        a = jnp.broadcast_to(a, (n_first,)) if a.ndim == 0 else a
        b = jnp.broadcast_to(b, (n_second,)) if b.ndim == 0 else b
        if a.shape[1:] != b.shape[1:]:
            raise ValueError(
                f"`other` must be of the same body, with parameters of shape {a.shape[1:]} for a muscle, "
                f"got {b.shape[1:]}."
            )
        return jnp.concatenate([a, b])

    return jax.tree.map(of_all, first, second)


def _n_muscles(muscles: eqx.Module) -> int:
    return max(leaf.shape[0] if leaf.ndim else 1 for leaf in jax.tree.leaves(muscles))


class AbstractActivation(eqx.Module):
    """Base class of activation dynamics, of one muscle or of all muscles of a plant.

    **Fields:**

    - `lowest`: the minimal activation, from zero to one. Excitation is clipped to [lowest, 1].

    !!! example

        ```python
        >>> import jax.numpy as jnp, popsim
        >>> class Instant(popsim.muscles.AbstractActivation):
        ...     lowest: jnp.ndarray
        ...     def advance(self, t, activation, excitation):
        ...         return jnp.clip(excitation, self.lowest, 1.0)
        >>> arm = popsim.plants.li_todorov_arm(activation=Instant(jnp.array(0.0)))

        ```
    """

    constants: ClassVar[Constants] = "all"
    lowest: eqx.AbstractVar[Float[Array, "..."]]

    @abc.abstractmethod
    def advance(self, t: ArrayLike, activation: Muscles, excitation: Muscles) -> Muscles:
        """Return the activation after `t` seconds of constant excitation.

        **Arguments:**

        - `t`: the time in seconds, zero or more.
        - `activation`: the initial activation, from zero to one.
        - `excitation`: constant over that time, clipped to [lowest, 1]. Its gradient is zero outside, and
            halved at a bound.

        **Returns:** the activation, which lies between its initial value and the excitation.
        """


class AbstractRiseAndFall(AbstractActivation):
    """Activation dynamics with a time constant of rising and one of falling, in seconds.

    Each field is a scalar or of shape (muscles,).
    """

    rise_time: Float[Array, "..."] = eqx.field(converter=checks.as_float_array)
    fall_time: Float[Array, "..."] = eqx.field(converter=checks.as_float_array)
    lowest: Float[Array, "..."] = eqx.field(converter=checks.as_float_array, default=0.0)

    def __check_init__(self):
        checks.check_fraction("lowest", self.lowest)
        check_parameters(self, positive=("rise_time", "fall_time"))


class LinearActivation(AbstractRiseAndFall):
    """Activation dynamics that are linear under constant excitation, the faster the stronger it is.

    da/dt = (u - a) / T, with T = fall_time + u (rise_time - fall_time) if u > a, otherwise T = fall_time: the
    filter of Li & Todorov 2004, Proc ICINCO 1:222-229 (and Todorov & Li 2005, Proc ACC 300-306), with 50 and
    66 ms; equation and constants as in three public copies of their model, not checked against the papers.
    `advance` solves this exactly, as T does not change while the activation approaches the excitation.

    **Arguments:**

    - `rise_time`: the time constant of rising at full excitation, in seconds.
    - `fall_time`: that of falling, and the limit of that of rising at low excitation, in seconds.
    - `lowest`: the minimal activation, from zero to one. Excitation is clipped to [lowest, 1].

    Each is a scalar or of shape (muscles,).
    """

    rise_time: Float[Array, "..."] = eqx.field(converter=checks.as_float_array, default=0.05)
    fall_time: Float[Array, "..."] = eqx.field(converter=checks.as_float_array, default=0.066)

    def advance(self, t: ArrayLike, activation: Muscles, excitation: Muscles) -> Muscles:
        excitation = jnp.clip(excitation, self.lowest, 1.0)
        gap = excitation - activation
        rising = self.fall_time + excitation * (self.rise_time - self.fall_time)
        return excitation - gap * jnp.exp(-(t / jnp.where(gap > 0, rising, self.fall_time)))


N_NEWTON_STEPS = 4  # the error of the activation is then below 2e-15 (with 3 steps: 5e-8)


class FirstOrderActivation(AbstractRiseAndFall):
    """First-order activation dynamics with a fast rise and a slow fall.

    da/dt = (u - a) / T, with T = rise_time (0.5 + 1.5 a) if u > a, otherwise T = fall_time / (0.5 + 1.5 a)
    (Thelen 2003, J Biomech Eng 125:70-77, eqs. 1 and 2; the same in MuJoCo's muscles, checked in its
    source). `advance` solves this exactly, so it never overshoots, whatever the time step.

    **Arguments:**

    - `rise_time`: the time constant of rising at an activation of one third, in seconds.
    - `fall_time`: that of falling, in seconds.
    - `lowest`: the minimal activation, from zero to one. Excitation is clipped to [lowest, 1].

    Each is a scalar or of shape (muscles,).
    """

    rise_time: Float[Array, "..."] = eqx.field(converter=checks.as_float_array, default=0.015)
    fall_time: Float[Array, "..."] = eqx.field(converter=checks.as_float_array, default=0.05)

    def advance(self, t: ArrayLike, activation: Muscles, excitation: Muscles) -> Muscles:
        """Return the activation after `t` seconds of constant excitation, see `AbstractActivation`.

        Falling is a logistic equation with a closed form. Rising satisfies
        (0.5 + 1.5 u) g - 1.5 (u - a) (1 - exp(-g)) = t / rise_time, where u - a(t) = (u - a) exp(-g).
        """
        excitation = jnp.clip(excitation, self.lowest, 1.0)
        gap = excitation - activation
        rises = gap > 0
        rate = 0.5 + 1.5 * excitation

        # Both solutions are evaluated; each is given a harmless gap where the other one applies.
        up = jnp.where(rises, gap, 0.0)
        shrinkage = _shrinkage(rate, up, t / self.rise_time)
        risen = excitation - up * jnp.exp(-shrinkage)

        down = jnp.where(rises, 0.0, -gap)
        fraction = jnp.exp(-rate * (t / self.fall_time))
        fallen = excitation + down * fraction / (1 + 1.5 * down / rate * (1 - fraction))
        return jnp.where(rises, risen, fallen)


@jax.custom_jvp
def _shrinkage(rate: Array, gap: Array, time: Array) -> Array:
    """Solve rate g - 1.5 gap (1 - exp(-g)) = time for g."""
    # The left side is convex and increasing, and both bounds are above the solution: Newton's method descends
    # to it monotonically.
    g = jnp.minimum(time / (rate - 1.5 * gap), (time + 1.5 * gap) / rate)
    for _ in range(N_NEWTON_STEPS):
        excess = 1.5 * gap * jnp.exp(-g)
        g = jnp.maximum(g - (rate * g + excess - 1.5 * gap - time) / (rate - excess), 0.0)
    return g


@_shrinkage.defjvp
def _shrinkage_jvp(primals, tangents):
    """Differentiate by the implicit function theorem."""
    rate, gap, _ = primals
    d_rate, d_gap, d_time = tangents
    g = _shrinkage(*primals)
    slope = 1.5 * jnp.exp(-g)
    return g, (d_time - g * d_rate + (1.5 - slope) * d_gap) / (rate - slope * gap)
