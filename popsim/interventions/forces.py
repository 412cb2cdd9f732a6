"""Loads: forces on the hand, torques at the joints, a mass in the hand."""

import abc
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from popsim._shared import checks
from popsim.hand import HandState, Load
from popsim.intervention import AbstractIntervention, Stage, check_parameter, name_of_parameters

__all__ = [
    "CurlField",
    "ConstantForce",
    "ViscousField",
    "ElasticFieldParameters",
    "ElasticField",
    "JointTorque",
    "LoadMass",
    "ForceChannelParameters",
    "ForceChannel",
]


class AbstractHandForce(AbstractIntervention):
    """Base class of forces on the hand that depend on nothing but its state."""

    after_stage: Stage = eqx.field(static=True, default="act", kw_only=True)

    @abc.abstractmethod
    def force(self, parameters: PyTree[Array], hand: HandState) -> Float[Array, " space"]:
        """Return the force, in N."""

    def load(self, parameters: PyTree[Array]) -> Load:
        return Load(lambda hand: self.force(parameters, hand))


class CurlField(AbstractHandForce):
    """A force perpendicular to the velocity of the hand in the plane: F = b (v_y, -v_x).

    The parameter is b, in N s/m. With b > 0 it pushes the hand to its right, so that an uncontrolled hand
    moves clockwise. A pure curl field after Thoroughman & Shadmehr 2000, Nature 407:742-747; tests check the
    circle of radius m v / b on which a mass m moves.
    """

    name: str = eqx.field(static=True, default="curl field")

    def force(self, parameters: Float[Array, ""], hand: HandState) -> Float[Array, " space"]:
        check_parameter(self.name, parameters, ())
        if hand.velocity.shape != (2,):
            raise ValueError(f"`hand` must move in a plane, got {hand.velocity.shape[0]} axes.")
        v_x, v_y = hand.velocity
        return parameters * jnp.stack([v_y, -v_x])


class ConstantForce(AbstractHandForce):
    """A constant force on the hand; the parameter is the force, in N.

    For a force pulse, schedule it for a few time steps.
    """

    name: str = eqx.field(static=True, default="constant force")

    def force(self, parameters: Float[Array, " space"], hand: HandState) -> Float[Array, " space"]:
        check_parameter(self.name, parameters, hand.position.shape)
        return parameters


class ViscousField(AbstractHandForce):
    """A force on the hand that is linear in its velocity: F = B v.

    The parameter is the matrix B, in N s/m: diag(-b, -b) is isotropic damping, ((0, b), (-b, 0)) a curl
    field.
    """

    name: str = eqx.field(static=True, default="viscous field")

    def force(self, parameters: Float[Array, "space space"], hand: HandState) -> Float[Array, " space"]:
        check_parameter(self.name, parameters, 2 * hand.velocity.shape)
        return parameters @ hand.velocity


class ElasticFieldParameters(eqx.Module):
    """The stiffness K (N/m) of an elastic field, and its equilibrium position (m)."""

    stiffness: Float[Array, "*trial space space"]
    center: Float[Array, "*trial space"]


class ElasticField(AbstractHandForce):
    """A force that pulls the hand toward a center: F = -K (x - center); see `ElasticFieldParameters`."""

    name: str = eqx.field(static=True, default="elastic field")

    def force(self, parameters: ElasticFieldParameters, hand: HandState) -> Float[Array, " space"]:
        check_parameter(f"{self.name}: stiffness", parameters.stiffness, 2 * hand.position.shape)
        check_parameter(f"{self.name}: center", parameters.center, hand.position.shape)
        return -parameters.stiffness @ (hand.position - parameters.center)


class JointTorque(AbstractIntervention):
    """Constant torques on the joints; the parameter holds the torques, in N m."""

    name: str = eqx.field(static=True, default="joint torque")
    after_stage: Stage = eqx.field(static=True, default="act")

    def load(self, parameters: Float[Array, " coordinates"]) -> Load:
        def torque(
            coordinates: Float[Array, " coordinates"], velocities: Float[Array, " coordinates"]
        ) -> Float[Array, " coordinates"]:
            check_parameter(self.name, parameters, coordinates.shape)
            return parameters

        return Load(on_coordinates=torque)


