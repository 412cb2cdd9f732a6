"""Skeletons moved by muscles."""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, PyTree

from popsim._compiled import elementwise, memoize_in_trace
from popsim._shared.checks import check_positive_int, short_repr
from popsim._shared.plain_values import plain_number
from popsim.hand import HandState, Load, Workspace
from popsim.muscles import (
    ARM26_MUSCLES,
    LI_TODOROV_MUSCLES,
    AbstractActivation,
    AbstractMuscle,
    BrownLoebMuscle,
    ReluMuscle,
    RigidTendonHillMuscle,
    arm26_compliant_muscles,
    arm26_compliant_path,
    arm26_muscles,
    arm26_path,
    li_todorov_muscles,
    li_todorov_path,
)
from popsim.muscles.paths import AbstractMusclePath, PointMassPlacement, StraightPath, moment_arms
from popsim.plants.base import AbstractPlant, AbstractSkeleton, Commands, Coordinates, EndFn, Position, RateFn
from popsim.plants.joints import AbstractJointLimit, SoftJointLimit
from popsim.plants.point_mass import PointMass
from popsim.plants.two_link_arm import TwoLinkArm

__all__ = [
    "MusculoskeletalState",
    "MuscleReadings",
    "MusculoskeletalPlant",
    "arm26",
    "li_todorov_arm",
    "muscled_point_mass",
]


class MusculoskeletalState(eqx.Module):
    """The state of a skeleton and its muscles.

    - `skeleton`: the state of the skeleton.
    - `activation`: of each muscle, from zero to one.
    - `fibre`: the internal state of the muscles; None for rigid tendons.
    """

    skeleton: PyTree[Array]
    activation: Float[Array, "*axes muscles"]
    fibre: PyTree[Array]


class MuscleReadings(eqx.Module):
    """Measurements of all muscles of a plant.

    - `length`, `velocity`: of the musculotendons, in m and m/s; lengthening is positive.
    - `fibre_length`, `fibre_velocity`: in optimal lengths, and optimal lengths per second.
    - `activation`: from zero to one.
    - `force`: in N.
    - `moment_arms`: d length / d coordinate, in m for joints; the torque is minus force times moment arm.
    """

    length: Float[Array, "*axes muscles"]
    velocity: Float[Array, "*axes muscles"]
    fibre_length: Float[Array, "*axes muscles"]
    fibre_velocity: Float[Array, "*axes muscles"]
    activation: Float[Array, "*axes muscles"]
    force: Float[Array, "*axes muscles"]
    moment_arms: Float[Array, "*axes muscles coordinates"]


