"""Arms: the states and the stops of their joints."""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from popsim._compiled import elementwise
from popsim._shared.argument_shapes import check_of_one_model, check_one_or_each
from popsim._shared.checks import (
    as_float_array,
    check_finite,
    check_non_negative,
    check_positive,
    short_repr,
    violates,
    warn_of_unit,
)
from popsim._shared.plain_values import plain_number
from popsim.hand import Workspace
from popsim.parameters import Constants
from popsim.plants.base import AbstractSkeleton, Position

__all__ = ["JointState", "AbstractJointLimit", "SoftJointLimit", "HardJointLimit", "AbstractArm"]


class JointState(eqx.Module):
    """Joint angles (rad) and velocities (rad/s); each angle is relative to the previous segment."""

    angle: Float[Array, "*axes joint"]
    velocity: Float[Array, "*axes joint"]


Joints = Float[Array, " joint"]
Limits = Float[Array, "joint 2"]


class AbstractJointLimit(eqx.Module):
    """A rule that keeps joints within their limits, by torques or by a correction after each time step."""

    constants: ClassVar[Constants] = "all"

    @abc.abstractmethod
    def torque(self, angle: Joints, velocity: Joints, limits: Limits) -> Joints:
        """Return the torque on each joint, in N m; zero within the limits.

        **Arguments:**

        - `angle`, `velocity`: in rad and rad/s.
        - `limits`: lowest and highest angle of each joint, in rad.
        """

    @abc.abstractmethod
    def correct(self, angle: Joints, velocity: Joints, limits: Limits) -> tuple[Joints, Joints]:
        """Return angle and velocity, corrected after a time step. Arguments as for `torque`."""


class SoftJointLimit(AbstractJointLimit):
    """A compliant, differentiable stop; the default.

    With e the signed angle beyond the limit and w the joint velocity, the torque is
    -s(|e| / width) (stiffness e + damping w), where s rises from 0 to 1 and is twice continuously
    differentiable. The defaults are popsim's choice: low enough that the default integration resolves an
    impact at dt = 0.01 s, even for the lightest arm.

    **Arguments:**

    - `stiffness`: in N m/rad.
    - `damping`: in N m s/rad.
    - `width`: the angle beyond the limit at which the stop reaches full strength, in rad.
    """

    stiffness: Float[Array, "*members"] = eqx.field(converter=as_float_array, default=40.0)
    damping: Float[Array, "*members"] = eqx.field(converter=as_float_array, default=2.0)
    width: Float[Array, "*members"] = eqx.field(converter=as_float_array, default=0.3)

    def __check_init__(self):
        for name in ("stiffness", "damping", "width"):
            check_one_or_each(name, getattr(self, name))
        check_non_negative("stiffness", self.stiffness)
        check_non_negative("damping", self.damping)
        check_positive("width", self.width)
        warn_of_unit("width", self.width, "angle")

    def torque(self, angle: Joints, velocity: Joints, limits: Limits) -> Joints:
        return _soft_stop(self, angle, velocity, limits[:, 0], limits[:, 1])

    def correct(self, angle: Joints, velocity: Joints, limits: Limits) -> tuple[Joints, Joints]:
        return angle, velocity


@elementwise
def _soft_stop(stop: SoftJointLimit, angle: Joints, velocity: Joints, low: Joints, high: Joints) -> Joints:
    excess = angle - jnp.clip(angle, low, high)
    part = jnp.minimum(jnp.abs(excess) / stop.width, 1.0)
    contact = part**3 * (10 - 15 * part + 6 * part**2)
    return -contact * (stop.stiffness * excess + stop.damping * velocity)


class HardJointLimit(AbstractJointLimit):
    """A rigid stop: each time step ends by clipping angles to the limits and zeroing outward velocities.

    As in MotorNet. The gradient through a joint at its stop is zero.
    """

    def torque(self, angle: Joints, velocity: Joints, limits: Limits) -> Joints:
        return jnp.zeros_like(angle)

    def correct(self, angle: Joints, velocity: Joints, limits: Limits) -> tuple[Joints, Joints]:
        low, high = limits[:, 0], limits[:, 1]
        outward = ((angle <= low) & (velocity < 0)) | ((angle >= high) & (velocity > 0))
        return jnp.clip(angle, low, high), jnp.where(outward, 0.0, velocity)


