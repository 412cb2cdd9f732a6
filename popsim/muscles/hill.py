"""Hill-type muscles, with a rigid or a compliant tendon."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim._shared.checks import as_float_array
from popsim.muscles.activation import AbstractActivation, FirstOrderActivation, check_above, check_parameters
from popsim.muscles.base import AbstractMuscle, AbstractRigidTendonLaw, Muscles
from popsim.parameters import Constants

__all__ = ["HillCurves", "RigidTendonHillMuscle", "CompliantTendonHillMuscle"]

WEAKEST = 0.01  # the minimum of the force-length curve; at zero the force would not determine a velocity
FULL_SPEED = 0.3  # the activation from which contraction is not slowed
RESTING = 0.005  # resting activation, at which it is a hundred times slower
SLOPE_RATIO = 2.0  # of the force-velocity curve at v = 0, lengthening to shortening
STEEPEST = 0.9  # the fraction of the way to the plateau from which the inverse curve is linear


class HillCurves(eqx.Module):
    """Force-length-velocity curves of the contractile and the parallel elastic element.

    Lengths are in optimal lengths, velocities in optimal lengths per second (lengthening positive), forces in
    maximal isometric forces. With activation a and F = max(1 - (l - 1)² / width², 0.01):

    - shortening: (v a A + F a B) / (B - v), zero beyond v = -F B / A, with A = curvature F if l > 1, else
        curvature, and B = speed if a > 0.3, else speed (1 - 0.9 (a - 0.3) / (0.005 - 0.3))²;
    - lengthening: F a (1 + (plateau - 1) v / (v + d)), with d such that the slope at v = 0 is twice that of
        shortening;
    - passive: ((l - passive_slack) / (passive_limit - passive_slack))², zero below the slack.

    As in MotorNet, after Kistemaker, Van Soest & Bobbert 2006, J Neurophysiol 95:2898-2912, Kistemaker, Wong
    & Gribble 2010, J Neurophysiol 104:2985-2994, and Van Soest & Bobbert 1993, Biol Cybern 69:195-204; not
    compared with the papers. Unlike here, MotorNet takes v in tens of optimal lengths per second, and its
    plateau of lengthening rises by 0.001 per unit of velocity.

    **Arguments:**

    - `width`: half the range of lengths with active force.
    - `passive_slack`: the length above which there is passive force.
    - `passive_limit`: the length at which it equals the maximal isometric force.
    - `curvature`: A at the optimal length; Hill's a, as a fraction of the isometric force.
    - `speed`: B at full activation; Hill's b, in optimal lengths per second.
    - `plateau`: the force of fast lengthening, as a fraction of the isometric force.

    Each is a scalar or of shape (muscles,).
    """

    constants: ClassVar[Constants] = "all"
    width: Float[Array, "..."] = eqx.field(converter=as_float_array, default=0.66)
    passive_slack: Float[Array, "..."] = eqx.field(converter=as_float_array, default=1.4)
    passive_limit: Float[Array, "..."] = eqx.field(converter=as_float_array, default=1.66)
    curvature: Float[Array, "..."] = eqx.field(converter=as_float_array, default=0.41)
    speed: Float[Array, "..."] = eqx.field(converter=as_float_array, default=5.2)
    plateau: Float[Array, "..."] = eqx.field(converter=as_float_array, default=1.5)

    def __check_init__(self):
        names = ("width", "passive_slack", "passive_limit", "curvature", "speed", "plateau")
        check_parameters(self, positive=names)
        check_above("plateau", self.plateau, 1.0)
        check_above("passive_limit", self.passive_limit, self.passive_slack)

    def isometric_force(self, length: Muscles) -> Muscles:
        """Return F, the active force at full activation and v = 0."""
        return jnp.maximum(1 - ((length - 1) / self.width) ** 2, WEAKEST)

    def passive_force(self, length: Muscles) -> Muscles:
        """Return the force of the parallel elastic element."""
        stretch = jnp.maximum(length - self.passive_slack, 0.0)
        return (stretch / (self.passive_limit - self.passive_slack)) ** 2

    def active_force(self, activation: Muscles, length: Muscles, velocity: Muscles) -> Muscles:
        """Return the force of the contractile element."""
        hill_a, hill_b, isometric, half_speed = self._hyperbolas(activation, length)
        shortening = jnp.minimum(velocity, 0.0)
        shortened = (shortening * activation * hill_a + isometric * hill_b) / (hill_b - shortening)
        lengthening = jnp.maximum(velocity, 0.0)
        surplus = (self.plateau - 1) * isometric * lengthening / (lengthening + half_speed)
        return jnp.maximum(shortened, 0.0) + surplus

    def velocity(self, activation: Muscles, length: Muscles, active_force: Muscles) -> Muscles:
        """Return the velocity at a given force of the contractile element, the inverse of `active_force`.

        In lengthening the velocity would be infinite at the plateau. From nine tenths of the way to it, the
        curve is continued by its tangent, up to speed / curvature, the maximal shortening velocity. For a
        negative force, return the velocity at zero force.

        **Arguments:**

        - `activation`: above zero; at zero the velocity is undefined.
        - `length`: of the fibre, in optimal lengths.
        - `active_force`: in maximal isometric forces.

        **Returns:** the velocity in optimal lengths per second.
        """
        hill_a, hill_b, isometric, half_speed = self._hyperbolas(activation, length)
        # Each branch gets an argument within its range, and their results are added. A `jnp.where` over both
        # would evaluate the wrong one too, whose infinite slope makes its gradient NaN.
        weaker = jnp.clip(active_force, 0.0, isometric)
        shortening = hill_b * (weaker - isometric) / (weaker + activation * hill_a)
        way = jnp.maximum(active_force - isometric, 0.0) / ((self.plateau - 1) * isometric)
        curved = jnp.minimum(way, STEEPEST)
        # The slope of c / (1 - c) at c = STEEPEST, so that the tangent continues the curve.
        straight = (way - curved) / (1 - STEEPEST) ** 2
        lengthening = half_speed * (curved / (1 - curved) + straight)
        return shortening + jnp.minimum(lengthening, self.speed / self.curvature)

    def _hyperbolas(self, activation: Array, length: Array) -> tuple[Array, Array, Array, Array]:
        """Return Hill's a and b, the isometric force, and the lengthening velocity halfway to the plateau."""
        fraction = self.isometric_force(length)
        hill_a = jnp.where(length > 1, self.curvature * fraction, self.curvature)
        tired = (jnp.minimum(activation, FULL_SPEED) - FULL_SPEED) / (RESTING - FULL_SPEED)
        hill_b = self.speed * (1 - 0.9 * tired) ** 2
        half_speed = (self.plateau - 1) * fraction * hill_b / (SLOPE_RATIO * (hill_a + fraction))
        return hill_a, hill_b, fraction * activation, half_speed


