"""The loss of a task as a cost of single time steps, and as a quadratic one."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from popsim._shared.checks import check_instance
from popsim.analysis.optimal_control.linear_systems import as_double, loop_state
from popsim.hand import HandState
from popsim.loss import AbstractLossTerm, Loss
from popsim.model import AbstractModel
from popsim.plants import AbstractPlant
from popsim.schedules import LAST_BATCH
from popsim.task import AbstractTask
from popsim.trial import Trial, TrialAtStep, check_trials

__all__ = ["QuadraticCost", "quadratic_cost"]

StepCost = Callable[[Trial, Array, Array, Array], Array]


class QuadraticCost(eqx.Module):
    """The cost of each time step of trials, v' W v with v = (x, u, 1): x after the step, u its command.

    - `weights`: W, symmetric.
    - `start`: x before the first step of each trial.
    - `trials`: the trials.
    """

    weights: Float[np.ndarray, "trial time all all"]
    start: Float[np.ndarray, "trial state"]
    trials: Trial


def quadratic_cost(task: AbstractTask, plant: AbstractPlant, *, trials: Trial | None = None) -> QuadraticCost:
    """Return the loss of a task as a quadratic function of the state of a body and its commands.

    A loss that is not, of this body, is refused by the name of its term: one that is a penalty on the
    network, compares successive steps, or is a nonlinear function of the state, as the position of the hand
    of an arm is of its joint angles. `iterative_lqr` takes the last.

    **Arguments:**

    - `task`: the task; scheduled weights of its loss have their final values.
    - `plant`: the body.
    - `trials`: stacked trials without interventions; by default the validation trials.
    """
    double, start, terms = step_costs(task, plant, trials)
    with jax.enable_x64(True):
        n_state, n_commands = start.shape[1], plant.n_commands
        steps = jnp.arange(double.timeline.n_steps)
        near = jax.random.normal(jax.random.key(0), (3, n_state + n_commands))

        def expand(cost: StepCost, trial: Trial, start: Array, step: Array) -> tuple[Array, Array]:
            """Return W, and by how much the cost differs from v' W v at points that are drawn."""

            def of_vector(vector: Array) -> Array:
                return cost(trial, step, vector[:n_state], vector[n_state:])

            at = jnp.concatenate([start, jnp.zeros(n_commands)]) + near[0]
            half = jax.hessian(of_vector)(at) / 2
            slope = jax.grad(of_vector)(at) / 2 - half @ at
            rest = of_vector(at) - at @ half @ at - 2 * slope @ at
            weights = jnp.block([[half, slope[:, None]], [slope[None], rest[None, None]]])
            points = jnp.append(at + near[1:], jnp.ones((len(near) - 1, 1)), axis=1)
            expanded = jnp.einsum("pi,ij,pj->p", points, weights, points)
            actual = jax.vmap(lambda point: of_vector(point[:-1]))(points)
            size = jnp.abs(points) @ jnp.abs(weights) * jnp.abs(points)
            return weights, jnp.max(jnp.abs(actual - expanded) - 1e-9 * jnp.sum(size, axis=1))

        total = 0.0
        for name, cost in terms.items():
            over_steps = jax.vmap(lambda *at, cost=cost: expand(cost, *at), (None, None, 0))
            weights, excess = jax.jit(jax.vmap(over_steps, (0, 0, None)))(double, start, steps)
            if not jnp.all(excess <= 0):
                raise ValueError(
                    f"`task.loss` must be quadratic in the state of {type(plant).__name__} and its commands, "
                    f"got the term {name!r}. See iterative_lqr."
                )
            total = total + np.asarray(weights)
    return QuadraticCost(np.asarray(total), np.asarray(start), double)


def step_costs(
    task: AbstractTask, plant: AbstractPlant, trials: Trial | None
) -> tuple[Trial, Array, dict[str, StepCost]]:
    """Return the trials in double precision, the state of the body before each, and the costs of a step.

    The costs are the weighted terms of the loss, by name: functions of a trial, the number of a step, the
    state of the body after it, as a vector, and its command.
    """
    check_instance("task", task, AbstractTask, "a task such as CenterOutReaches")
    loss = task.loss
    assert isinstance(loss, Loss)
    given = task.validation_trials() if trials is None else trials
    check_trials("trials", given)
    for name in ("interventions", "environment", "session"):
        if getattr(given, name):
            raise ValueError(f"`trials` must have no {name}, got {getattr(given, name)!r}.")
    check_instance("trials.init", given.init, HandState, "a HandState, as of reaches")
    with jax.enable_x64(True):
        double, plant, loss = as_double((given, plant, loss.at_batch(LAST_BATCH)))
        restore = ravel_pytree(plant.rest_state(double.init.position[0]))[1]
        start = jax.vmap(lambda position: ravel_pytree(plant.rest_state(position))[0])(double.init.position)
        costs = {term.name: _step_cost(term, loss.weights[term.name], plant, restore) for term in loss.terms}
    return double, start, costs


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
    def cost(trial: Trial, step: Array, state: Array, command: Array) -> Array:
        after = loop_state(plant, restore(state), command)
        try:
            value: Any = term.step_cost(after, TrialAtStep(trial, step), _Body(plant))
        except Exception as error:
            raise _not_of_body(term) from error
        if value is None:
            raise _not_of_body(term)
        return weight * value

    return cost


def _not_of_body(term: AbstractLossTerm) -> ValueError:
    return ValueError(
        "`task.loss` must be a sum over time steps of costs of the body and its command, got the term "
        f"{term.name!r}."
    )
