"""The contract of a plant: an ordinary differential equation over a time step, and its kinematics."""

import abc
from typing import ClassVar

import diffrax
import equinox as eqx
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, PyTree

from popsim.hand import HandState
from popsim.parameters import Constants
from popsim.plants.load import Load
from popsim.workspace import Workspace


class AbstractPlant(eqx.Module):
    """A body: how its state changes under a command, and where its hand is.

    A body that forces move is an `AbstractSkeleton`, which asks for less; muscles on one make a `Muscled`
    body. The state is any PyTree of arrays. All in SI units. The equation is integrated by
    `popsim.plants.advance` with the plant's `solver`, a diffrax solver, in `n_substeps` equal parts of a time
    step. A subclass supplies what is abstract below.

    No array of a body is learned, unless its class says otherwise by `constants`, or the array is picked by
    itself; see `popsim.is_parameter`.

    **Fields:**

    - `solver`, `n_substeps`: how the equation is integrated.
    - `n_commands`: how many numbers a command has.
    - `workspace`: where tasks put their targets.
    """

    constants: ClassVar[Constants] = "all"
    solver: eqx.AbstractVar[diffrax.AbstractSolver]
    n_substeps: eqx.AbstractVar[int]
    n_commands: eqx.AbstractVar[int]
    workspace: eqx.AbstractVar[Workspace]

    @abc.abstractmethod
    def vector_field(
        self, t: ArrayLike, state: PyTree[Array], command: Float[Array, " commands"], load: Load
    ) -> PyTree[Array]:
        """The rate of change of the state.

        **Arguments:**

        - `t`: the time since the beginning of the time step, in seconds.
        - `state`: the state of the body at this time.
        - `command`: the motor command, held over the step (forces in N, torques in N m, excitations ...).
        - `load`: the forces of the world.

        **Returns:** d state / dt, of the structure of `state`.
        """

    @abc.abstractmethod
    def end_step(
        self, state: PyTree[Array], command: Float[Array, " commands"], *, dt: float
    ) -> PyTree[Array]:
        """The state after a time step, with what the equation leaves alone brought up to date.

        **Arguments:**

        - `state`: as the solver leaves it.
        - `command`: as for `vector_field`.
        - `dt`: the length of the step, in seconds.
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
