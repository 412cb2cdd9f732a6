"""Integration of a plant over one time step, with a diffrax solver."""

from collections.abc import Callable

import diffrax
import jax
from jaxtyping import Array, Float, PyTree

from popsim.hand import HandState
from popsim.plants.abstract import AbstractPlant


def advance(
    plant: AbstractPlant,
    state: PyTree[Array],
    command: Float[Array, " commands"],
    load: Callable[[HandState], Float[Array, " space"]],
    *,
    dt: float,
) -> PyTree[Array]:
    """The state of a plant `dt` seconds later; the command is held over that time.

    The solver is started afresh, because a command that jumps from step to step makes what a solver
    remembers of its last step worthless.

    **Arguments:**

    - `plant`: the body, with its solver and number of substeps.
    - `state`: its state now.
    - `command`: the motor command.
    - `load`: the force of the world on the hand (N) as a function of the hand, evaluated at every stage
        of every substep.
    - `dt`: the time step in seconds.
    """
    term = diffrax.ODETerm(lambda t, y, args: plant.vector_field(y, command, load(plant.hand(y))))
    step = dt / plant.n_substeps

    def substep(carry, _):
        y, solver_state = carry
        y, _, _, solver_state, _ = plant.solver.step(term, 0.0, step, y, None, solver_state, made_jump=False)
        return (y, solver_state), None

    carry = (state, plant.solver.init(term, 0.0, step, state, None))
    if plant.n_substeps == 1:
        (state, _), _ = substep(carry, None)
    else:
        (state, _), _ = jax.lax.scan(
            substep, carry, None, length=plant.n_substeps, unroll=min(4, plant.n_substeps)
        )
    return state
