"""Abstract plants and skeletons, and checks of their outputs, which run at trace time only."""

import abc
from collections.abc import Callable
from typing import ClassVar, Literal

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, PyTree

from popsim._compiled import jit
from popsim._shared.checks import check_like, concrete_value, explain_errors, kind_of
from popsim.hand import Coordinates, HandState, Load, Position, Workspace
from popsim.parameters import Constants

__all__ = ["AbstractPlant", "AbstractSkeleton"]

Commands = Float[Array, " commands"]
RateFn = Callable[[ArrayLike, PyTree[Array]], PyTree[Array]]
EndFn = Callable[[PyTree[Array]], PyTree[Array]]


class AbstractPlant(eqx.Module):
    """A plant: a differential equation driven by motor commands, with a hand.

    Plants moved by forces should subclass `AbstractSkeleton`, which requires less; `MusculoskeletalPlant`
    adds muscles to a skeleton. The state is any PyTree of arrays, in SI units. `popsim.plants.advance`
    integrates the equation with `solver`, a diffrax solver, in `n_substeps` equal substeps per time step.

    Arrays of a plant are not trained, unless its class overrides `constants` or the array itself is selected;
    see `popsim.is_parameter`.

    **Fields:**

    - `solver`, `n_substeps`: the solver, and the number of substeps per time step.
    - `n_commands`: the size of a command.
    - `workspace`: the region in which tasks place targets.
    """

    constants: ClassVar[Constants] = "all"
    solver: eqx.AbstractVar[diffrax.AbstractSolver]
    n_substeps: eqx.AbstractVar[int]
    n_commands: eqx.AbstractVar[int]
    workspace: eqx.AbstractVar[Workspace]

    @abc.abstractmethod
    def vector_field(
        self, t: ArrayLike, state: PyTree[Array], command: Commands, load: Load
    ) -> PyTree[Array]:
        """Return the time derivative of the state.

        **Arguments:**

        - `t`: the time since the start of the time step, in seconds.
        - `state`: the state at `t`.
        - `command`: the motor command, constant over the step (forces in N, torques in N m, excitations ...).
        - `load`: the external forces.

        **Returns:** d state / dt, with the structure of `state`.
        """

    @abc.abstractmethod
    def end_step(self, state: PyTree[Array], command: Commands, *, dt: float) -> PyTree[Array]:
        """Return the state at the end of a time step, after updates that the equation does not make.

        **Arguments:**

        - `state`: the state returned by the solver.
        - `command`: as for `vector_field`.
        - `dt`: the time step, in seconds.
        """

    def step_functions(
        self, state: PyTree[Array], command: Commands, load: Load, *, dt: float
    ) -> tuple[RateFn, EndFn]:
        """Return `vector_field`, of time and state, and `end_step`, of the state, for one time step.

        They are checked where they are called. A body may return functions that share work.

        **Arguments:**

        - `state`: the state at the start.
        - others: as for `vector_field` and `end_step`.
        """

        def rate(t: ArrayLike, state: PyTree[Array]) -> PyTree[Array]:
            return self.vector_field(t, state, command, load)

        return rate, lambda state: self.end_step(state, command, dt=dt)

    @abc.abstractmethod
    def rest_state(self, position: Position) -> PyTree[Array]:
        """Return the state at rest with the hand at `position` (m).

        If the position is out of reach (see `is_reachable`), return the nearest posture.
        """

    def state_axes(self) -> dict[str, tuple[str, str]]:
        """Return for exports the name of the last axis of each array of the state, and its SI unit.

        Arrays are named by their place in the state, such as "angle" or "skeleton_angle"; the unit may be
        empty. By default nothing is known.
        """
        return {}

    @abc.abstractmethod
    def coordinates(self, state: PyTree[Array]) -> tuple[Coordinates, Coordinates]:
        """Return coordinates and velocities: joint angles (rad, rad/s) or a position (m, m/s).

        `Load.on_coordinates` acts on them.
        """

    @abc.abstractmethod
    def hand(self, state: PyTree[Array]) -> HandState:
        """Return position (m) and velocity (m/s) of the hand."""

    @abc.abstractmethod
    def is_reachable(self, position: Position) -> Bool[Array, ""]:
        """Return whether the hand can reach `position` (m)."""

    @abc.abstractmethod
    def proprioception(self, state: PyTree[Array]) -> Float[Array, " features"]:
        """Return the proprioceptive signals in SI units, such as joint angles and joint velocities."""

    def skeleton_points(self, state: PyTree[Array]) -> Float[Array, "point space"]:
        """Return the points of the body in the world, in m, from its base over the joints to the hand.

        Segments are straight lines from each point to the next. By default the hand is the only point, as of
        a mass; a body with segments overrides this method, and figures then draw them.

        Of a trial, `jax.vmap(plant.skeleton_points)(states.plant)` has the axes (time, point, space); one
        more `jax.vmap` takes the states of several trials.

        **Arguments:**

        - `state`: the state of the body at one time.
        """
        return self.hand(state).position[None]