class LoadMass(AbstractIntervention):
    """A mass held in the hand; its parameter is the mass m, in kg.

    The force on the hand is -m a, with a the acceleration of the hand with the mass in it: see
    `popsim.plants.Load.hand_mass`. It is not part of `external_force`, which acts on hand and mass together.
    A mass that is picked up during a trial has the velocity of the hand at once.

    The plant must be an `AbstractSkeleton`, or muscles on one; `SensorimotorLoop.check` rejects a body whose
    acceleration the mass would not reduce, such as one with a velocity set by the force.
    """

    name: str = eqx.field(static=True, default="load mass")
    after_stage: Stage = eqx.field(static=True, default="act")

    def check(self, parameters: Float[Array, "*trial"]) -> None:
        checks.check_non_negative(name_of_parameters(self), parameters)
        checks.warn_of_unit(name_of_parameters(self), parameters, "mass")

    def load(self, parameters: Float[Array, ""]) -> Load:
        check_parameter(self.name, parameters, ())
        return Load(hand_mass=parameters)


Point = Sequence[Any] | np.ndarray | Array


class ForceChannelParameters(eqx.Module):
    """The line of a force channel, and the stiffness and damping of its walls.

    **Arguments:**

    - `start`: a point on the line, in m.
    - `direction`: of the line, a unit vector.
    - `stiffness`, `damping`: of the walls, in N/m and N s/m; one for all trials, or one per trial.
    """

    start: Float[Array, "*trial space"]
    direction: Float[Array, "*trial space"]
    stiffness: Float[Array, "*trial"]
    damping: Float[Array, "*trial"]

    def __init__(
        self, start: Point, direction: Point, stiffness: ArrayLike = 2000.0, damping: ArrayLike = 50.0
    ):
        self.start, self.direction = checks.as_float_array(start), checks.as_float_array(direction)
        checks.check_finite("start", self.start)
        checks.check_non_negative("stiffness", stiffness)
        checks.check_non_negative("damping", damping)
        if self.start.ndim == 0 or self.start.shape != self.direction.shape:
            raise ValueError(
                f"`direction` of a force channel must have the shape of `start`, {self.start.shape}, "
                f"got {self.direction.shape}."
            )
        if checks.violates(lambda vector: np.abs(np.sum(vector**2, axis=-1) - 1) < 1e-4, self.direction):
            given = checks.short_repr(self.direction)
            raise ValueError(f"`direction` of a force channel must be a unit vector, got {given}.")
        trials = self.start.shape[:-1]
        self.stiffness = jnp.broadcast_to(checks.as_float_array(stiffness), trials)
        self.damping = jnp.broadcast_to(checks.as_float_array(damping), trials)

    @classmethod
    def between(
        cls, start: Float[Array, "*trial space"], target: Float[Array, "*trial space"], **walls
    ) -> "ForceChannelParameters":
        """Return the channel from `start` to `target` (both m); `walls` are `stiffness` and `damping`.

        In a plan: `FromTrial(lambda trial: ForceChannelParameters.between(trial.init.position, ...))`.
        """
        toward = target - start
        squared = jnp.sum(toward**2, axis=-1, keepdims=True)
        return cls(start, toward / jnp.sqrt(jnp.where(squared > 0, squared, 1.0)), **walls)


class ForceChannel(AbstractHandForce):
    """Walls that keep the hand on a line: F = -(K d + B dd/dt), with d the displacement from the line.

    There is no force along the line. In channel trials the force against the wall, minus `external_force`,
    measures the force that the network expects (Scheidt et al. 2000, J Neurophysiol 84:853-862; walls with
    stiffness and viscosity, as in Kinarm's force channel after them). See `ForceChannelParameters`.

    The walls are integrated with the solver and the substeps of the plant. At dt = 10 ms, with commands that
    jump every 50 ms, all bodies are stable with their default substeps. The error of the recorded force is at
    most 4 % of its maximum, and that of the hand at most 1 mm, for `PointMass`, `TwoLinkArm.arm26_skeleton`,
    `TwoLinkArm.motornet`, `muscled_point_mass`, `arm26` and `li_todorov_arm`; for `TwoLinkArm.li_todorov`,
    the lightest, the error is up to 19 %, and 4 % with `TwoLinkArm.li_todorov(n_substeps=4)`.
    """

    name: str = eqx.field(static=True, default="force channel")

    def check(self, parameters: ForceChannelParameters) -> None:
        for part in ("stiffness", "damping"):
            checks.check_non_negative(name_of_parameters(self, f".{part}"), getattr(parameters, part))

    def force(self, parameters: ForceChannelParameters, hand: HandState) -> Float[Array, " space"]:
        direction = parameters.direction

        def perpendicular(vector: Float[Array, " space"]) -> Float[Array, " space"]:
            return vector - jnp.sum(vector * direction) * direction

        check_parameter(f"{self.name}: start", parameters.start, hand.position.shape)
        deviation = perpendicular(hand.position - parameters.start)
        return -(parameters.stiffness * deviation + parameters.damping * perpendicular(hand.velocity))
