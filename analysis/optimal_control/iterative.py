"""The iterative linear-quadratic regulator, for bodies that are not linear."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from popsim._shared.checks import check_positive, check_positive_int
from popsim.analysis.optimal_control.costs import step_costs
from popsim.analysis.optimal_control.linear_systems import as_double, step_function
from popsim.plants import AbstractPlant
from popsim.task import AbstractTask
from popsim.trial import Trial

__all__ = ["LocalOptimum", "iterative_lqr"]

STEP_LENGTHS = 0.5 ** np.arange(10)
FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING = 1e-6, 1e-9, 1e9  # relative to the curvature at the start
WEAK_DAMPING = 1.0  # at most this where a search has converged: a strongly damped step is always small
N_SWEEPS = 30  # over the commands, for the best ones within their limits


class LocalOptimum(eqx.Module):
    """A local optimum of the commands of each trial, without noise.

    - `costs`: of each trial.
    - `bodies`: the state of the body after each step.
    - `commands`: u of each step.
    - `control_gains`: L of the linear-quadratic problem about the path, -L (x - x*): zero for commands at
        their limits.
    - `converged`: whether the step that was tried last would have changed the cost by less than the
        tolerance.
    - `history`: the cost after each iteration, from the first commands.
    """

    costs: Float[np.ndarray, " trial"]
    bodies: PyTree[np.ndarray]
    commands: Float[np.ndarray, "trial time command"]
    control_gains: Float[np.ndarray, "trial time command state"]
    converged: Bool[np.ndarray, " trial"]
    history: Float[np.ndarray, "iteration trial"]


class _Search(NamedTuple):
    """Where the search in a trial is; the damping is relative to `curvature`, that of the first iteration."""

    commands: Array
    states: Array
    cost: Array
    gains: Array
    damping: Array
    curvature: Array
    converged: Array


class _Problem(eqx.Module):
    """A trial, or trials; the state before it; what a time step does to the state, and what it costs."""

    trial: Trial
    start: Float[Array, "*trial state"]
    move: Callable[[Array, Array], Array] = eqx.field(static=True)
    cost: Callable[[Trial, Array, Array], Array] = eqx.field(static=True)
    limits: tuple[float, float] = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)

    def begin(self, commands: Float[Array, "time command"]) -> _Search:
        """Return the search before the first iteration."""
        gains, still = jnp.zeros((*commands.shape, self.start.size)), jnp.tile(self.start, (len(commands), 1))
        damping, curvature = jnp.asarray(FIRST_DAMPING), jnp.zeros(())
        search = _Search(commands, still, curvature, gains, damping, curvature, jnp.asarray(False))
        _, states, first = self.follow(search, jnp.zeros_like(commands))
        return search._replace(states=states, cost=first)

    def before(self, search: _Search) -> Float[Array, "time state"]:
        """Return the state before each step."""
        return jnp.concatenate([self.start[None], search.states[:-1]])

    def follow(self, search: _Search, change: Array) -> tuple[Array, Array, Array]:
        """Return commands, states and cost, where commands change by `change` - L (x - x*)."""

        def advance(state: Array, at: tuple[Array, ...]) -> tuple[Array, tuple[Array, Array]]:
            command, more, gain, planned = at
            command = jnp.clip(command + more - gain @ (state - planned), *self.limits)
            after = self.move(state, command)
            return after, (command, after)

        at = search.commands, change, search.gains, self.before(search)
        _, (commands, states) = jax.lax.scan(advance, self.start, at)
        both = jnp.concatenate([states, commands], axis=1)
        costs = jax.vmap(self.cost, (None, 0, 0))(self.trial, jnp.arange(len(both)), both)
        return commands, states, jnp.sum(costs)

    def improve(self, search: _Search) -> _Search:
        """Return the search after an iteration."""
        both = jnp.concatenate([search.states, search.commands], axis=1)
        at = self.trial, jnp.arange(len(both)), both
        A, B = jax.vmap(jax.jacfwd(self.move, (0, 1)))(self.before(search), search.commands)
        slopes = jax.vmap(jax.grad(self.cost, 2), (None, 0, 0))(*at)
        curved = _convex(jax.vmap(jax.hessian(self.cost, 2), (None, 0, 0))(*at))
        change, gains, decrease, curvature = _solve(A, B, slopes, curved, search, self.limits)
        search = search._replace(curvature=jnp.where(search.curvature > 0, search.curvature, curvature))
        is_solved = jnp.all(jnp.isfinite(change)) & jnp.all(jnp.isfinite(gains))
        solved = search._replace(gains=jnp.where(is_solved, gains, search.gains))
        change = jnp.where(is_solved, change, 0.0)
        commands, states, costs = jax.vmap(lambda length: self.follow(solved, length * change))(STEP_LENGTHS)
        best = jnp.argmin(jnp.where(jnp.isfinite(costs), costs, jnp.inf))
        is_small = is_solved & (decrease <= self.tolerance * search.cost) & (search.damping <= WEAK_DAMPING)
        solved = solved._replace(converged=search.converged | is_small)
        lower, higher = (jnp.clip(search.damping * by, LEAST_DAMPING, MOST_DAMPING) for by in (0.1, 10.0))
        better = solved._replace(
            commands=commands[best], states=states[best], cost=costs[best], damping=lower
        )
        is_better = is_solved & (costs[best] < search.cost)
        worse = solved._replace(damping=higher)
        return jax.tree.map(lambda a, b: jnp.where(is_better, a, b), better, worse)


def iterative_lqr(
    plant: AbstractPlant,
    task: AbstractTask,
    *,
    trials: Trial | None = None,
    limits: tuple[float, float] = (-np.inf, np.inf),
    first_command: float = 0.0,
    n_iterations: int = 300,
    tolerance: float = 1e-9,
) -> LocalOptimum:
    """Search for the commands of lowest cost of a body that need not be linear, such as an arm with muscles.

    Each iteration solves a linear-quadratic problem about the present path, damped and with the commands
    within their limits, and takes the best of steps of several lengths along its solution (Tassa, Mansard &
    Todorov 2014, ICRA 1168-1175, without second derivatives of the body, and with the cost of a step made
    convex). The optimum is a local one, of one trial without noise, whose commands are planned in advance: it
    is not a lower bound on costs.

    **Arguments:**

    - `plant`: the body.
    - `task`: the task; its loss must be a sum over time steps, and cost every command.
    - `trials`: as for `quadratic_cost`.
    - `limits`: the lowest and the highest command: `(0.0, 1.0)` for muscles.
    - `first_command`: every command before the first iteration.
    - `n_iterations`: the most iterations.
    - `tolerance`: the search ends where the next step would lower the cost by less than this fraction.
    """
    check_positive_int("n_iterations", n_iterations)
    check_positive("tolerance", tolerance)
    if not limits[0] <= first_command <= limits[1] or limits[0] == limits[1]:
        raise ValueError(f"`first_command` must be within `limits`, {limits}, got {first_command}.")
    trials, starts, terms, restore = step_costs(task, plant, trials)
    with jax.enable_x64(True):
        n_state, quiet = starts.shape[1], jnp.zeros(plant.n_commands)

        def cost(trial: Trial, index: Array, both: Array) -> Array:
            at = trial, index, both[:n_state], both[n_state:], quiet
            return sum((term(*at) for term in terms.values()), jnp.zeros(()))

        move = step_function(as_double(plant), restore, trials.timeline.dt)
        problem = _Problem(trials, starts, move, cost, limits, tolerance)
        first = jnp.full((trials.timeline.n_steps, quiet.size), first_command, float)
        search = jax.jit(jax.vmap(lambda problem: problem.begin(first)))(problem)
        improve = jax.jit(jax.vmap(_Problem.improve))
        history = [search.cost]
        while len(history) <= n_iterations:
            if jnp.all(search.converged | (search.damping >= MOST_DAMPING)):
                break
            search = improve(problem, search)
            if not jnp.all(search.curvature > 0):
                raise ValueError("`task.loss` must cost every command, as with + 1e-5 * Effort(), got none.")
            history.append(search.cost)
        bodies = jax.vmap(jax.vmap(restore))(search.states)
        found = search.cost, bodies, search.commands, search.gains, search.converged, jnp.stack(history)
        return LocalOptimum(*jax.device_get(found))


def _convex(matrices: Float[Array, "time all all"]) -> Float[Array, "time all all"]:
    """Return symmetric matrices without their negative eigenvalues."""
    values, vectors = jnp.linalg.eigh(matrices)
    return (vectors * jnp.maximum(values, 0.0)[:, None]) @ vectors.swapaxes(1, 2)


def _solve(
    A: Array, B: Array, slopes: Array, curved: Array, search: _Search, limits: tuple[float, float]
) -> tuple[Array, Array, Array, Array]:
    """Return the change of commands, their gains, the decrease of cost that is predicted, and the curvature.

    The curvature is the least, over commands and times, of a step by itself.
    """
    n, m = A.shape[1], B.shape[2]

    def back(to_go: tuple[Array, Array], at: tuple[Array, ...]) -> tuple:
        (S, s), (A, B, slope, curvature, command) = to_go, at
        both = jnp.block([[A, B], [jnp.zeros((m, n)), jnp.eye(m)]])
        Q = both.T @ curvature.at[:n, :n].add(S) @ both
        q = both.T @ slope.at[:n].add(s)
        damped = Q[n:, n:] + search.damping * search.curvature * jnp.eye(m)
        low, high = limits[0] - command, limits[1] - command
        change = _least_within(damped, q[n:], low, high)
        is_free = (change > low) & (change < high)
        free = jnp.where(is_free[:, None] & is_free, damped, jnp.eye(m))
        L = jnp.linalg.solve(free, jnp.where(is_free[:, None], Q[n:, :n], 0.0))
        S = Q[:n, :n] + L.T @ Q[n:, n:] @ L - L.T @ Q[n:, :n] - Q[n:, :n].T @ L
        s = q[:n] - L.T @ (Q[n:, n:] @ change + q[n:]) + Q[n:, :n].T @ change
        decrease = -jnp.dot(change, q[n:]) - change @ Q[n:, n:] @ change / 2
        return ((S + S.T) / 2, s), (change, L, decrease, jnp.min(jnp.diag(curvature)[n:]))

    nothing = jnp.zeros((n, n)), jnp.zeros(n)
    steps = A, B, slopes, curved, search.commands
    _, (change, gains, decrease, curvature) = jax.lax.scan(back, nothing, steps, reverse=True)
    return change, gains, jnp.sum(decrease), jnp.min(curvature)


def _least_within(Q: Array, q: Array, low: Array, high: Array) -> Float[Array, " command"]:
    """Return the x of least x' Q x / 2 + q' x between limits, one command after the other."""
    free = jnp.clip(-jnp.linalg.solve(Q, q), low, high)

    def descend(index: Array, x: Array) -> Array:
        i = index % len(q)
        best = x[i] - (Q[i] @ x + q[i]) / Q[i, i]
        return x.at[i].set(jnp.clip(best, low[i], high[i]))

    return jax.lax.fori_loop(0, N_SWEEPS * len(q), descend, free)
