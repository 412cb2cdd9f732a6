"""A planar arm with any number of links."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from popsim._shared.checks import check_positive_int, short_repr, violates
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

__all__ = ["NLinkArm"]

N_POSTURE_STEPS = 60
POSTURE_DAMPING = 1e-2
SINGULAR = 1e-6  # relative damping; keeps J J' of a straight arm, which is singular, invertible
REACHED = 1e-4


class NLinkArm(AbstractSegments):
    """A planar chain of segments, with the hand at the end of the last one.

    M(q) dw/dt = torque + J_hand' F_hand + sum_i m_i J_i' (g - a_i) - B w + stop(q, w), with joint angles q,
    each relative to the previous segment, w = dq/dt, J_i = d p_i / d q of the centre of mass p_i of segment
    i, a_i = d/dt (J_i) w, and M = sum_i m_i J_i' J_i + I_i s_i s_i', where s_i has ones for the joints up to
    segment i. This is the projected Newton-Euler (Kane's) equation of a chain; JAX differentiates p_i. The
    tests compare it with `TwoLinkArm` and check the conservation of energy.

    For two segments `TwoLinkArm` is faster. With more than two joints, many postures have the same hand
    position; `rest_state` finds one near `posture`.

    **Arguments:**

    - `mass`: of each segment, in kg.
    - `length`: of each segment, in m.
    - `center_of_mass`: distance from the proximal joint, in m; by default half the length.
    - `inertia`: about the centre of mass, in kg m²; by default that of a thin rod, m l² / 12.
    - `joint_limits`: lowest and highest angle of each joint, in rad; by default 0 to 150 degrees.
    - `friction`: B, the viscous friction of each joint, in N m s/rad.
    - `gravity`: acceleration in the plane of the arm, in m/s²; (0, -9.81) for a vertical plane.
    - `posture`: the central posture, in rad. By default the first joint is at 45 degrees and the others
        share 90 degrees.
    - `joint_stop`: the joint stop: `SoftJointLimit()` (default) or `HardJointLimit()`.
    - `workspace`: the region of targets; by default a 20 cm square around the hand in the central posture.
    - `solver`, `n_substeps`: solver and substeps per time step; by default Bogacki and Shampine's method with
        four substeps, which a light segment that hits its stop needs at a time step of 10 ms.
    """

    gravity: Float[Array, "*members 2"]
    posture: Float[Array, "*members joint"]

    def __init__(
        self,
        *,
        mass: Numbers,
        length: Numbers,
        center_of_mass: Numbers | None = None,
        inertia: Numbers | None = None,
        joint_limits: Numbers | None = None,
        friction: Numbers | None = None,
        gravity: Numbers = (0.0, 0.0),
        posture: Numbers | None = None,
        joint_stop: AbstractJointLimit | None = None,
        workspace: Workspace | None = None,
        solver: diffrax.AbstractSolver | None = None,
        n_substeps: int = 4,
    ):
        check_positive_int("n_substeps", n_substeps)
        n = len(mass)
        self.mass = per_joint("mass", mass, n, positive=True)
        self.length = per_joint("length", length, n, positive=True)
        center = self.length / 2 if center_of_mass is None else center_of_mass
        self.center_of_mass = per_joint("center_of_mass", center, n, positive=True)
        rod = self.mass * self.length**2 / 12
        self.inertia = per_joint("inertia", rod if inertia is None else inertia, n, positive=True)
        limits = [(0.0, np.deg2rad(150.0))] * n if joint_limits is None else joint_limits
        self.joint_limits = limits_per_joint(limits, n)
        self.friction = per_joint("friction", np.zeros(n) if friction is None else friction, n)
        self.gravity = jnp.asarray(gravity, self.mass.dtype)
        bent = np.deg2rad([45.0, *[90.0 / max(n - 1, 1)] * (n - 1)])
        self.posture = per_joint("posture", bent if posture is None else posture, n)
        self._check_ranges()
        self.joint_stop = SoftJointLimit() if joint_stop is None else joint_stop
        self.solver = diffrax.Bosh3() if solver is None else solver
        self.n_substeps = n_substeps
        self.n_commands = n
        central = Workspace.around(self.hand_position(self.posture), 0.2)
        self.workspace = central if workspace is None else workspace

    def _check_ranges(self) -> None:
        if self.gravity.shape != (2,):
            raise ValueError(f"`gravity` must be two numbers, got shape {self.gravity.shape}.")

        def is_within(limits: np.ndarray, posture: np.ndarray) -> np.ndarray:
            return (limits[:, 0] <= posture) & (posture <= limits[:, 1])

        if violates(is_within, self.joint_limits, self.posture):
            raise ValueError(
                f"`posture` must be within `joint_limits`, {short_repr(self.joint_limits)} rad, "
                f"got {short_repr(self.posture)}."
            )

    def _points_along(
        self, angle: Float[Array, " joint"], parts: Float[Array, " joint"]
    ) -> Float[Array, "joint space"]:
        """Return the point on each segment at distance `parts` (m) from its proximal joint."""
        direction = jnp.cumsum(angle)
        unit = jnp.stack([jnp.cos(direction), jnp.sin(direction)], axis=1)
        ends = jnp.cumsum(self.length[:, None] * unit, axis=0)
        return ends + (parts - self.length)[:, None] * unit

    def centers(self, angle: Float[Array, " joint"]) -> Float[Array, "joint space"]:
        """Return the centres of mass, in m from the first joint."""
        return self._points_along(angle, self.center_of_mass)

    def joints(self, angle: Float[Array, " joint"]) -> Float[Array, "joint space"]:
        """Return the ends of the segments, in m from the first joint; the last one is the hand."""
        return self._points_along(angle, self.length)

    def hand_position(self, angle: Float[Array, " joint"]) -> Position:
        """Return the position of the hand, in m from the first joint."""
        return self.joints(angle)[-1]

    def inertia_matrix(self, angle: Float[Array, " joint"]) -> Float[Array, "joint joint"]:
        """Return M(q), in kg m²."""
        return self._inertia(jax.jacfwd(self.centers)(angle))

    def _inertia(self, jacobians: Float[Array, "segment space joint"]) -> Float[Array, "joint joint"]:
        turning = jnp.tril(jnp.ones((self.n_commands, self.n_commands), jacobians.dtype))
        by_mass = jnp.einsum("s,sxi,sxj->ij", self.mass, jacobians, jacobians)
        return by_mass + turning.T @ (self.inertia[:, None] * turning)

    def dynamics(self, state: JointState, force: Coordinates, external_force: Position) -> JointState:
        """Return the time derivative of the state; `force` is the joint torques, in N m."""
        angle, velocity = state.angle, state.velocity
        jacobians = jax.jacfwd(self.centers)(angle)

        def velocities(angle):
            return jax.jvp(self.centers, (angle,), (velocity,))[1]

        bias = jax.jvp(velocities, (angle,), (velocity,))[1]
        pulled = self.mass[:, None] * (self.gravity - bias)
        torque = force + jnp.einsum("sxj,sx->j", jacobians, pulled) - self.friction * velocity
        torque = torque + jax.vjp(self.hand_position, angle)[1](external_force)[0]
        torque = torque + self.joint_stop.torque(angle, velocity, self.joint_limits)
        acceleration = jnp.linalg.solve(self._inertia(jacobians), torque)
        return JointState(velocity, acceleration)

    def joint_angles(self, position: Position) -> Float[Array, " joint"]:
        """Return joint angles (rad) within the limits with the hand at `position` (m).

        Damped least squares, starting from `posture`: q <- q + J' (J J' + damping I)^-1 (position - hand),
        clipped to the limits (Wampler 1986, IEEE Trans Syst Man Cybern 16:93-101; also Buss, Introduction to
        Inverse Kinematics, equation 11).
        """

        def nearer(angle, _):
            jacobian = jax.jacfwd(self.hand_position)(angle)
            missing = position - self.hand_position(angle)
            squares = jacobian @ jacobian.T
            damping = POSTURE_DAMPING * jnp.sum(missing**2) + SINGULAR * jnp.trace(squares)
            damped = squares + damping * jnp.eye(2, dtype=angle.dtype)
            moved = angle + jacobian.T @ jnp.linalg.solve(damped, missing)
            return jnp.clip(moved, self.joint_limits[:, 0], self.joint_limits[:, 1]), None

        return jax.lax.scan(nearer, self.posture, None, length=N_POSTURE_STEPS)[0]

    def hand(self, state: JointState) -> HandState:
        return HandState(*jax.jvp(self.hand_position, (state.angle,), (state.velocity,)))

    def skeleton_points(self, state: JointState) -> Float[Array, "point space"]:
        """Return the first joint and the ends of all segments, in m; the last one is the hand."""
        ends = self.joints(state.angle)
        return jnp.concatenate([jnp.zeros_like(ends[:1]), ends])

    def is_reachable(self, position: Position) -> Bool[Array, ""]:
        """Return whether `joint_angles` brings the hand within 0.1 mm of `position` (m)."""
        missing = self.hand_position(self.joint_angles(position)) - position
        return jnp.sum(missing**2) < REACHED**2