class RigidTendonHillMuscle(AbstractRigidTendonLaw):
    """A Hill-type muscle on a rigid tendon; see `HillCurves` for equations and sources.

    At full activation and optimal length, the force is zero at -12.7 optimal lengths per second.

    **Arguments:**

    - `max_isometric_force`: in N.
    - `optimal_length`, `tendon_length`: in m.
    - `activation`: by default with `lowest` 0.001.
    - `curves`: the constants.
    """

    activation: AbstractActivation = eqx.field(
        default_factory=lambda: FirstOrderActivation(lowest=0.001), kw_only=True
    )
    curves: HillCurves = eqx.field(default_factory=HillCurves, kw_only=True)

    def force_share(self, activation: Muscles, length: Muscles, velocity: Muscles) -> Muscles:
        active = self.curves.active_force(activation, length, velocity)
        return active + self.curves.passive_force(length)


N_BISECTIONS = 60


class CompliantTendonHillMuscle(AbstractMuscle):
    """A fibre in series with an elastic tendon. The state is the fibre length, in m.

    The tendon force is (strain / tendon_strain)² of the maximal isometric force, and zero if the tendon is
    slack. The fibre velocity is that at which the active force of `HillCurves` (equations and sources there)
    equals tendon force minus passive force; if the difference is negative, it is the maximal shortening
    velocity. Because the velocity is undefined at zero activation, activations below 0.005 act as 0.005.

    The equation is stiff: in arm26 the rates of the fibres are 6 to 370 per second near equilibrium, and up
    to 80,000 where the force exceeds the plateau of lengthening. `HillCurves` therefore bounds the velocity,
    and the initial state should come from `init`.

    The tendon force has no upper limit. If it were limited to the maximal isometric force, as in MotorNet, a
    fully active fibre could not be lengthened, because its force in lengthening is higher.

    **Arguments:**

    - `max_isometric_force`: in N.
    - `optimal_length`: in m.
    - `tendon_length`: slack length of the tendon, in m.
    - `activation`: by default with `lowest` 0.01.
    - `tendon_strain`: the strain of the tendon at the maximal isometric force (4 % with a quadratic spring,
        also in Kistemaker et al. 2013, J Neurophysiol 109:1126-1139, with the muscles of 2006).
    - `curves`: the constants.
    """

    max_isometric_force: Float[Array, "..."] = eqx.field(converter=as_float_array)
    optimal_length: Float[Array, "..."] = eqx.field(converter=as_float_array)
    tendon_length: Float[Array, "..."] = eqx.field(converter=as_float_array, kw_only=True)
    activation: AbstractActivation = eqx.field(
        default_factory=lambda: FirstOrderActivation(lowest=0.01), kw_only=True
    )
    tendon_strain: Float[Array, "..."] = eqx.field(converter=as_float_array, default=0.04, kw_only=True)
    curves: HillCurves = eqx.field(default_factory=HillCurves, kw_only=True)

    def __check_init__(self):
        names = ("max_isometric_force", "optimal_length", "tendon_length", "tendon_strain")
        check_parameters(self, positive=names)

    def init(self, activation: Muscles, length: Muscles) -> Muscles:
        """Return the fibre length (m) at which, at rest, tendon force equals active plus passive force.

        It is zero if the tendon is slack at any fibre length. The gradient is that of the equilibrium, by the
        implicit function theorem, not that of the bisection.
        """
        # A bisection has no useful derivative: its results are halves of its bounds. Everything in it is
        # constant.
        muscle, muscle_activation, muscle_length = jax.lax.stop_gradient((self, activation, length))
        none = jnp.zeros_like(muscle_length)
        longest = jnp.maximum((muscle_length - muscle.tendon_length) / muscle.optimal_length, 0.0)

        def halve(_, bounds):
            low, high = bounds
            middle = (low + high) / 2
            tendon_wins = muscle.imbalance(muscle_activation, muscle_length, middle) > 0
            return jnp.where(tendon_wins, middle, low), jnp.where(tendon_wins, high, middle)

        # More halvings than a double has bits; the bounds meet in any precision.
        low, high = jax.lax.fori_loop(0, N_BISECTIONS, halve, (none, longest + none))
        equilibrium = (low + high) / 2
        _, slope = jax.jvp(
            lambda x: muscle.imbalance(muscle_activation, muscle_length, x),
            (equilibrium,),
            (jnp.ones_like(equilibrium),),
        )
        taut = muscle.imbalance(muscle_activation, muscle_length, none) > 0
        # One step of Newton's method from the solution. Its value is almost zero, but its derivative is that
        # of the implicit function theorem, -(d imbalance / d parameter) / slope, because `equilibrium` and
        # `slope` are constants.
        correction = self.imbalance(activation, length, equilibrium) / jnp.where(taut, slope, 1.0)
        # Of a slack tendon the slope is replaced above as well: dividing by zero in the branch that is not
        # taken would make the gradient NaN.
        return jnp.where(taut, equilibrium - correction, 0.0) * self.optimal_length

    def rate(self, state: Muscles, activation: Muscles, length: Muscles, velocity: Muscles) -> Muscles:
        """Return the fibre velocity, in m/s."""
        return self.fibre(state, activation, length, velocity)[1] * self.optimal_length

    def force(self, state: Muscles, activation: Muscles, length: Muscles, velocity: Muscles) -> Muscles:
        return self.max_isometric_force * self.tendon_force(length, state / self.optimal_length)

    def fibre(
        self, state: Muscles, activation: Muscles, length: Muscles, velocity: Muscles
    ) -> tuple[Muscles, Muscles]:
        fibre_length = state / self.optimal_length
        active = self.tendon_force(length, fibre_length) - self.curves.passive_force(fibre_length)
        return fibre_length, self.curves.velocity(jnp.maximum(activation, RESTING), fibre_length, active)

    def tendon_force(self, length: Muscles, fibre_length: Muscles) -> Muscles:
        """Return the tendon force, in maximal isometric forces.

        **Arguments:**

        - `length`: of the musculotendon, in m.
        - `fibre_length`: in optimal lengths.
        """
        stretch = length - fibre_length * self.optimal_length - self.tendon_length
        return (jnp.maximum(stretch, 0.0) / (self.tendon_length * self.tendon_strain)) ** 2

    def imbalance(self, activation: Muscles, length: Muscles, fibre_length: Muscles) -> Muscles:
        """Return tendon force minus fibre force at rest, in maximal isometric forces.

        Arguments as for `tendon_force`, and the activation.
        """
        active = jnp.maximum(activation, RESTING) * self.curves.isometric_force(fibre_length)
        pull = self.tendon_force(length, fibre_length)
        return pull - active - self.curves.passive_force(fibre_length)
