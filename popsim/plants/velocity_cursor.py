"""A cursor whose velocity is the command, as of a brain-computer interface."""

import diffrax
import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool

from popsim._shared.plain_values import plain_number
from popsim.hand import HandState, Load, Workspace
from popsim.plants.base import AbstractPlant, Commands, Coordinates, Position
from popsim.plants.point_mass import PointMassState

__all__ = ["VelocityCursor"]


class VelocityCursor(AbstractPlant):
    """A cursor that moves with the velocity that is commanded, dx/dt = u: the body of a decoder.

    The network's readout is the decoder of a brain-computer interface (Sadtler et al. 2014, Nature
    512:423-426, abstract); leave it out of what is trained. The cursor has no mass: trials that schedule a
    load are refused.

    **Arguments:**

    - `workspace`: the region of targets, with two or three axes; by default a 20 cm square around the
        origin. The cursor moves in the same number of dimensions.
    - `solver`: Euler's method is exact.
    """

    workspace: Workspace = eqx.field(default_factory=lambda: Workspace.around(jnp.zeros(2), 0.2))
    solver: diffrax.AbstractSolver = diffrax.Euler()
    n_substeps: int = eqx.field(static=True, converter=plain_number, default=1)

    @property
    def n_commands(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The number of axes."""
        return self.workspace.low.shape[-1]

    def vector_field(
        self, t: ArrayLike, state: PointMassState, command: Commands, load: Load
    ) -> PointMassState:
        return PointMassState(command, jnp.zeros_like(command))

    def end_step(self, state: PointMassState, command: Commands, *, dt: float) -> PointMassState:
        return PointMassState(state.position, command)

    def state_axes(self) -> dict[str, tuple[str, str]]:
        return {"position": ("space", "m"), "velocity": ("space", "m/s")}

    def rest_state(self, position: Position) -> PointMassState:
        return PointMassState(position, jnp.zeros_like(position))

    def coordinates(self, state: PointMassState) -> tuple[Coordinates, Coordinates]:
        """Return position (m) and velocity (m/s)."""
        return state.position, state.velocity

    def hand(self, state: PointMassState) -> HandState:
        return HandState(state.position, state.velocity)

    def is_reachable(self, position: Position) -> Bool[Array, ""]:
        return jnp.all(jnp.isfinite(position))

    def proprioception(self, state: PointMassState) -> Array:
        """Return position and velocity."""
        return jnp.concatenate([state.position, state.velocity])
