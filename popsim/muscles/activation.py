"""How the activation of a muscle follows its excitation."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from popsim.checks import as_float_array, check_fraction
from popsim.muscles.parameters import check_parameters
from popsim.parameters import Constants

N_NEWTON_STEPS = 4  # the activation is then right to 2e-15, after 3 to 5e-8, at any time and activation


class FirstOrderActivation(eqx.Module):
    """Activation that rises fast and falls slowly, of first order.

    da/dt = (u - a) / T, with T = rise_time (0.5 + 1.5 a) if u > a, and T = fall_time / (0.5 + 1.5 a) else
    (Thelen 2003, J Biomech Eng 125:70-77, eqs. 1 and 2; the same in MuJoCo's muscles, checked in its
    source). `after` solves this exactly, so that no time step overshoots.

    **Arguments:**

    - `rise_time`: in seconds; the time constant of rising at a third of full activation.
    - `fall_time`: in seconds, that of falling.
    - `lowest`: the least activation, from zero to one. Excitation is held within [lowest, 1].

    Each is one number, or one for each muscle.

    **Raises:** `ValueError` if a time is not positive, `lowest` is not from zero to one, or shapes disagree.
    """

    constants: ClassVar[Constants] = "all"
    rise_time: Float[Array, "..."] = eqx.field(converter=as_float_array, default=0.015)
    fall_time: Float[Array, "..."] = eqx.field(converter=as_float_array, default=0.05)
    lowest: Float[Array, "..."] = eqx.field(converter=as_float_array, default=0.0)

    def __check_init__(self):
        check_fraction("lowest", self.lowest)
        check_parameters(self, positive=("rise_time", "fall_time"))

    def after(
        self, t: ArrayLike, activation: Float[Array, " muscles"], excitation: Float[Array, " muscles"]
    ) -> Float[Array, " muscles"]:
        """The activation `t` seconds later, under an excitation that is held.

        Falling has a closed form, as a logistic equation. Rising, with g the logarithm by which the
        distance to the excitation shrinks, u - a(t) = (u - a) exp(-g), satisfies
        (0.5 + 1.5 u) g - 1.5 (u - a) (1 - exp(-g)) = t / rise_time.

        **Arguments:**

        - `t`: the time in seconds, zero or more.
        - `activation`: now, from zero to one.
        - `excitation`: held over that time. Outside of [lowest, 1] it acts as the nearest bound does, and
            gets no gradient; at a bound it gets half of it.

        **Returns:** the activation, between those two: it never passes the excitation.
        """
        excitation = jnp.clip(excitation, self.lowest, 1.0)
        gap = excitation - activation
        rises = gap > 0
        rate = 0.5 + 1.5 * excitation

        up = jnp.where(rises, gap, 0.0)
        shrinkage = _shrinkage(rate, up, t / self.rise_time)
        risen = excitation - up * jnp.exp(-shrinkage)

        down = jnp.where(rises, 0.0, -gap)
        left = jnp.exp(-rate * (t / self.fall_time))
        fallen = excitation + down * left / (1 + 1.5 * down / rate * (1 - left))
        return jnp.where(rises, risen, fallen)


@jax.custom_jvp
def _shrinkage(rate: Array, gap: Array, time: Array) -> Array:
    """The g that solves rate g - 1.5 gap (1 - exp(-g)) = time.

    The left side is convex and rises with g, and both bounds of the start are above the solution, so that
    Newton's method comes down to it without overshoot.
    """
    g = jnp.minimum(time / (rate - 1.5 * gap), (time + 1.5 * gap) / rate)
    for _ in range(N_NEWTON_STEPS):
        left = 1.5 * gap * jnp.exp(-g)
        g = jnp.maximum(g - (rate * g + left - 1.5 * gap - time) / (rate - left), 0.0)
    return g


@_shrinkage.defjvp
def _shrinkage_jvp(primals, tangents):
    """By the implicit function theorem."""
    rate, gap, _ = primals
    d_rate, d_gap, d_time = tangents
    g = _shrinkage(*primals)
    left = 1.5 * jnp.exp(-g)
    return g, (d_time - g * d_rate + (1.5 - left) * d_gap) / (rate - left * gap)
