"""The contract of a plant: an ordinary differential equation and its kinematics."""

import abc

import diffrax
import equinox as eqx
from jaxtyping import Array, Bool, Float, PyTree

from popsim.hand import HandState
from popsim.workspace import Workspace


class AbstractPlant(eqx.Module):
    """A body: how its state changes under a command, and where its hand is.

    A subclass supplies what is abstract below; the state is any PyTree of arrays. All in SI units. The
    equation is integrated by `popsim.plants.advance` with the plant's `solver`, a diffrax solver, in
    `n_substeps` equal parts of a time step.

    !!! example

        ```python
        >>> import diffrax, equinox as eqx, jax, jax.numpy as jnp, popsim
        >>> class Slider(popsim.plants.AbstractPlant):
        ...     "A hand in honey: its velocity is the command."
        ...     solver: diffrax.AbstractSolver = diffrax.Euler()
        ...     n_substeps: int = eqx.field(static=True, default=1)
        ...     n_commands: int = eqx.field(static=True, default=2)
        ...     workspace: popsim.Workspace = popsim.Workspace.around(jnp.zeros(2), 0.2)
        ...     def vector_field(self, state, command, external_force):
        ...         return command + external_force
        ...     def at_rest(self, position):
        ...         return position
        ...     def hand(self, state):
        ...         return popsim.HandState(state, jnp.zeros(2))
        ...     def reachable(self, position):
        ...         return jnp.array(True)
        ...     def proprioception(self, state):
        ...         return state
        >>> moved = popsim.plants.simulate_plant(Slider(), jnp.ones((10, 2)), dt=0.01)
        >>> bool(jnp.allclose(moved.hand.position[-1], 0.1))
        True

        ```
    """

    solver: eqx.AbstractVar[diffrax.AbstractSolver]
    n_substeps: eqx.AbstractVar[int]
    n_commands: eqx.AbstractVar[int]
    workspace: eqx.AbstractVar[Workspace]

    @abc.abstractmethod
    def vector_field(
        self, state: PyTree[Array], command: Float[Array, " commands"], external_force: Float[Array, " space"]
    ) -> PyTree[Array]:
        """The rate of change of the state.

        **Arguments:**

        - `state`: the state of the body.
        - `command`: the motor command (forces in N, torques in N m, excitations ...).
        - `external_force`: the force of the world on the hand, in N.

        **Returns:** d state / dt, of the structure of `state`.
        """

    @abc.abstractmethod
    def at_rest(self, position: Float[Array, " space"]) -> PyTree[Array]:
        """The state of the body at rest with its hand at `position` (m).

        For a position out of reach the nearest posture: see `reachable`.
        """

    @abc.abstractmethod
    def hand(self, state: PyTree[Array]) -> HandState:
        """Position (m) and velocity (m/s) of the hand."""

    @abc.abstractmethod
    def reachable(self, position: Float[Array, " space"]) -> Bool[Array, ""]:
        """Whether the hand can be at `position` (m)."""

    @abc.abstractmethod
    def proprioception(self, state: PyTree[Array]) -> Float[Array, " features"]:
        """What the body feels of itself, in SI units, such as joint angles and joint velocities."""
