"""A planar arm with two links."""

import diffrax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from popsim._compiled import elementwise
from popsim._shared.checks import check_positive_int
from popsim.hand import HandState, Workspace
from popsim.plants.base import Coordinates, Position
from popsim.plants.joints import (
    AbstractJointLimit,
    AbstractSegments,
    JointState,
    Numbers,
    SoftJointLimit,
    limits_per_joint,
    per_joint,
)

__all__ = ["TwoLinkArm"]

DEGREE = jnp.pi / 180


class TwoLinkArm(AbstractSegments):
    """Upper arm and forearm in a horizontal plane, moved by joint torques.

    M(q) dw/dt = torque + J(q)' F_hand - h(q, w) - B w + stop(q, w), with joint angles q, w = dq/dt, and the
    inertia matrix M and the Coriolis and centripetal torques h of a two-link chain (for instance
    Hollerbach & Flash 1982, Biol Cybern 44:67-77; checked by the conservation of energy).

    `TwoLinkArm.arm26_skeleton`, `TwoLinkArm.motornet` and `TwoLinkArm.li_todorov` build arms from the
    literature.

    **Arguments:**

    - `mass`: of upper arm and forearm, in kg.
    - `length`: of both, in m.
    - `center_of_mass`: distance from the proximal joint, in m.
    - `inertia`: about the centre of mass, in kg m².
    - `joint_limits`: lowest and highest angle of each joint, in rad.
    - `joint_stop`: the joint stop: `SoftJointLimit()` (default, differentiable) or `HardJointLimit()`.
    - `friction`: B, the matrix of viscous friction, in kg m²/s.
    - `workspace`: the region of targets; by default a 20 cm square around the hand in the posture at 45
        and 90 degrees.
    - `solver`, `n_substeps`: solver and substeps per time step; by default Heun's method with two substeps.
    """

    def __init__(
        self,
        *,
        mass: Numbers | None = None,
        length: Numbers | None = None,
        center_of_mass: Numbers | None = None,
        inertia: Numbers | None = None,
        joint_limits: Numbers | None = None,
        friction: Numbers = ((0.0, 0.0), (0.0, 0.0)),
        joint_stop: AbstractJointLimit | None = None,
        workspace: Workspace | None = None,
        solver: diffrax.AbstractSolver | None = None,
        n_substeps: int = 2,
    ):
        check_positive_int("n_substeps", n_substeps)
        self.mass = per_joint("mass", mass, 2, positive=True)
        self.length = per_joint("length", length, 2, positive=True)
        self.center_of_mass = per_joint("center_of_mass", center_of_mass, 2, positive=True)
        self.inertia = per_joint("inertia", inertia, 2, positive=True)
        self.joint_limits = limits_per_joint(joint_limits, 2)
        self.friction = per_joint("friction", friction, 2, axes=(2,))
        self.joint_stop = SoftJointLimit() if joint_stop is None else joint_stop
        self.solver = diffrax.Heun() if solver is None else solver
        self.n_substeps = n_substeps
        self.n_commands = 2
        posture = jnp.asarray([45 * DEGREE, 90 * DEGREE], self.mass.dtype)
        central = Workspace.around(self.hand_position(posture), 0.2)
        self.workspace = central if workspace is None else workspace

    @classmethod
    def arm26_skeleton(cls, **options) -> "TwoLinkArm":
        """Build the skeleton of MotorNet's arm26 (Codol et al. 2024, eLife; the values of MotorNet 0.3)."""
        return cls(
            mass=(1.82, 1.43),
            length=(0.309, 0.333),
            center_of_mass=(0.135, 0.165),
            inertia=(0.051, 0.057),
            joint_limits=((0.0, 135 * DEGREE), (0.0, 155 * DEGREE)),
            **options,
        )

    @classmethod
    def motornet(cls, **options) -> "TwoLinkArm":
        """Build MotorNet's default TwoDofArm (Codol et al. 2024, eLife; the values of MotorNet 0.3)."""
        return cls(
            mass=(1.864572, 1.534315),
            length=(0.309, 0.26),
            center_of_mass=(0.180496, 0.181479),
            inertia=(0.013193, 0.020062),
            joint_limits=((0.0, 140 * DEGREE), (0.0, 160 * DEGREE)),
            **options,
        )

    @classmethod
    def li_todorov(cls, **options) -> "TwoLinkArm":
        """Build the arm of Li & Todorov 2004, as in Feedbax's TwoLinkArm.

        The published moments of inertia, .025 and .045 kg m², are about the joints; here they are converted
        to the centres of mass.
        """
        return cls(
            mass=(1.4, 1.0),
            length=(0.30, 0.33),
            center_of_mass=(0.11, 0.16),
            inertia=(0.025 - 1.4 * 0.11**2, 0.045 - 1.0 * 0.16**2),
            joint_limits=((0.0, 140 * DEGREE), (0.0, 160 * DEGREE)),
            friction=((0.05, 0.025), (0.025, 0.05)),
            **options,
        )

    def inertia_matrix(self, angle: Float[Array, " joint"]) -> Float[Array, "joint joint"]:
        """Return M(q), in kg m²."""
        upper_arm, forearm, coupling = self._moments()
        k = coupling * jnp.cos(angle[1])
        coupled = forearm + k
        return jnp.stack([jnp.stack([upper_arm + forearm + 2 * k, coupled]), jnp.stack([coupled, forearm])])

    def _moments(self) -> tuple[Array, Array, Array]:
        """Return the moments of inertia (kg m²) of the upper arm with the elbow's load, of the forearm, and
        of their coupling when the elbow is straight."""
        m, length, c = self.mass, self.length, self.center_of_mass
        forearm = m[1] * c[1] ** 2 + self.inertia[1]
        upper_arm = m[0] * c[0] ** 2 + self.inertia[0] + m[1] * length[0] ** 2
        return upper_arm, forearm, m[1] * length[0] * c[1]

    def coriolis(self, joints: JointState) -> Float[Array, " joint"]:
        """Return h(q, w), the Coriolis and centripetal torques, in N m."""
        k = self._moments()[2] * jnp.sin(joints.angle[1])
        shoulder, elbow = joints.velocity
        return jnp.stack([-k * (2 * shoulder + elbow) * elbow, k * shoulder**2])

    def jacobian(self, angle: Float[Array, " joint"]) -> Float[Array, "space joint"]:
        """Return J(q) = d hand / d q, in m/rad."""
        shoulder, reach = angle[0], angle[0] + angle[1]
        upper, lower = self.length
        to_elbow = upper * jnp.stack([-jnp.sin(shoulder), jnp.cos(shoulder)])
        to_hand = lower * jnp.stack([-jnp.sin(reach), jnp.cos(reach)])
        return jnp.stack([to_elbow + to_hand, to_hand], axis=1)

    def hand_position(self, angle: Float[Array, " joint"]) -> Position:
        """Return the position of the hand, in m from the shoulder."""
        reach = angle[0] + angle[1]
        return self.elbow_position(angle) + self.length[1] * jnp.stack([jnp.cos(reach), jnp.sin(reach)])

    def elbow_position(self, angle: Float[Array, " joint"]) -> Position:
        """Return the position of the elbow, in m from the shoulder."""
        return self.length[0] * jnp.stack([jnp.cos(angle[0]), jnp.sin(angle[0])])

    def joint_angles(self, position: Position) -> Float[Array, " joint"]:
        """Return the joint angles (rad) with the hand at `position` (m) and a non-negative elbow angle.

        Among shoulder angles that differ by full turns, choose the one nearest the middle of the limits. If
        the position is out of reach, return the angles of the arm stretched (or folded) towards it.
        """
        upper, lower = self.length
        cos_elbow = (jnp.sum(position**2) - upper**2 - lower**2) / (2 * upper * lower)
        in_reach = jnp.abs(cos_elbow) < 1  # the gradient of arccos is infinite at ±1 and would give NaN
        bent = jnp.arccos(jnp.where(in_reach, cos_elbow, 0.0))
        elbow = jnp.where(in_reach, bent, jnp.where(cos_elbow < 0, jnp.pi, 0.0))
        direction = jnp.arctan2(position[1], position[0])
        shoulder = direction - jnp.arctan2(lower * jnp.sin(elbow), upper + lower * jnp.cos(elbow))
        turns = jnp.round((shoulder - jnp.mean(self.joint_limits[0])) / (2 * jnp.pi))
        return jnp.stack([shoulder - 2 * jnp.pi * turns, elbow])

    def dynamics(self, state: JointState, force: Coordinates, external_force: Position) -> JointState:
        """Return the time derivative of the state; `force` is the torques at shoulder and elbow, in N m."""
        torque = force + jnp.sum(self.jacobian(state.angle) * external_force[:, None], axis=0)
        torque = torque - jnp.sum(self.friction * state.velocity, axis=1)
        torque = torque + self.joint_stop.torque(state.angle, state.velocity, self.joint_limits)
        _, elbow = state.angle
        acceleration = _acceleration(*self._moments(), elbow, *state.velocity, *torque)
        return JointState(state.velocity, jnp.stack(acceleration))

    def hand(self, state: JointState) -> HandState:
        return HandState(self.hand_position(state.angle), self.jacobian(state.angle) @ state.velocity)

    def skeleton_points(self, state: JointState) -> Float[Array, "point space"]:
        """Return shoulder, elbow and hand, in m."""
        elbow = self.elbow_position(state.angle)
        return jnp.stack([jnp.zeros_like(elbow), elbow, self.hand_position(state.angle)])

    def is_reachable(self, position: Position) -> Bool[Array, ""]:
        angle = self.joint_angles(position)
        close = jnp.linalg.norm(self.hand_position(angle) - position) < 1e-5
        is_within = (angle >= self.joint_limits[:, 0]) & (angle <= self.joint_limits[:, 1])
        return close & jnp.all(is_within)


@elementwise
def _acceleration(
    upper_arm: Array,
    forearm: Array,
    coupling: Array,
    elbow: Array,
    shoulder_velocity: Array,
    elbow_velocity: Array,
    shoulder_torque: Array,
    elbow_torque: Array,
) -> tuple[Array, Array]:
    """Return M(q)^-1 (torque - h(q, w)), written out."""
    k, h = coupling * jnp.cos(elbow), coupling * jnp.sin(elbow)
    shoulder = shoulder_torque + h * (2 * shoulder_velocity + elbow_velocity) * elbow_velocity
    forearm_torque = elbow_torque - h * shoulder_velocity**2
    m11, m12 = upper_arm + forearm + 2 * k, forearm + k
    determinant = m11 * forearm - m12**2
    return (
        (forearm * shoulder - m12 * forearm_torque) / determinant,
        (m11 * forearm_torque - m12 * shoulder) / determinant,
    )
