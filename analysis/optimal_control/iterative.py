"""The iterative linear-quadratic regulator, for bodies that are not linear."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PyTree

from popsim._shared.checks import check_positive, check_positive_int
from popsim.analysis.optimal_control.costs import step_costs
from popsim.analysis.optimal_control.linear_systems import as_double, step_function
from popsim.plants import AbstractPlant
from popsim.task import AbstractTask
from popsim.trial import Trial

__all__ = ["LocalOptimum", "iterative_lqr"]

STEP_LENGTHS = 0.5 ** np.arange(8)
LEAST_DAMPING, FIRST_DAMPING, MOST_DAMPING = 1e-12, 1e-6, 1e6  # relative to the mean curvature
WEAK_DAMPING = 1.0  # at most this where a search has converged: a strongly damped step is always small


class LocalOptimum(eqx.Module):
    """A local optimum of the commands of each trial, without noise.

    - `costs`: of each trial.
    - `bodies`: the state of the body after each step.
    - `commands`: u of each step.
    - `control_gains`: L, how u should answer to a small deviation of the body from its path, -L (x - x*).
    - `converged`: whether a further step would change the cost by less than the tolerance.
    - `history`: the cost after each iteration, from the first commands.
    """

    costs: Float[np.ndarray, " trial"]
    bodies: PyTree[np.ndarray]
    commands: Float[np.ndarray, "trial time command"]
    control_gains: Float[np.ndarray, "trial time command state"]
    converged: Bool[np.ndarray, " trial"]
    history: Float[np.ndarray, "iteration trial"]


class _Search(eqx.Module):
    """Where the search in a trial is: v of each step, what it brings, and how the next step is damped."""

    drives: Float[Array, "time command"]
    states: Float[Array, "time state"]
    cost: Float[Array, ""]
    damping: Float[Array, ""]
    gains: Float[Array, "time command state"]
    is_done: Bool[Array, ""]


class _Problem(eqx.Module):
    """A trial, or trials; the state before it; what a time step does to the state, and to the cost."""

    trial: Trial
    start: Float[Array, "*trial state"]
    move: Callable[[Array, Array], Array] = eqx.field(static=True)
    cost: Callable[[Trial, Array, Array], Array] = eqx.field(static=True)

    def costs(self, states: Array, drives: Array) -> Float[Array, " time"]:
        """Return the cost of each step."""
        both = jnp.concatenate([states, drives], axis=1)
        return jax.vmap(self.cost, (None, 0, 0))(self.trial, jnp.arange(len(both)), both)

    def begin(self, drives: Float[Array, "time command"]) -> _Search:
        """Return the search before the first iteration."""

        def advance(state: Array, drive: Array) -> tuple[Array, Array]:
            after = self.move(state, drive)
            return after, after

        _, states = jax.lax.scan(advance, self.start, drives)
        gains = jnp.zeros((*drives.shape, self.start.size))
        cost = jnp.sum(self.costs(states, drives))
        return _Search(drives, states, cost, jnp.asarray(FIRST_DAMPING), gains, jnp.asarray(False))

    def improve(self, search: _Search, tolerance: float) -> _Search:
        """Return the search after an iteration."""
        both = jnp.concatenate([search.states, search.drives], axis=1)
        steps = jnp.arange(len(both))
        A, B = jax.vmap(jax.jacfwd(self.move, (0, 1)))(self._before(search), search.drives)
        slopes = jax.vmap(jax.grad(self.cost, 2), (None, 0, 0))(self.trial, steps, both)
        curvatures = _convex(jax.vmap(jax.hessian(self.cost, 2), (None, 0, 0))(self.trial, steps, both))
        change, gains, decrease = _solve(A, B, slopes, curvatures, search.damping)
        search = eqx.tree_at(lambda s: s.gains, search, gains)
        drives, states, costs = jax.vmap(lambda length: self._follow(search, length * change))(STEP_LENGTHS)
        best = jnp.argmin(jnp.where(jnp.isfinite(costs), costs, jnp.inf))
        is_small = (decrease <= tolerance * search.cost) & (search.damping <= WEAK_DAMPING)
        is_done = search.is_done | is_small
        better = _Search(drives[best], states[best], costs[best], search.damping / 10, gains, is_done)
        worse = eqx.tree_at(lambda s: (s.damping, s.is_done), search, (search.damping * 10, is_done))
        chosen = jax.tree.map(lambda a, b: jnp.where(costs[best] < search.cost, a, b), better, worse)
        damping = jnp.clip(chosen.damping, LEAST_DAMPING, MOST_DAMPING)
        return eqx.tree_at(lambda s: s.damping, chosen, damping)

    def _before(self, search: _Search) -> Float[Array, "time state"]:
        return jnp.concatenate([self.start[None], search.states[:-1]])

    def _follow(self, search: _Search, change: Float[Array, "time command"]) -> tuple[Array, Array, Array]:
        """Return drives, states and cost, where each drive changes by -change - L (x - x*)."""

        def advance(state: Array, at: tuple[Array, ...]) -> tuple[Array, tuple[Array, Array]]:
            drive, shift, gain, planned = at
            drive = drive - shift - gain @ (state - planned)
            after = self.move(state, drive)
            return after, (drive, after)

        at = search.drives, change, search.gains, self._before(search)
        _, (drives, states) = jax.lax.scan(advance, self.start, at)
        return drives, states, jnp.sum(self.costs(states, drives))


def iterative_lqr(
    plant: AbstractPlant,
    task: AbstractTask,
    *,
    trials: Trial | None = None,
    output_fn: Callable[[Array], Array] = lambda drives: drives,
    output_bias: float = 0.0,
    n_iterations: int = 500,
    tolerance: float = 1e-9,
) -> LocalOptimum:
    """Search for the commands of lowest cost of a body that need not be linear, such as an arm with muscles.

    Each iteration solves a linear-quadratic problem about the present path, damped, and takes the best of
    steps of several lengths along its solution (Li & Todorov 2004, ICINCO 222-229; here with the cost of a
    step made convex). The optimum is a local one, of one trial without noise, whose commands are planned in
    advance: it is no lower bound of costs.

    **Arguments:**

    - `plant`: the body.
    - `task`: the task; its loss must be a sum over time steps.
    - `trials`: as for `quadratic_cost`.
    - `output_fn`: limits commands, u = f(v), as that of a network does: `jax.nn.sigmoid` for muscles.
    - `output_bias`: v before the first iteration.
    - `n_iterations`: the most iterations.
    - `tolerance`: the search ends where the next step would lower the cost by less than this fraction.
    """
    check_positive_int("n_iterations", n_iterations)
    check_positive("tolerance", tolerance)
    trials, starts, terms = step_costs(task, plant, trials)
    with jax.enable_x64(True):
        plant = as_double(plant)
        restore = ravel_pytree(plant.rest_state(trials.init.position[0]))[1]
        step = step_function(plant, restore, trials.timeline.dt)

        def move(state: Array, drive: Array) -> Array:
            return step(state, output_fn(drive))

        def cost(trial: Trial, index: Array, both: Array) -> Array:
            state, command = both[: starts.shape[1]], output_fn(both[starts.shape[1] :])
            return sum((term(trial, index, state, command) for term in terms.values()), jnp.zeros(()))

        problem = _Problem(trials, starts, move, cost)
        drives = jnp.full((trials.timeline.n_steps, plant.n_commands), output_bias, float)
        improve = jax.jit(jax.vmap(lambda problem, search: problem.improve(search, tolerance)))
        search = jax.jit(jax.vmap(lambda problem: problem.begin(drives)))(problem)
        history = [search.cost]
        while len(history) <= n_iterations and not _has_ended(search):
            search = improve(problem, search)
            history.append(search.cost)
        converged, weak = search.is_done, jnp.full_like(search.damping, LEAST_DAMPING)
        gains = improve(problem, eqx.tree_at(lambda s: s.damping, search, weak)).gains
        commands = output_fn(search.drives)
        slopes = jax.vmap(jax.vmap(jax.jacfwd(output_fn)))(search.drives)
        bodies = jax.vmap(jax.vmap(restore))(search.states)
        found = search.cost, bodies, commands, slopes @ gains, converged, jnp.stack(history)
        return LocalOptimum(*jax.device_get(found))


def _has_ended(search: _Search) -> bool:
    return bool(jnp.all(search.is_done | (search.damping >= MOST_DAMPING)))


def _convex(matrices: Float[Array, "time all all"]) -> Float[Array, "time all all"]:
    """Return symmetric matrices without their negative eigenvalues."""
    values, vectors = jnp.linalg.eigh(matrices)
    return (vectors * jnp.maximum(values, 0.0)[:, None]) @ vectors.swapaxes(1, 2)


def _solve(
    A: Array, B: Array, slopes: Array, curvatures: Array, damping: Array
) -> tuple[Float[Array, "time command"], Float[Array, "time command state"], Float[Array, ""]]:
    """Return the change of commands, their gains, and the decrease of cost that the expansion predicts."""
    n = A.shape[1]

    def back(to_go: tuple[Array, Array], at: tuple) -> tuple:
        (S, s), (A, B, slope, curvature) = to_go, at
        both = jnp.block([[A, B], [jnp.zeros_like(B.T), jnp.eye(B.shape[1])]])
        Q = both.T @ (curvature.at[:n, :n].add(S)) @ both
        q = both.T @ slope.at[:n].add(s)
        curvature = jnp.trace(Q[n:, n:]) / B.shape[1]
        damped = Q[n:, n:] + damping * curvature * jnp.eye(B.shape[1])
        L, change = jnp.linalg.solve(damped, Q[n:, :n]), jnp.linalg.solve(damped, q[n:])
        S = Q[:n, :n] + L.T @ Q[n:, n:] @ L - L.T @ Q[n:, :n] - Q[n:, :n].T @ L
        s = q[:n] + L.T @ (Q[n:, n:] @ change - q[n:]) - Q[n:, :n].T @ change
        return ((S + S.T) / 2, s), (change, L, jnp.sum(change * q[n:]) / 2)

    nothing = jnp.zeros((n, n)), jnp.zeros(n)
    _, (change, gains, decrease) = jax.lax.scan(back, nothing, (A, B, slopes, curvatures), reverse=True)
    return change, gains, jnp.sum(decrease)
