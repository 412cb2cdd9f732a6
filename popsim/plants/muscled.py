"""A skeleton that muscles move."""

from collections.abc import Sequence

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, PyTree

from popsim.checks import check_positive_int
from popsim.hand import HandState
from popsim.muscles import AbstractMuscle
from popsim.muscles.paths import AbstractMusclePath, moment_arms
from popsim.plants.abstract import AbstractPlant
from popsim.plants.load import Load
from popsim.plants.skeleton import AbstractSkeleton
from popsim.workspace import Workspace


class MuscledState(eqx.Module):
    """The state of a body with muscles.

    - `skeleton`: the state of what they move.
    - `activation`: of each muscle, from zero to one.
    - `fibre`: the inner state of the muscles; None on rigid tendons.
    """

    skeleton: PyTree[Array]
    activation: Float[Array, "*axes muscles"]
    fibre: PyTree[Array]


class MuscleReadings(eqx.Module):
    """What can be measured of the muscles of a body.

    - `length`, `velocity`: of the musculotendons, in m and m/s; lengthening is positive.
    - `fibre_length`, `fibre_velocity`: in optimal lengths, and optimal lengths per second.
    - `activation`: from zero to one.
    - `force`: in N.
    - `moment_arms`: d length / d coordinate, in m for joints; the torque of a muscle is minus its force times
        these.
    """

    length: Float[Array, "*axes muscles"]
    velocity: Float[Array, "*axes muscles"]
    fibre_length: Float[Array, "*axes muscles"]
    fibre_velocity: Float[Array, "*axes muscles"]
    activation: Float[Array, "*axes muscles"]
    force: Float[Array, "*axes muscles"]
    moment_arms: Float[Array, "*axes muscles coordinates"]