class AbstractArm(AbstractSkeleton):
    """A chain of segments, moved by torques at its joints; its coordinates are the joint angles.

    A subclass supplies `hand_position` and `joint_angles`, and from `AbstractSkeleton` the fields,
    `dynamics`, `hand` and `is_reachable`. `joint_limits` are the lowest and highest angle of each, in rad.
    """

    joint_limits: eqx.AbstractVar[Float[Array, "*members joint 2"]]
    joint_stop: eqx.AbstractVar[AbstractJointLimit]

    @abc.abstractmethod
    def hand_position(self, angle: Joints) -> Position:
        """Return the position of the hand, in m from the first joint."""

    @abc.abstractmethod
    def joint_angles(self, position: Position) -> Joints:
        """Return joint angles (rad) with the hand at `position` (m)."""

    def enforce_limits(self, state: JointState) -> JointState:
        return JointState(*self.joint_stop.correct(state.angle, state.velocity, self.joint_limits))

    def coordinates(self, state: JointState) -> tuple[Joints, Joints]:
        """Return joint angles (rad) and joint velocities (rad/s)."""
        return state.angle, state.velocity

    def state_axes(self) -> dict[str, tuple[str, str]]:
        return {"angle": ("joint", "rad"), "velocity": ("joint", "rad/s")}

    def rest_state(self, position: Position) -> JointState:
        angle = self.joint_angles(position)
        return JointState(angle, jnp.zeros_like(angle))


class AbstractSegments(AbstractArm):
    """An arm of rigid segments, with the fields that `TwoLinkArm` and `NLinkArm` document."""

    mass: Float[Array, "*members joint"]
    length: Float[Array, "*members joint"]
    center_of_mass: Float[Array, "*members joint"]
    inertia: Float[Array, "*members joint"]
    joint_limits: Float[Array, "*members joint 2"]
    friction: Float[Array, "..."]
    joint_stop: AbstractJointLimit
    workspace: Workspace
    solver: diffrax.AbstractSolver
    n_substeps: int = eqx.field(static=True, converter=plain_number)
    n_commands: int = eqx.field(static=True, converter=plain_number, init=False)

    @abc.abstractmethod
    def inertia_matrix(self, angle: Joints) -> Float[Array, "joint joint"]:
        """Return M(q), in kg m²."""

    def damping_rates(self) -> Float[np.ndarray, " modes"]:
        """Return the absolute eigenvalues of M^-1 B, in 1/s, with each joint in the middle of its range."""
        friction = np.diag(self.friction) if self.friction.ndim == 1 else np.asarray(self.friction)
        if not friction.any():
            return np.zeros(1)
        inertia = np.asarray(self.inertia_matrix(jnp.mean(self.joint_limits, axis=1)))
        return np.abs(np.linalg.eigvals(np.linalg.solve(inertia, friction)))


Numbers = Sequence[Any] | np.ndarray | Array


def per_joint(
    name: str, value: Numbers | None, n: int, *, axes: tuple[int, ...] = (), positive: bool = False
) -> Array:
    """Return `value` as an array of shape (n, *axes), or raise `ValueError`."""
    check_of_one_model(name, value)
    if value is None:
        raise ValueError(f"`{name}` of an arm must be given; TwoLinkArm.arm26_skeleton() has all.")
    array = as_float_array(value)
    if array.shape != (n, *axes):
        raise ValueError(
            f"`{name}` of an arm of {n} segments must have shape {(n, *axes)}, got {array.shape}."
        )
    check_finite(name, array)
    if positive and violates(lambda numbers: numbers > 0, array):
        raise ValueError(f"`{name}` of an arm must be positive numbers, got {short_repr(array)}.")
    if name == "mass":
        warn_of_unit(name, array, "mass")
    return array


def limits_per_joint(joint_limits: Numbers | None, n: int) -> Float[Array, "joint 2"]:
    """Return the limits of the joints as an array, or raise `ValueError`."""
    limits = per_joint("joint_limits", joint_limits, n, axes=(2,))
    if violates(lambda limits: np.diff(limits) > 0, limits):
        raise ValueError(f"`joint_limits` must be (lowest, highest) of each joint, got {short_repr(limits)}.")
    warn_of_unit("joint_limits", limits, "angle")
    return limits
