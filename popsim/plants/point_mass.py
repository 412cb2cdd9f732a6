"""A point mass."""

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from popsim._shared.argument_shapes import check_of_one_model, check_one_or_each
from popsim._shared.checks import check_non_negative, check_positive, check_positive_int, warn_of_unit
from popsim._shared.plain_values import plain_number
from popsim.hand import HandState, Workspace
from popsim.plants.base import AbstractSkeleton, Coordinates, Position

__all__ = ["PointMassState", "PointMass"]


class PointMassState(eqx.Module):
    """Position (m) and velocity (m/s) of a point mass."""

    position: Float[Array, "*axes space"]
    velocity: Float[Array, "*axes space"]


class PointMass(AbstractSkeleton):
    """A point mass: m dv/dt = command + external force - damping v.

    **Arguments:**

    - `mass`: m, in kg.
    - `damping`: viscous damping, in N s/m.
    - `workspace`: the region of targets, with two or three axes; by default a 20 cm square around the
        origin. The mass moves in the same number of dimensions.
    - `solver`, `n_substeps`: solver and substeps per time step. The default, Heun's method, is exact for an
        undamped mass under forces that are constant over a step.
    """

    mass: Float[Array, "*members"]
    damping: Float[Array, "*members"]
    workspace: Workspace
    solver: diffrax.AbstractSolver
    n_substeps: int = eqx.field(static=True, converter=plain_number)
    n_commands: int = eqx.field(static=True, converter=plain_number, init=False)

    def __init__(
        self,
        mass: ArrayLike = 1.0,
        *,
        damping: ArrayLike = 0.0,
        workspace: Workspace | None = None,
        solver: diffrax.AbstractSolver | None = None,
        n_substeps: int = 1,
    ):
        for name, value in (("mass", mass), ("damping", damping)):
            check_of_one_model(name, value)
            check_one_or_each(name, value)
        check_positive("mass", mass)
        warn_of_unit("mass", mass, "mass")
        check_positive_int("n_substeps", n_substeps)
        check_non_negative("damping", damping)
        self.workspace = Workspace.around(jnp.zeros(2), 0.2) if workspace is None else workspace
        self.mass = jnp.asarray(mass, self.workspace.low.dtype)
        self.damping = jnp.asarray(damping, self.workspace.low.dtype)
        self.solver = diffrax.Heun() if solver is None else solver
        self.n_substeps = n_substeps
        self.n_commands = self.workspace.low.shape[0]

    def dynamics(self, state: PointMassState, force: Coordinates, external_force: Position) -> PointMassState:
        total = force + external_force - self.damping * state.velocity
        return PointMassState(state.velocity, total / self.mass)

    def state_axes(self) -> dict[str, tuple[str, str]]:
        return {"position": ("space", "m"), "velocity": ("space", "m/s")}

    def damping_rates(self) -> Float[np.ndarray, " modes"]:
        return np.ravel(np.divide(self.damping, self.mass))

    def enforce_limits(self, state: PointMassState) -> PointMassState:
        return state

    def coordinates(self, state: PointMassState) -> tuple[Coordinates, Coordinates]:
        """Return position (m) and velocity (m/s)."""
        return state.position, state.velocity

    def rest_state(self, position: Position) -> PointMassState:
        return PointMassState(position, jnp.zeros_like(position))

    def hand(self, state: PointMassState) -> HandState:
        return HandState(state.position, state.velocity)

    def is_reachable(self, position: Position) -> Bool[Array, ""]:
        return jnp.all(jnp.isfinite(position))