class Muscled(AbstractPlant):
    """A skeleton with muscles: the commands are their excitations, from zero to one.

    The generalised force on the coordinates q of the skeleton is -(d length / d q)' force, summed over
    muscles. Activation does not depend on the mechanics: it is advanced by its own exact solution, which the
    solver of the mechanics sees at its stages.

    **Arguments:**

    - `skeleton`: what is moved. Its own solver is not used.
    - `path`: how the muscles run over it.
    - `muscle`: the law of their force.
    - `muscle_names`: for figures; by default they are numbered.
    - `solver`, `n_substeps`: how the mechanics are integrated; by default Heun's method with two substeps.

    **Raises:** `ValueError` if path, muscles and names are not equally many, or `n_substeps` is not positive.
    """

    skeleton: AbstractSkeleton
    path: AbstractMusclePath
    muscle: AbstractMuscle
    workspace: Workspace
    solver: diffrax.AbstractSolver
    muscle_names: tuple[str, ...] = eqx.field(static=True)
    n_substeps: int = eqx.field(static=True)
    n_commands: int = eqx.field(static=True)

    def __init__(
        self,
        skeleton: AbstractSkeleton,
        path: AbstractMusclePath,
        muscle: AbstractMuscle,
        *,
        muscle_names: Sequence[str] | None = None,
        solver: diffrax.AbstractSolver | None = None,
        n_substeps: int = 2,
    ):
        check_positive_int("n_substeps", n_substeps)
        self.skeleton = skeleton
        self.path = path
        self.muscle = muscle
        self.workspace = skeleton.workspace
        self.solver = diffrax.Heun() if solver is None else solver
        self.n_substeps = n_substeps
        self.n_commands = _n_muscles(skeleton, path)
        _check_muscles(muscle, self.n_commands)
        numbered = [f"muscle {index}" for index in range(self.n_commands)]
        self.muscle_names = tuple(numbered if muscle_names is None else muscle_names)
        if len(self.muscle_names) != self.n_commands:
            raise ValueError(
                f"`muscle_names` must be {self.n_commands}, one for each muscle of `path`, "
                f"got {muscle_names}."
            )

    def with_muscle(
        self, path: AbstractMusclePath, muscle: AbstractMuscle, *, names: Sequence[str] | None = None
    ) -> "Muscled":
        """This body with further muscles, after those that it has.

        **Arguments:**

        - `path`: how they run; of the kind of the others.
        - `muscle`: their law, with their parameters; the law of the others.
        - `names`: theirs; by default they are numbered.

        **Raises:** `ValueError` if a kind is another, or their numbers differ.
        """
        n_others = _n_muscles(self.skeleton, path)
        numbered = [f"muscle {self.n_commands + index}" for index in range(n_others)]
        return Muscled(
            self.skeleton,
            self.path.with_muscle(path),
            _for_each(self.muscle, self.n_commands).with_muscle(_for_each(muscle, n_others)),
            muscle_names=(*self.muscle_names, *(numbered if names is None else names)),
            solver=self.solver,
            n_substeps=self.n_substeps,
        )

    def vector_field(
        self, t: ArrayLike, state: MuscledState, command: Float[Array, " commands"], load: Load
    ) -> MuscledState:
        activation = self.muscle.activation.after(t, state.activation, command)
        length, velocity, arms = self._stretch(state)
        force = self.muscle.force(state.fibre, activation, length, velocity)
        pulled = -jnp.sum(force[:, None] * arms, axis=0)  # XLA is slow at small matrix products
        return MuscledState(
            self.skeleton.vector_field(t, state.skeleton, pulled, load),
            jnp.zeros_like(activation),
            self.muscle.rate(state.fibre, activation, length, velocity),
        )

    def end_step(self, state: MuscledState, command: Float[Array, " commands"], *, dt: float) -> MuscledState:
        activation = self.muscle.activation.after(dt, state.activation, command)
        skeleton = self.skeleton.within_limits(state.skeleton)
        return MuscledState(skeleton, activation, state.fibre)

    def muscles(self, state: MuscledState) -> MuscleReadings:
        """What can be measured of the muscles."""
        length, velocity, arms = self._stretch(state)
        measured = state.fibre, state.activation, length, velocity
        fibre_length, fibre_velocity = self.muscle.fibre(*measured)
        force = self.muscle.force(*measured)
        return MuscleReadings(length, velocity, fibre_length, fibre_velocity, state.activation, force, arms)

    def coordinates(
        self, state: MuscledState
    ) -> tuple[Float[Array, " coordinates"], Float[Array, " coordinates"]]:
        """Those of the skeleton."""
        return self.skeleton.coordinates(state.skeleton)

    def _stretch(
        self, state: MuscledState
    ) -> tuple[Float[Array, " muscles"], Float[Array, " muscles"], Float[Array, "muscles coordinates"]]:
        """Length (m) and velocity (m/s) of the musculotendons, and their moment arms."""
        coordinates, velocities = self.coordinates(state)
        arms = moment_arms(self.path, coordinates)
        return self.path.length(coordinates), jnp.sum(arms * velocities, axis=1), arms

    def at_rest(self, position: Float[Array, " space"]) -> MuscledState:
        """The skeleton at rest, with all muscles at their least activation and their fibres in equilibrium.

        What muscles pull passively is not balanced: left alone, the body moves.
        """
        skeleton = self.skeleton.at_rest(position)
        length = self.path.length(self.skeleton.coordinates(skeleton)[0])
        activation = jnp.broadcast_to(self.muscle.activation.lowest, length.shape)
        return MuscledState(skeleton, activation, self.muscle.init(activation, length))

    def hand(self, state: MuscledState) -> HandState:
        return self.skeleton.hand(state.skeleton)

    def reachable(self, position: Float[Array, " space"]) -> Bool[Array, ""]:
        return self.skeleton.reachable(position)

    def proprioception(self, state: MuscledState) -> Float[Array, " features"]:
        """Lengths of the fibres in optimal lengths, and their velocities in optimal lengths per second."""
        readings = self.muscles(state)
        return jnp.concatenate([readings.fibre_length, readings.fibre_velocity])


def _n_muscles(skeleton: AbstractSkeleton, path: AbstractMusclePath) -> int:
    def length(position: Float[Array, " space"]) -> Array:
        return path.length(skeleton.coordinates(skeleton.at_rest(position))[0])

    return jax.eval_shape(length, skeleton.workspace.center).shape[0]


def _for_each(muscle: AbstractMuscle, n_muscles: int) -> AbstractMuscle:
    """The same muscles with every parameter for each of them."""
    return jax.tree.map(lambda leaf: leaf if leaf.ndim else jnp.broadcast_to(leaf, (n_muscles,)), muscle)


def _check_muscles(muscle: AbstractMuscle, n_muscles: int) -> None:
    """Raise `ValueError` if the parameters of `muscle` are not those of `n_muscles` muscles."""
    for leaf in jax.tree.leaves(eqx.filter(muscle, eqx.is_array)):
        if leaf.ndim and leaf.shape != (n_muscles,):
            raise ValueError(
                f"`muscle` must have one number, or {n_muscles}, for each of its parameters, because `path` "
                f"has {n_muscles} muscles; got one of shape {leaf.shape}."
            )
