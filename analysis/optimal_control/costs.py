"""The loss of a task as a cost of single time steps, and as a quadratic one."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from popsim._shared.checks import check_instance
from popsim.analysis.optimal_control.linear_systems import as_double, check_one_body, loop_state
from popsim.hand import HandState
from popsim.loss import AbstractLossTerm
from popsim.model import AbstractModel
from popsim.per_member import check_of_one_member
from popsim.plants import AbstractPlant
from popsim.schedules import LAST_BATCH
from popsim.task import AbstractTask
from popsim.trial import Trial, TrialAtStep, check_trials

__all__ = ["QuadraticCost", "quadratic_cost"]

StepCost = Callable[[Trial, Array, Array, Array, Array], Array]
N_POINTS, SCALES = 256, np.array([1e-3, 1e-2, 1e-1, 1.0])


class QuadraticCost(eqx.Module):
    """The cost of each time step of trials, v' W v with v = (x, u, 1): x after the step, u its command.

    - `weights`: W, symmetric.
    - `start`: x before the first step of each trial.
    - `trials`, `plant`: the trials, and the body.
    """

    weights: Float[np.ndarray, "trial time all all"]
    start: Float[np.ndarray, "trial state"]
    trials: Trial
    plant: AbstractPlant


def quadratic_cost(task: AbstractTask, plant: AbstractPlant, *, trials: Trial | None = None) -> QuadraticCost:
    """Return the loss of a task as a quadratic function of the state of a body and its commands.

    A loss that is not quadratic for this body is refused by the name of its term: a penalty on the network, a
    comparison of successive steps, or a nonlinear function of the state, as the position of an arm's hand is
    of its joint angles. `iterative_lqr` takes the last. Whether a term is quadratic is tried at points that
    are drawn within millimetres to metres (or the unit of the state) of the start.

    **Arguments:**

    - `task`: the task; scheduled weights of its loss have their final values.
    - `plant`: the body.
    - `trials`: stacked trials without interventions; by default the validation trials.
    """
    double, start, terms, _ = step_costs(task, plant, trials)
    with jax.enable_x64(True):
        steps = jnp.arange(double.timeline.n_steps)
        total: Any = 0.0
        for name, cost in terms.items():
            over_steps = jax.vmap(functools.partial(_expand, cost, plant.n_commands), (None, None, 0))
            weights, excess = jax.jit(jax.vmap(over_steps, (0, 0, None)))(double, start, steps)
            if not jnp.all(excess <= 0):
                raise ValueError(
                    f"`task.loss` must be quadratic in the state of {type(plant).__name__} and its commands, "
                    f"got the term {name!r}. See iterative_lqr."
                )
            total = total + np.asarray(weights)
        return QuadraticCost(total, np.asarray(start), double, as_double(plant))


def _expand(cost: StepCost, n_commands: int, trial: Trial, start: Array, step: Array) -> tuple[Array, Array]:
    """Return W, and by how much the cost differs from v' W v at points that are drawn, beyond rounding."""

    def of_vector(vector: Array, noise: Array) -> Array:
        return cost(trial, step, vector[: start.size], vector[start.size :], noise)

    quiet = jnp.zeros(n_commands)
    at = jnp.concatenate([start, quiet])
    half = jax.hessian(of_vector)(at, quiet) / 2
    slope = jax.grad(of_vector)(at, quiet) / 2 - half @ at
    rest = of_vector(at, quiet) - at @ half @ at - 2 * slope @ at
    weights = jnp.block([[half, slope[:, None]], [slope[None], rest[None, None]]])
    drawn = SCALES[:, None, None] * jax.random.normal(jax.random.key(0), (SCALES.size, N_POINTS, at.size))
    points = at + drawn.reshape(-1, at.size)
    actual, by_noise = jax.vmap(jax.value_and_grad(of_vector, 1), (0, None))(points, quiet)
    points = jnp.append(points, jnp.ones((len(points), 1)), axis=1)
    expanded = jnp.einsum("pi,ij,pj->p", points, weights, points)
    size = jnp.sum(jnp.abs(points) @ jnp.abs(weights) * jnp.abs(points), axis=1)
    # Nothing may depend on the noise of commands, which commands of the optimum do not have.
    return weights, jnp.max(jnp.abs(actual - expanded) - 1e-9 * size) + jnp.max(jnp.abs(by_noise))


def step_costs(
    task: AbstractTask, plant: AbstractPlant, trials: Trial | None
) -> tuple[Trial, Array, dict[str, StepCost], Callable[[Array], Any]]:
    """Return the trials in double precision, the state of the body before each, and the costs of a step.

    The costs are the weighted terms of the loss, by name: functions of a trial, the number of a step, the
    state of the body after it, as a vector, its command, and the noise on it. Last is the function from such
    a vector to the state.
    """
    check_instance("task", task, AbstractTask, "a task such as CenterOutReaches")
    check_one_body(plant)
    check_of_one_member("task", task)
    given = task.validation_trials() if trials is None else trials
    check_trials("trials", given)
    for name in ("interventions", "environment", "session"):
        if getattr(given, name):
            raise ValueError(f"`trials` must have no {name}, got {getattr(given, name)!r}.")
    check_instance("trials.init", given.init, HandState, "a HandState, as that of reaches")
    with jax.enable_x64(True):
        double, plant, loss = as_double((given, plant, task.loss.at_batch(LAST_BATCH)))
        restore = ravel_pytree(plant.rest_state(double.init.position[0]))[1]
        start = jax.vmap(lambda position: ravel_pytree(plant.rest_state(position))[0])(double.init.position)
        costs = {term.name: _step_cost(term, loss.weights[term.name], plant, restore) for term in loss.terms}
        first = jax.tree.map(lambda leaf: leaf[0], double)
        # What is no cost of one step, or not of the body, is refused before anything is compiled.
        for cost in costs.values():
            jax.eval_shape(cost, first, jnp.array(0), start[0], *jnp.zeros((2, plant.n_commands)))
    return double, start, costs, restore


class _Body(AbstractModel):
    """What a loss term can ask of a model here."""

    plant: AbstractPlant

    def init(self, trial: Trial, *, key: Array) -> Any:
        raise NotImplementedError

    def step(self, step_input: Any, state: Any, *, key: Array) -> Any:
        raise NotImplementedError


def _step_cost(
    term: AbstractLossTerm, weight: Any, plant: AbstractPlant, restore: Callable[[Array], Any]
) -> StepCost:
    def cost(trial: Trial, step: Array, state: Array, command: Array, noise: Array) -> Array:
        after = loop_state(plant, restore(state), command, noise)
        refused = (
            "`task.loss` must be a sum over time steps of costs of the body and its command, got the term "
            f"{term.name!r}"
        )
        try:
            value: Any = term.step_cost(after, TrialAtStep(trial, step), _Body(plant))
        except Exception as error:
            raise ValueError(f"{refused}: {error}") from error
        if value is None:
            raise ValueError(f"{refused}.")
        return weight * value

    return cost
