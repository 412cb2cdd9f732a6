"""The muscle model of Brown and Loeb."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim._shared.checks import as_float_array, check_finite, check_positive
from popsim.muscles.activation import (
    AbstractActivation,
    FirstOrderActivation,
    LinearActivation,
    check_parameters,
)
from popsim.muscles.base import AbstractRigidTendonLaw, Muscles

__all__ = ["BrownLoebMuscle"]

SHORTEST_RECRUITED = 0.4  # optimal lengths
LEAST_SIGMOID = 0.2  # the smallest n
LEAST_CURVED = 0.001  # the activation below which force is proportional to activation
LEAST_CURVATURE = -0.8  # of shortening
FREQUENCY = 0.56  # a_f of the activation
CONSTANTS = ("length_curve", "lengthening", "lengthening_speed", "max_velocity", "shortening", "recruitment")
LI_TODOROV = ((1.93, 1.03, 1.87), (-3.12, 4.21, -2.67), 0.62, 5.72, (1.38, 2.09), (2.11, 4.16))
FAST = ((1.55, 0.81, 2.12), (-1.53, 0.0, 0.0), 1.05, 7.39, (-3.21, 4.17), (2.11, 3.31))
SLOW = ((2.30, 1.26, 1.62), (-4.70, 8.41, -5.34), 0.18, 4.06, (5.88, 0.0), (2.11, 5.0))
LI_TODOROV_PUSH = (-0.02, -18.7, 13.8 / 18.7)  # -0.02 exp(13.8 - 18.7 l)


def _numbers(values: tuple[Any, ...]) -> tuple[Array, ...]:
    return tuple(as_float_array(value) for value in values)


def _named(constants: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(CONSTANTS, constants, strict=True))


class BrownLoebMuscle(AbstractRigidTendonLaw):
    """force = max_isometric_force max(A (F V + P), 0), with fibre length l and velocity v.

    - A = 1 - exp(-(a / (0.56 n))^n), n = n0 + n1 (1 / l - 1): a longer muscle is activated more easily;
    - F = exp(-|(l^β - 1) / ω|^ρ);
    - V in shortening, with w = -v / max_velocity: (1 - w) / (1 + (c0 + c1 l) w), zero from w = 1; in
        lengthening (b - v (a0 + a1 l + a2 l²)) / (b + v);
    - P = c2 exp(k2 (l - r2)), which is negative: the push of a compressed muscle.

    Here a is a firing frequency in units of that at which half of the force is reached: with a no more than
    one, as in Li & Todorov, A is at most 0.50 at the optimal length, and so is the force.

    The model was made for lengths of about 0.5 to 1.5. To keep it finite elsewhere, l in n is at least 0.4,
    and n at least 0.2 (it would reach zero at l = 1.73 for the slow set). Below a = 0.001 the force is
    proportional to a, because a power below one has infinite slope at zero. c0 + c1 l is at least -0.8 (at
    -1, reached by the fast set at l = 0.53, V would be infinite).

    Brown, Scott & Loeb 1996, J Muscle Res Cell Motil 17:221-233; Brown, Cheng & Loeb 1999, same journal
    20:627-643; Li & Todorov 2004, Proc ICINCO 1:222-229. Equations and constants are checked against public
    copies of these models, not against the papers. The tendon, passive stretch, sag and yield of the first
    two are omitted, as in Li & Todorov. A copy of the fast fibres has P = c2 (exp(k2 (l - r2)) - 1), at most
    zero, which differs from the P here by up to 0.02; it explains the 13.8 of Li & Todorov, 18.7 x 0.79 - 1.

    `BrownLoebMuscle.li_todorov`, `.fast` and `.slow` build muscles with published constants.

    **Arguments:**

    - `max_isometric_force`: in N.
    - `optimal_length`, `tendon_length`: in m.
    - `length_curve`: β, ω, ρ.
    - `lengthening`: a0, a1, a2.
    - `lengthening_speed`: b, in optimal lengths per second.
    - `max_velocity`: the maximal shortening velocity in optimal lengths per second, as a positive number.
    - `shortening`: c0, c1.
    - `recruitment`: n0, n1.
    - `push`: c2, k2, r2.
    - `activation`: by default with `lowest` 0.
    """

    length_curve: tuple[Array, ...] = eqx.field(converter=_numbers, kw_only=True)
    lengthening: tuple[Array, ...] = eqx.field(converter=_numbers, kw_only=True)
    lengthening_speed: Float[Array, "..."] = eqx.field(converter=as_float_array, kw_only=True)
    max_velocity: Float[Array, "..."] = eqx.field(converter=as_float_array, kw_only=True)
    shortening: tuple[Array, ...] = eqx.field(converter=_numbers, kw_only=True)
    recruitment: tuple[Array, ...] = eqx.field(converter=_numbers, kw_only=True)
    push: tuple[Array, ...] = eqx.field(converter=_numbers, kw_only=True, default=(-0.02, -18.7, 0.79))
    activation: AbstractActivation = eqx.field(default_factory=FirstOrderActivation, kw_only=True)

    def __check_init__(self):
        check_parameters(self, positive=("lengthening_speed", "max_velocity"))
        groups = {"length_curve": 3, "lengthening": 3, "shortening": 2, "recruitment": 2, "push": 3}
        for name, size in groups.items():
            values = getattr(self, name)
            if len(values) != size:
                raise ValueError(f"`{name}` must be {size} numbers, got {len(values)}.")
            for value in values:
                check_finite(name, value)
        for value in self.length_curve:
            check_positive("length_curve", value)

    @classmethod
    def li_todorov(cls, max_isometric_force: Any, optimal_length: Any, **options) -> "BrownLoebMuscle":
        """Build the muscle of Li & Todorov 2004, halfway between fast and slow fibres.

        The push of compressed fibres is -0.02 exp(13.8 - 18.7 l), and the activation a `LinearActivation`, as
        in all public copies of their model but Feedbax. The c0 of `shortening` is 1.38 in all of them, though
        the mean of the fast and the slow fibres, which the other constants are, is 1.335: a misprint of 1.34
        is likely, but there is no second source.
        """
        options = {"push": LI_TODOROV_PUSH, "activation": LinearActivation()} | options
        return cls(max_isometric_force, optimal_length, **_named(LI_TODOROV), **options)

    @classmethod
    def fast(cls, max_isometric_force: Any, optimal_length: Any, **options) -> "BrownLoebMuscle":
        """Build fast fibres of the cat's caudofemoralis (Brown, Cheng & Loeb 1999)."""
        return cls(max_isometric_force, optimal_length, **_named(FAST), **options)

    @classmethod
    def slow(cls, max_isometric_force: Any, optimal_length: Any, **options) -> "BrownLoebMuscle":
        """Build slow fibres of the cat's soleus (Brown, Cheng & Loeb 1999)."""
        return cls(max_isometric_force, optimal_length, **_named(SLOW), **options)

    def force_share(self, activation: Muscles, length: Muscles, velocity: Muscles) -> Muscles:
        exponent, width, steepness = self.length_curve
        isometric = jnp.exp(-(jnp.abs((length**exponent - 1) / width) ** steepness))
        height, slope, reference = self.push
        push = height * jnp.exp(slope * (length - reference))
        active = isometric * self.force_velocity(length, velocity) + push
        return self.active_fraction(activation, length) * jnp.maximum(active, 0.0)

    def active_fraction(self, activation: Muscles, length: Muscles) -> Muscles:
        """Return A, from zero to one."""
        n0, n1 = self.recruitment
        sigmoid = n0 + n1 * (1 / jnp.maximum(length, SHORTEST_RECRUITED) - 1)
        sigmoid = jnp.maximum(sigmoid, LEAST_SIGMOID)
        curved = jnp.maximum(activation, LEAST_CURVED) / (FREQUENCY * sigmoid)
        straight = jnp.minimum(activation / LEAST_CURVED, 1.0)
        # `expm1` keeps the digits that 1 - exp(-x) loses at low activations.
        return -jnp.expm1(-(curved**sigmoid)) * straight

    def force_velocity(self, length: Muscles, velocity: Muscles) -> Muscles:
        """Return V, the active force as a fraction of the isometric force."""
        c0, c1 = self.shortening
        shortening = jnp.clip(-velocity / self.max_velocity, 0.0, 1.0)
        curvature = jnp.maximum(c0 + c1 * length, LEAST_CURVATURE)
        a0, a1, a2 = self.lengthening
        lengthening = jnp.maximum(velocity, 0.0)
        surplus = -(a0 + a1 * length + a2 * length**2) - 1
        shortened = (1 - shortening) / (1 + curvature * shortening)
        return shortened + surplus * lengthening / (self.lengthening_speed + lengthening)