class MusculoskeletalPlant(AbstractPlant):
    """A skeleton moved by muscles. The commands are muscle excitations, from zero to one.

    The generalised force on the coordinates q of the skeleton is -(d length / d q)' force, summed over
    muscles. Activation does not depend on the mechanics: it follows its own exact solution, evaluated at the
    stages of the solver.

    **Arguments:**

    - `skeleton`: the skeleton. Its own solver is not used.
    - `path`: the paths of the muscles over it.
    - `muscle`: the muscle model.
    - `muscle_names`: names for figures; numbered by default.
    - `solver`, `n_substeps`: solver and substeps per time step; by default Heun's method with two substeps.
    """

    skeleton: AbstractSkeleton
    path: AbstractMusclePath
    muscle: AbstractMuscle
    solver: diffrax.AbstractSolver
    muscle_names: tuple[str, ...] = eqx.field(static=True)
    n_substeps: int = eqx.field(static=True, converter=plain_number)
    n_commands: int = eqx.field(static=True, converter=plain_number, init=False)

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

    @property
    def workspace(self) -> Workspace:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the skeleton."""
        return self.skeleton.workspace

    def with_muscle(
        self, path: AbstractMusclePath, muscle: AbstractMuscle, *, names: Sequence[str] | None = None
    ) -> "MusculoskeletalPlant":
        """Return this plant with more muscles appended.

        **Arguments:**

        - `path`: their paths, of the same class as those of this plant.
        - `muscle`: their muscle model, of the same class, with their parameters.
        - `names`: their names; numbered by default.
        """
        n_others = _n_muscles(self.skeleton, path)
        numbered = [f"muscle {self.n_commands + index}" for index in range(n_others)]
        return MusculoskeletalPlant(
            self.skeleton,
            self.path.with_muscle(path),
            _for_each(self.muscle, self.n_commands).with_muscle(_for_each(muscle, n_others)),
            muscle_names=(*self.muscle_names, *(numbered if names is None else names)),
            solver=self.solver,
            n_substeps=self.n_substeps,
        )

    def vector_field(
        self, t: ArrayLike, state: MusculoskeletalState, command: Commands, load: Load
    ) -> MusculoskeletalState:
        activation = _activation_after(self.muscle.activation, t, state.activation, command)
        return self._rate(t, dataclasses.replace(state, activation=activation), load)

    def _rate(self, t: ArrayLike, state: MusculoskeletalState, load: Load) -> MusculoskeletalState:
        """Return the time derivative of the state, with the activation held."""
        length, velocity, arms = self._stretch(state)
        force, rate = _contract(self.muscle, state.fibre, state.activation, length, velocity)
        # A sum, because XLA is slow at small matrix products.
        pulled = -jnp.sum(force[:, None] * arms, axis=0)
        skeleton = self.skeleton.vector_field(t, state.skeleton, pulled, load)
        return MusculoskeletalState(skeleton, jnp.zeros_like(state.activation), rate)

    def end_step(self, state: MusculoskeletalState, command: Commands, *, dt: float) -> MusculoskeletalState:
        activation = _activation_after(self.muscle.activation, dt, state.activation, command)
        skeleton = self.skeleton.enforce_limits(state.skeleton)
        return MusculoskeletalState(skeleton, activation, state.fibre)

    def step_functions(
        self, state: MusculoskeletalState, command: Commands, load: Load, *, dt: float
    ) -> tuple[RateFn, EndFn]:
        """Return functions that evaluate the activation once for each time at which they are called."""
        cls, base = type(self), MusculoskeletalPlant
        # A subclass that overrides one of them must be asked; the shortcut below would bypass it.
        if cls.vector_field is not base.vector_field or cls.end_step is not base.end_step:
            return super().step_functions(state, command, load, dt=dt)
        activation_at = memoize_in_trace(
            lambda t: _activation_after(self.muscle.activation, t, state.activation, command),
            # After zero seconds the activation is what it was: the first stage of a solver costs no
            # evaluation.
            {0.0: state.activation},
        )

        def rate(t: ArrayLike, body: MusculoskeletalState) -> MusculoskeletalState:
            return self._rate(t, dataclasses.replace(body, activation=activation_at(t)), load)

        def end(body: MusculoskeletalState) -> MusculoskeletalState:
            skeleton = self.skeleton.enforce_limits(body.skeleton)
            return MusculoskeletalState(skeleton, activation_at(float(dt)), body.fibre)

        return rate, end

    def muscles(self, state: MusculoskeletalState) -> MuscleReadings:
        """Return the measurements of all muscles."""
        length, velocity, arms = self._stretch(state)
        measured = state.fibre, state.activation, length, velocity
        fibre_length, fibre_velocity = self.muscle.fibre(*measured)
        force = self.muscle.force(*measured)
        return MuscleReadings(length, velocity, fibre_length, fibre_velocity, state.activation, force, arms)

    def state_axes(self) -> dict[str, tuple[str, str]]:
        skeleton_axes = {f"skeleton_{name}": axis for name, axis in self.skeleton.state_axes().items()}
        return {**skeleton_axes, "activation": ("muscle", "1"), "fibre": ("muscle", "")}

    def coordinates(self, state: MusculoskeletalState) -> tuple[Coordinates, Coordinates]:
        """Return the coordinates of the skeleton and their velocities."""
        return self.skeleton.coordinates(state.skeleton)

    def _stretch(
        self, state: MusculoskeletalState
    ) -> tuple[Float[Array, " muscles"], Float[Array, " muscles"], Float[Array, "muscles coordinates"]]:
        """Return length (m), velocity (m/s) and moment arms of the musculotendons."""
        coordinates, velocities = self.coordinates(state)
        arms = moment_arms(self.path, coordinates)
        return self.path.length(coordinates), jnp.sum(arms * velocities, axis=1), arms

    def rest_state(self, position: Position) -> MusculoskeletalState:
        """Return the skeleton at rest, with minimal activations and fibres in equilibrium.

        Passive muscle forces are not balanced: without commands, the plant moves.
        """
        skeleton = self.skeleton.rest_state(position)
        length = self.path.length(self.skeleton.coordinates(skeleton)[0])
        activation = jnp.broadcast_to(self.muscle.activation.lowest, length.shape)
        return MusculoskeletalState(skeleton, activation, self.muscle.init(activation, length))

    def hand(self, state: MusculoskeletalState) -> HandState:
        return self.skeleton.hand(state.skeleton)

    def skeleton_points(self, state: MusculoskeletalState) -> Float[Array, "point space"]:
        """Return the points of the skeleton, in m."""
        return self.skeleton.skeleton_points(state.skeleton)

    def muscle_points(self, state: MusculoskeletalState) -> tuple[Float[Array, "_ space"], ...] | None:
        """Return the points of each muscle in the world, in m, from origin to insertion.

        None if `path` has no geometry, as that of `arm26`: see `AbstractMusclePath.world_points`.
        """
        return self.path.world_points(self.coordinates(state)[0])

    def is_reachable(self, position: Position) -> Bool[Array, ""]:
        return self.skeleton.is_reachable(position)

    def proprioception(self, state: MusculoskeletalState) -> Float[Array, " features"]:
        """Return fibre lengths in optimal lengths, and fibre velocities in optimal lengths per second."""
        readings = self.muscles(state)
        return jnp.concatenate([readings.fibre_length, readings.fibre_velocity])


@elementwise
def _contract(
    muscle: AbstractMuscle, state: PyTree[Array], activation: Array, length: Array, velocity: Array
) -> tuple[Array, PyTree[Array]]:
    """Return the force of each muscle, and the derivative of its internal state."""
    measured = state, activation, length, velocity
    return muscle.force(*measured), muscle.rate(*measured)


@elementwise
def _activation_after(activation: AbstractActivation, t: ArrayLike, start: Array, excitation: Array) -> Array:
    return activation.advance(t, start, excitation)


def _n_muscles(skeleton: AbstractSkeleton, path: AbstractMusclePath) -> int:
    def length(position: Position) -> Array:
        return path.length(skeleton.coordinates(skeleton.rest_state(position))[0])

    return jax.eval_shape(length, skeleton.workspace.center).shape[0]


def _for_each(muscle: AbstractMuscle, n_muscles: int) -> AbstractMuscle:
    """Broadcast every scalar parameter to one value per muscle."""
    return jax.tree.map(lambda leaf: leaf if leaf.ndim else jnp.broadcast_to(leaf, (n_muscles,)), muscle)


def _check_muscles(muscle: AbstractMuscle, n_muscles: int) -> None:
    """Raise `ValueError` unless the parameters of `muscle` are scalars or of shape (n_muscles,)."""
    for leaf in jax.tree.leaves(eqx.filter(muscle, eqx.is_array)):
        if leaf.ndim and leaf.shape != (n_muscles,):
            raise ValueError(
                f"`muscle` must have one number, or {n_muscles}, for each of its parameters, because `path` "
                f"has {n_muscles} muscles; got one of shape {leaf.shape}."
            )


N_SUBSTEPS, N_COMPLIANT_SUBSTEPS = 2, 8
MUSCLE_STOP = functools.partial(SoftJointLimit, stiffness=300.0, damping=5.0)
BuildMuscles = Callable[..., AbstractMuscle]


def _check_build(muscle: object) -> None:
    if not callable(muscle):
        raise ValueError(f"`muscle` must be a muscle model such as ReluMuscle, got {short_repr(muscle)}.")


def arm26(
    muscle: BuildMuscles = RigidTendonHillMuscle,
    *,
    joint_stop: AbstractJointLimit | None = None,
    solver: diffrax.AbstractSolver | None = None,
    n_substeps: int | None = None,
    **options,
) -> MusculoskeletalPlant:
    """Build MotorNet's arm of two segments and six muscles (Codol et al. 2024, eLife 12:RP88591).

    Shoulder and elbow have a flexor and an extensor each; two muscles cross both joints. See `ARM26_MUSCLES`.

    **Arguments:**

    - `muscle`: the muscle model: `RigidTendonHillMuscle`, `ThelenMuscle`, `MujocoMuscle`, `ReluMuscle`,
        `CompliantTendonHillMuscle`, or a function such as `BrownLoebMuscle.fast`. It is called with the
        keywords `max_isometric_force`, `optimal_length`, `tendon_length` and `options`. A model with an
        internal state gets the longer tendons of MotorNet's compliant arm.
    - `joint_stop`: the joint stop; by default a `SoftJointLimit` that muscles at full strength deflect by
        less than 20 degrees.
    - `solver`, `n_substeps`: see `MusculoskeletalPlant`. By default Heun's method with two substeps, or with
        eight for compliant tendons, whose fibres are stiff. For ReLU muscles, which do not slow a joint
        before it hits its stop, Tsitouras' method with one.
    - `options`: other parameters of the muscle model.
    """
    _check_build(muscle)
    muscles, path = arm26_muscles(muscle, **options), arm26_path()
    is_compliant = has_state(muscles, len(ARM26_MUSCLES))
    if is_compliant:
        muscles, path = arm26_compliant_muscles(muscle, **options), arm26_compliant_path()
    if solver is None and isinstance(muscles, ReluMuscle):
        solver, n_substeps = diffrax.Tsit5(), 1 if n_substeps is None else n_substeps
    if n_substeps is None:
        n_substeps = N_COMPLIANT_SUBSTEPS if is_compliant else N_SUBSTEPS
    skeleton = TwoLinkArm.arm26_skeleton(joint_stop=MUSCLE_STOP() if joint_stop is None else joint_stop)
    return MusculoskeletalPlant(
        skeleton, path, muscles, muscle_names=ARM26_MUSCLES, solver=solver, n_substeps=n_substeps
    )


def li_todorov_arm(
    muscle: BuildMuscles = BrownLoebMuscle.li_todorov,
    *,
    joint_stop: AbstractJointLimit | None = None,
    solver: diffrax.AbstractSolver | None = None,
    n_substeps: int = N_SUBSTEPS,
    **options,
) -> MusculoskeletalPlant:
    """Build the arm of two segments and six muscles of Li & Todorov 2004.

    The skeleton, the paths and the areas of the muscles are those of Feedbax; the laws of the muscles are
    those of other public copies, see `BrownLoebMuscle.li_todorov` and `LinearActivation`.

    **Arguments:** as for `arm26`; `muscle` is a muscle model without a tendon.
    """
    skeleton = TwoLinkArm.li_todorov(joint_stop=MUSCLE_STOP() if joint_stop is None else joint_stop)
    muscles = li_todorov_muscles(muscle, **options)
    names = LI_TODOROV_MUSCLES
    how = {"solver": solver, "n_substeps": n_substeps}
    return MusculoskeletalPlant(skeleton, li_todorov_path(), muscles, muscle_names=names, **how)


def has_state(muscle: AbstractMuscle, n_muscles: int) -> bool:
    """Return whether muscles have an internal state, as fibres on compliant tendons do."""
    return jax.eval_shape(muscle.init, jnp.ones(n_muscles), jnp.ones(n_muscles)) is not None


CORNERS = ((1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0), (1.0, -1.0))


def muscled_point_mass(
    muscle: Callable[..., AbstractMuscle] = ReluMuscle,
    *,
    mass: ArrayLike = 1.0,
    damping: ArrayLike = 0.0,
    max_isometric_force: ArrayLike = 20.0,
    tendon_length: ArrayLike = 0.0,
    anchor_distance: float = 2.0,
    solver: diffrax.AbstractSolver | None = None,
    n_substeps: int = 2,
    **options,
) -> MusculoskeletalPlant:
    """Build a point mass with four muscles that pull towards the corners of a square around the origin.

    Based on MotorNet's `ReluPointMass24`, whose muscles are 25 times as strong.

    **Arguments:**

    - `muscle`: the muscle model.
    - `mass`, `damping`: of the point mass, in kg and N s/m.
    - `max_isometric_force`: of each muscle, in N.
    - `tendon_length`: of each muscle, in m.
    - `anchor_distance`: the distance of the corners from the origin along each axis, in m. At the origin
        each muscle has its optimal length.
    - `solver`, `n_substeps`: see `MusculoskeletalPlant`.
    - `options`: other parameters of the muscle model.
    """
    corners = anchor_distance * np.array(CORNERS)
    path = StraightPath(PointMassPlacement(), [[(0, corner), (1, np.zeros(2))] for corner in corners])
    _check_build(muscle)
    muscles = muscle(
        max_isometric_force=np.broadcast_to(np.asarray(max_isometric_force, float), 4),
        optimal_length=np.full(4, np.sqrt(2) * anchor_distance) - np.asarray(tendon_length),
        tendon_length=np.broadcast_to(np.asarray(tendon_length, float), 4),
        **options,
    )
    return MusculoskeletalPlant(
        PointMass(mass, damping=damping),
        path,
        muscles,
        muscle_names=("upper right", "upper left", "lower left", "lower right"),
        solver=solver,
        n_substeps=n_substeps,
    )