def evaluate(
    plant: AbstractPlant, method: str, arguments: str, call: Callable[[], PyTree[Array]], state: PyTree[Array]
) -> PyTree[Array]:
    """Return the result of a method of a plant, which must be like its state."""
    name = f"`{method}` of {type(plant).__name__}"
    with explain_errors(name, arguments):
        result = call()
    check_like(name, "the state", state, result)
    return result


def evaluate_rate(plant: AbstractPlant, rate: RateFn, t: ArrayLike, state: PyTree[Array]) -> PyTree[Array]:
    """Return the result of a `rate` of `plant.step_functions`, checked."""
    return evaluate(plant, "vector_field", "(t, state, command, load)", lambda: rate(t, state), state)


def evaluate_end(plant: AbstractPlant, end: EndFn, state: PyTree[Array]) -> PyTree[Array]:
    """Return the result of an `end` of `plant.step_functions`, checked."""
    return evaluate(plant, "end_step", "(state, command, dt=dt)", lambda: end(state), state)


def evaluate_rest(plant: AbstractPlant, position: Position) -> tuple[PyTree[Array], HandState]:
    """Return the state of a plant at rest and its hand, checked."""
    with explain_errors(f"`rest_state` of {type(plant).__name__}", "(position)"):
        state = plant.rest_state(position)
    try:
        return state, _evaluate_hand(plant, state)
    except ValueError as error:
        raise ValueError(
            f"{str(error).removesuffix('.')}, for the state that `rest_state` returned, {kind_of(state)}."
        ) from error


def _evaluate_hand(plant: AbstractPlant, state: PyTree[Array]) -> HandState:
    name = f"`hand` of {type(plant).__name__}"
    with explain_errors(name, "(state)"):
        hand = plant.hand(state)
    if not isinstance(hand, HandState):
        raise ValueError(f"{name} must return a HandState(position, velocity), got {kind_of(hand)}.")
    expected = plant.workspace.center.shape
    for field in ("position", "velocity"):
        shape = jnp.shape(getattr(hand, field))
        if shape != expected:
            raise ValueError(
                f"{name} must return a {field} of shape {expected}, as its workspace has, got {shape}."
            )
    return hand


class AbstractSkeleton(AbstractPlant):
    """A plant moved by generalised forces: torques on joints, or forces on a mass.

    The command is the generalised force; `MusculoskeletalPlant` adds muscles. A subclass supplies `dynamics`
    and `enforce_limits`, and from `AbstractPlant` the fields, `rest_state`, `coordinates`, `hand` and
    `is_reachable`.

    !!! example

        ```python
        >>> import diffrax, equinox as eqx, jax, jax.numpy as jnp, popsim
        >>> class Slider(popsim.plants.AbstractSkeleton):
        ...     "A hand in honey: its velocity is the force on it."
        ...     solver: diffrax.AbstractSolver = diffrax.Euler()
        ...     n_substeps: int = eqx.field(static=True, default=1)
        ...     n_commands: int = eqx.field(static=True, default=2)
        ...     workspace: popsim.Workspace = popsim.Workspace.around(jnp.zeros(2), 0.2)
        ...     def dynamics(self, state, force, external_force):
        ...         return force + external_force
        ...     def coordinates(self, state):
        ...         return state, jnp.zeros(2)
        ...     def enforce_limits(self, state):
        ...         return state
        ...     def rest_state(self, position):
        ...         return position
        ...     def hand(self, state):
        ...         return popsim.HandState(state, jnp.zeros(2))
        ...     def is_reachable(self, position):
        ...         return jnp.array(True)
        >>> moved = popsim.plants.simulate_plant(Slider(), jnp.ones((10, 2)), dt=0.01)
        >>> bool(jnp.allclose(moved.hand.position[-1], 0.1))
        True

        ```
    """

    @abc.abstractmethod
    def dynamics(self, state: PyTree[Array], force: Coordinates, external_force: Position) -> PyTree[Array]:
        """Return the time derivative of the state, an affine function of the forces.

        **Arguments:**

        - `state`: the state of the skeleton.
        - `force`: the generalised force on its coordinates (N, or N m for joints).
        - `external_force`: the external force on the hand, in N.

        **Returns:** d state / dt, with the structure of `state`.
        """

    def damping_rates(self) -> Float[np.ndarray, " modes"]:
        """Return how fast viscous friction ends movements, damping / mass in 1/s; by default not at all.

        Called with numbers, before anything is compiled: a time step that is too long for them is refused.
        """
        return np.zeros(1)

    @abc.abstractmethod
    def enforce_limits(self, state: PyTree[Array]) -> PyTree[Array]:
        """Return the state after a time step, moved back within the limits where it exceeds them."""

    def vector_field(
        self, t: ArrayLike, state: PyTree[Array], command: Commands, load: Load
    ) -> PyTree[Array]:
        """Return the time derivative of the state under the command and the load.

        With a mass m in the hand, the acceleration of the hand is a = a0 + W F, where a0 is the acceleration
        without the force F of the mass and W the inverse inertia (mobility) of the hand. Hence
        F = -m a = -m (I + m W)^-1 a0. A mass has no effect on a hand that forces do not accelerate, as in
        first-order dynamics.
        """
        force = command
        if load.on_coordinates is not None:
            force = force + load.on_coordinates(*self.coordinates(state))
        hand_force = load.hand_force(self.hand(state))
        if load.hand_mass is None:
            return self._evaluate_dynamics(state, force, hand_force)
        # `push` is exact, because the dynamics are affine in the force.
        rate, push = jax.linearize(
            lambda hand_load: self._evaluate_dynamics(state, force, hand_load), hand_force
        )
        # The acceleration of the hand is its velocity differentiated along the rate of the state. So no
        # skeleton needs to supply its inertia: the mobility W is found column by column, from unit forces.
        _, acceleration = jax.linearize(lambda body: self.hand(body).velocity, state)
        directions = jnp.eye(hand_force.shape[0], dtype=hand_force.dtype)
        mobility = jax.vmap(lambda direction: acceleration(push(direction)), out_axes=1)(directions)
        # I + m W is solved, not W inverted: W is singular where the arm is stretched out, and m may be zero.
        mass_force = -load.hand_mass * jnp.linalg.solve(
            directions + load.hand_mass * mobility, acceleration(rate)
        )
        return jax.tree.map(jnp.add, rate, push(mass_force))

    def _evaluate_dynamics(
        self, state: PyTree[Array], force: Coordinates, external_force: Position
    ) -> PyTree[Array]:
        def dynamics() -> PyTree[Array]:
            return self.dynamics(state, force, external_force)

        return evaluate(self, "dynamics", "(state, force, external_force)", dynamics, state)

    def end_step(self, state: PyTree[Array], command: Commands, *, dt: float) -> PyTree[Array]:
        return self.enforce_limits(state)

    def proprioception(self, state: PyTree[Array]) -> Float[Array, " features"]:
        """Return the coordinates and their velocities."""
        return jnp.concatenate(self.coordinates(state))


