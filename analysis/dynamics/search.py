"""Search for fixed points from many starts at once."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from popsim._compiled import jit
from popsim._shared.checks import check_non_negative, check_positive, check_positive_int
from popsim.analysis.dynamics.linearization import Constants, Dynamics, map_members, one_step

__all__ = ["FixedPointSearch"]

FIRST_DAMPING, DAMPING_CHANGE = 1e-2, 4.0
REFINING_DAMPING = 1e-16  # of a search that starts at a fixed point, where J'J is as small as this
LEAST_GAIN, GOOD_GAIN = 1e-4, 0.75  # actual by predicted reduction
# A search is at a local minimum of the speed if |J'F| / |F| or the damping passes its bound; J is about 1.
LEAST_SLOPE, MOST_DAMPING = 1e-8, 1e8


@dataclasses.dataclass(frozen=True)
class FixedPointSearch:
    """The settings of a search for fixed points.

    The speed at a state h is q = |step(h) - h|^2 / 2 (Sussillo & Barak 2013, Neural Comput 25:626).

    - `tolerance`: maximum speed of a fixed point, in squared units of the state.
    - `slow_tolerance`: maximum speed of a slow point, the end of a search that found no fixed point.
    - `radius`, `slow_radius`: ends closer than this are one fixed or slow point, as a share of the
        root-mean-square distance of the member's starts from their mean.
    - `margin`: a direction is unstable if its absolute eigenvalue is above 1 + `margin`, stable if it is
        below 1 - `margin`.
    - `n_at_once`: number of searches of a member that run in parallel. It does not affect the results.
    """

    tolerance: float = 1e-20
    slow_tolerance: float = 1e-6
    radius: float = 1e-3
    slow_radius: float = 1e-2
    margin: float = 1e-6
    n_iterations: int = 200
    n_at_once: int = 64

    def __post_init__(self):
        for name in ("tolerance", "slow_tolerance", "radius", "slow_radius"):
            check_positive(name, getattr(self, name))
        check_positive_int("n_iterations", self.n_iterations)
        check_positive_int("n_at_once", self.n_at_once)
        check_non_negative("margin", self.margin)
        if self.slow_tolerance < self.tolerance:
            raise ValueError(
                f"`slow_tolerance` must be at least `tolerance`, {self.tolerance}, got {self.slow_tolerance}."
            )


class _Searches(eqx.Module):
    """The running searches of one member, and the ends of the finished ones."""

    # The index of the start of each search. An idle place has the index n_starts, for which `ends` has a row.
    start: Int[Array, " place"]
    state: Float[Array, "place state"]
    damping: Float[Array, " place"]
    n_done: Int[Array, " place"]
    next_start: Int[Array, ""]
    ends: Float[Array, "row state"]
    n_iterations: Int[Array, " row"]


@jit
def run_searches(
    dynamics: Dynamics,
    ensemble: Any,
    inputs: Constants | None,
    starts: Float[Array, "member start state"],
    search: FixedPointSearch,
    first_damping: float = FIRST_DAMPING,
) -> tuple[Float[Array, "member start state"], Float[Array, "member start"], Int[Array, "member start"]]:
    """Return the end of the search from each start, the speed there, and the number of iterations."""

    def search_member(model, member_starts, member_inputs):
        def displacement(state):
            return one_step(dynamics, model, state, member_inputs) - state

        ends, n_iterations = _search(displacement, member_starts, search, first_damping)
        return ends, _speed(jax.vmap(displacement)(ends)), n_iterations

    return map_members(search_member, ensemble, starts, inputs)


def _search(displacement, starts, search, first_damping):
    n_starts, n_places = starts.shape[0], min(search.n_at_once, starts.shape[0])
    queue = jnp.concatenate([starts, starts[:1]])  # an idle place needs a state too
    searches = _Searches(
        jnp.arange(n_places),
        starts[:n_places],
        jnp.full(n_places, first_damping, starts.dtype),
        jnp.zeros(n_places, int),
        jnp.asarray(n_places),
        queue,
        jnp.zeros(n_starts + 1, int),
    )

    def iterate(old: _Searches) -> _Searches:
        improve = jax.vmap(lambda *point: _improve(displacement, *point))
        state, damping, speed, slope = improve(old.state, old.damping)
        n_done = old.n_done + 1
        is_minimum = (slope <= LEAST_SLOPE) | (damping >= MOST_DAMPING)
        is_over = (speed <= search.tolerance) | is_minimum | (n_done >= search.n_iterations)
        # Unfinished searches write to the spare row, as the program writes for all of them.
        row = jnp.where(is_over, old.start, n_starts)
        # A place that becomes free takes the next start at once. Under `jax.vmap` over all starts, every
        # search would run for as long as the slowest one.
        following = jnp.minimum(old.next_start + jnp.cumsum(is_over) - 1, n_starts)
        start = jnp.where(is_over, following, old.start)
        return _Searches(
            start,
            jnp.where(is_over[:, None], queue[start], state),
            jnp.where(is_over, first_damping, damping),
            jnp.where(is_over, 0, n_done),
            old.next_start + jnp.sum(is_over),
            old.ends.at[row].set(state),
            old.n_iterations.at[row].set(n_done),
        )

    last = jax.lax.while_loop(lambda now: jnp.any(now.start < n_starts), iterate, searches)
    return last.ends[:-1], last.n_iterations[:-1]


def _speed(displacement: Float[Array, "*axes state"]) -> Float[Array, "*axes"]:
    return jnp.sum(displacement**2, axis=-1) / 2


def _improve(displacement, state, damping):
    """Return state, damping and speed after a Levenberg-Marquardt iteration, and the slope of |F| before."""
    # Solves F(h) = step(h) - h = 0 by (J'J + damping) d = -J'F. The damping is proportional to |F|, which
    # keeps convergence quadratic where fixed points are not isolated (Fan & Yuan 2005, Computing 74:23-39, as
    # cited in doi 10.1007/s10915-018-0777-8). Its factor follows the ratio of actual to predicted reduction
    # (Fan 2003, J Comput Math 21:625-636, not compared with the paper).

    def value_and_aux(at):
        value = displacement(at)
        return value, value

    # Forward mode: as many outputs as inputs, and nothing to store; the value comes with it.
    jacobian, value = jax.jacfwd(value_and_aux, has_aux=True)(state)
    normal = jacobian.T @ jacobian + damping * jnp.eye(state.shape[0], dtype=state.dtype)
    gradient = jacobian.T @ value
    # The damping makes the matrix positive definite, also where J is singular.
    step = -jax.scipy.linalg.solve(normal, gradient, assume_a="pos")
    new_value = displacement(state + step)
    old_speed, new_speed = _speed(value), _speed(new_value)
    predicted = old_speed - _speed(value + jacobian @ step)
    # At a minimum rounding may predict an increase: the gain is then zero, and the step is not taken.
    gain = (old_speed - new_speed) / jnp.where(predicted > 0, predicted, jnp.inf)
    is_better = (gain > LEAST_GAIN) & jnp.isfinite(new_speed)
    factor = jnp.where(gain > GOOD_GAIN, 1 / DAMPING_CHANGE, 1.0)
    factor = jnp.where(is_better, factor * jnp.sqrt(new_speed / old_speed), DAMPING_CHANGE)
    damping = jnp.clip(damping * factor, 1e-30, MOST_DAMPING)
    return (
        jnp.where(is_better, state + step, state),
        damping,
        jnp.where(is_better, new_speed, old_speed),
        jnp.linalg.norm(gradient) / jnp.linalg.norm(value),
    )
