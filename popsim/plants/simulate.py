"""Integration of a plant, by one time step or over a sequence of commands."""

from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from popsim._compiled import as_array, jit_fast_compile
from popsim._shared.checks import as_float_array, check_finite, check_time_step, concrete_value
from popsim.hand import HandState, Load
from popsim.plants._integrate import integrate
from popsim.plants.base import (
    AbstractPlant,
    AbstractSkeleton,
    Commands,
    Position,
    evaluate_end,
    evaluate_rate,
    evaluate_rest,
)
from popsim.plants.musculoskeletal import MuscleReadings, MusculoskeletalPlant

__all__ = ["advance", "PlantTrajectory", "simulate_plant", "simulate_plant_adaptively"]


def advance(
    plant: AbstractPlant, state: PyTree[Array], command: Commands, load: Load, *, dt: float
) -> PyTree[Array]:
    """Advance the state of a plant by one time step, with a constant command.

    **Arguments:**

    - `plant`: the plant, with its solver and number of substeps.
    - `state`: the current state.
    - `command`: the motor command.
    - `load`: the external forces.
    - `dt`: the time step, in seconds.
    """
    rate, end = plant.step_functions(state, command, load, dt=dt)

    def checked(t: ArrayLike, state: PyTree[Array]) -> PyTree[Array]:
        return evaluate_rate(plant, rate, t, state)

    return evaluate_end(plant, end, integrate(checked, state, plant.solver, plant.n_substeps, dt))


def check_damping(plant: AbstractPlant, dt: float) -> None:
    """Raise `ValueError` if viscous friction makes velocities grow, as in too long a time step."""
    skeleton: Any = plant.skeleton if isinstance(plant, MusculoskeletalPlant) else plant
    if not isinstance(skeleton, AbstractSkeleton):
        return

    def fastest(skeleton: AbstractSkeleton) -> np.ndarray:
        """Return the largest rate, and the factor by which a time step multiplies what decays at it."""
        rate = np.max(skeleton.damping_rates())
        return np.array([rate, _decay(as_array(rate, float), plant.solver, plant.n_substeps, dt)])

    values = concrete_value(fastest, skeleton)
    if values is not None and abs(values[1]) > 1:
        raise ValueError(
            f"`dt` must be short enough for the friction of `plant`, of time constant {1 / values[0]:.3g} s, "
            f"got {dt} s with n_substeps={plant.n_substeps}: the velocity would grow. Give the plant more "
            "substeps, less damping or more mass."
        )


@jit_fast_compile
def _decay(
    rate: Float[Array, ""], solver: diffrax.AbstractSolver, n_substeps: int, dt: float
) -> Float[Array, ""]:
    """Return the factor by which a time step multiplies what decays at a rate."""
    return integrate(lambda t, value: -rate * value, jnp.ones_like(rate), solver, n_substeps, dt)


class PlantTrajectory(eqx.Module):
    """A trajectory of a plant. Row t is at time (t + 1) dt.

    - `state`: the state of the plant.
    - `hand`: position (m) and velocity (m/s) of the hand.
    - `coordinates`, `velocities`: joint angles (rad) and velocities (rad/s) of an arm, position (m) and
        velocity (m/s) of a mass.
    - `muscles`: the muscle measurements; None for a plant without muscles.
    """

    state: PyTree[Array]
    hand: HandState
    coordinates: Float[Array, "*axes coordinates"]
    velocities: Float[Array, "*axes coordinates"]
    muscles: MuscleReadings | None


def simulate_plant(
    plant: AbstractPlant,
    commands: Float[Array, "time commands"],
    *,
    initial_state: PyTree[Array] = None,
    external_force: Float[Array, "time space"] | Position | None = None,
    dt: float,
) -> PlantTrajectory:
    """Simulate a plant under given commands.

    **Arguments:**

    - `plant`: the plant.
    - `commands`: the motor command of each time step, constant over the step; excitations for muscles.
    - `initial_state`: by default at rest with the hand at the centre of the workspace.
    - `external_force`: the force on the hand in N, constant or per time step; by default none.
    - `dt`: the time step, in seconds.

    **Returns:** the trajectory at the end of each time step.
    """
    return _simulate(plant, commands, initial_state, external_force, dt, advance)


def simulate_plant_adaptively(
    plant: AbstractPlant,
    commands: Float[Array, "time commands"],
    *,
    initial_state: PyTree[Array] = None,
    external_force: Float[Array, "time space"] | Position | None = None,
    dt: float,
    rtol: float = 1e-9,
    atol: float = 1e-11,
) -> PlantTrajectory:
    """Simulate a plant with an adaptive solver of order 8, as a reference for `simulate_plant`.

    Use it in double precision (`jax.enable_x64`) to assess a plant's `solver` and `n_substeps`. It is slow,
    and differentiable in forward mode only.

    **Arguments:**

    - `rtol`, `atol`: the relative and absolute tolerances.
    - others: as for `simulate_plant`.
    """
    control = diffrax.PIDController(rtol=rtol, atol=atol)

    def advance_adaptively(
        plant: AbstractPlant, state: PyTree[Array], command: Array, load: Load, *, dt: float
    ) -> PyTree[Array]:
        rate, end = plant.step_functions(state, command, load, dt=dt)
        term = diffrax.ODETerm(lambda t, y, args: evaluate_rate(plant, rate, t, y))
        solution = diffrax.diffeqsolve(
            term,
            diffrax.Dopri8(),
            t0=0.0,
            t1=dt,
            dt0=dt / 4,
            y0=state,
            stepsize_controller=control,
            adjoint=diffrax.ForwardMode(),
            max_steps=2**16,
        )
        return evaluate_end(plant, end, jax.tree.map(lambda leaf: leaf[-1], solution.ys))

    return _simulate(plant, commands, initial_state, external_force, dt, advance_adaptively)


def _simulate(
    plant: AbstractPlant,
    commands: Array,
    initial_state: PyTree[Array],
    external_force: Array | None,
    dt: float,
    step_of: Callable[..., PyTree[Array]],
) -> PlantTrajectory:
    check_time_step(dt)
    if step_of is advance:
        check_damping(plant, dt)
    commands = as_float_array(commands)
    if commands.ndim != 2 or commands.shape[1] != plant.n_commands:
        raise ValueError(
            f"`commands` must have shape (time, {plant.n_commands}) for this plant, got {commands.shape}."
        )
    state = evaluate_rest(plant, plant.workspace.center)[0] if initial_state is None else initial_state
    space = plant.workspace.center.shape[0]
    force = jnp.zeros(space, commands.dtype) if external_force is None else as_float_array(external_force)
    if force.shape not in ((space,), (commands.shape[0], space)):
        raise ValueError(
            f"`external_force` must have shape ({space},) or ({commands.shape[0]}, {space}), "
            f"got {force.shape}."
        )
    check_finite("commands", commands)
    check_finite("external_force", force)
    for path, leaf in jax.tree.leaves_with_path(state):
        check_finite(f"initial_state{jax.tree_util.keystr(path)}", leaf)
    forces = jnp.broadcast_to(force, (commands.shape[0], space))

    def step(state, driven_by):
        command, force = driven_by
        state = step_of(plant, state, command, Load(lambda hand: force), dt=dt)
        return state, _observe(plant, state)

    return jax.lax.scan(step, state, (commands, forces))[1]


def _observe(plant: AbstractPlant, state: PyTree[Array]) -> PlantTrajectory:
    hand = plant.hand(state)
    muscles = plant.muscles(state) if isinstance(plant, MusculoskeletalPlant) else None
    return PlantTrajectory(state, hand, *plant.coordinates(state), muscles)