LoadKind = Literal["force", "torque", "mass"]


def check_feels_load(plant: AbstractPlant, kind: LoadKind) -> None:
    """Raise `ValueError` unless loads of a kind act on `plant`."""
    if kind == "force" and (isinstance(plant, AbstractSkeleton) or hasattr(plant, "skeleton")):
        return  # its dynamics contain it
    answer = concrete_value(_FELT[kind], plant)
    if answer is not None and not answer:
        what = {"force": "a force on the hand", "torque": "forces on coordinates, such as torques"}
        raise ValueError(
            f"`plant` must be changed by {what.get(kind, 'a mass in the hand')}, as is an AbstractSkeleton "
            f"that forces accelerate, or muscles on one; got {type(plant).__name__}."
        )


def _at_rest(plant: AbstractPlant, load: Load) -> tuple[PyTree[Array], PyTree[Array]]:
    """Return the state at rest, and its time derivative under a load and no command."""
    body = plant.rest_state(plant.workspace.center)
    command = jnp.zeros(plant.n_commands, plant.workspace.center.dtype)
    return body, plant.vector_field(0.0, body, command, load)


@jit
def _carries_mass(plant: AbstractPlant) -> Bool[Array, ""]:
    """Compare accelerations along each axis with and without one kilogram."""

    def acceleration(push: Position, mass: float) -> Position:
        load = Load(lambda hand: push, hand_mass=jnp.asarray(mass, push.dtype))
        body, rate = _at_rest(plant, load)
        return jax.jvp(lambda state: plant.hand(state).velocity, (body,), (rate,))[1]

    pushes = jnp.eye(plant.workspace.center.shape[0], dtype=plant.workspace.center.dtype)
    freely, laden = (jax.vmap(lambda push, m=m: acceleration(push, m))(pushes) for m in (0.0, 1.0))
    return jnp.any(freely != laden)


def _feels(load_of: Callable[[Array], Load]) -> Callable[[AbstractPlant], Bool[Array, ""]]:
    """Return a function that compares derivatives at rest with and without loads along each axis."""

    def feels(plant: AbstractPlant) -> Bool[Array, ""]:
        def changes(axis: Array) -> Bool[Array, ""]:
            freely, under = (jax.tree.leaves(_at_rest(plant, each)[1]) for each in (Load(), load_of(axis)))
            return jnp.any(jnp.stack([jnp.any(a != b) for a, b in zip(freely, under, strict=True)]))

        body = plant.rest_state(plant.workspace.center)
        n_axes = max(plant.coordinates(body)[0].size, plant.workspace.center.size)
        return jnp.any(jax.vmap(changes)(jnp.arange(n_axes)))

    return jit(feels)


def _along(axis: Array, like: Array) -> Array:
    return (jnp.arange(like.size) == axis).astype(like.dtype)


_FELT = {
    "force": _feels(lambda axis: Load(lambda hand: _along(axis, hand.position))),
    "torque": _feels(lambda axis: Load(on_coordinates=lambda angles, speeds: _along(axis, angles))),
    "mass": _carries_mass,
}
