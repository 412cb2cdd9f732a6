"""Integration over one time step by equal substeps of a diffrax solver."""

from collections.abc import Callable, Sequence

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

Rate = Callable[[ArrayLike, PyTree[Array]], PyTree[Array]]
UNROLLED = 8  # stages; XLA takes exponentially long to compile many more


def integrate(
    rate: Rate, state: PyTree[Array], solver: diffrax.AbstractSolver, n_substeps: int, dt: float
) -> PyTree[Array]:
    """Return the state after `dt` seconds.

    The stages of diffrax's explicit Runge-Kutta methods are written out from their tableaus: diffrax's own
    step is a loop over stages, which cannot be optimised as a part of a time step. Other solvers take their
    own steps. They are reinitialised at each time step, because commands jump between steps, which
    invalidates what a solver carries over.
    """
    weights = _explicit_weights(solver)
    step = dt / n_substeps
    term = diffrax.ODETerm(lambda t, y, args: rate(t, y))

    def substep(carry, index):
        y, solver_state = carry
        if weights is not None:
            return (_explicit_step(rate, y, index, dt, n_substeps, *weights), solver_state), None
        begin = index * step
        y, _, _, solver_state, _ = solver.step(
            term, begin, begin + step, y, None, solver_state, made_jump=False
        )
        return (y, solver_state), None

    carry = (state, solver.init(term, 0.0, step, state, None) if weights is None else None)
    n_unrolled = max(1, UNROLLED // (1 if weights is None else len(weights[1])))
    if n_substeps <= n_unrolled:  # with constant times, what several stages share is computed once
        for index in range(n_substeps):
            carry, _ = substep(carry, index)
    else:
        indices = jnp.arange(n_substeps, dtype=jnp.result_type(*jax.tree.leaves(state)))
        carry, _ = jax.lax.scan(substep, carry, indices, unroll=n_unrolled)
    return carry[0]


Weights = tuple[Sequence[np.ndarray], np.ndarray, np.ndarray]


def _explicit_weights(solver: diffrax.AbstractSolver) -> Weights | None:
    """Return a, b and c of the Butcher tableau of a diffrax solver; None if it is not such a method."""
    if type(solver) is diffrax.Euler:
        return (), np.ones(1), np.zeros(1)
    if not isinstance(solver, diffrax.AbstractERK) or type(solver).step is not diffrax.AbstractERK.step:
        return None
    tableau = solver.tableau
    if not isinstance(tableau, diffrax.ButcherTableau):
        return None
    # A last stage without weight serves error estimates, and is the first of the next substep.
    n_stages = np.flatnonzero(tableau.b_sol)[-1] + 1
    return tableau.a_lower, tableau.b_sol[:n_stages], np.concatenate([[0.0], tableau.c])


def _explicit_step(
    rate: Rate,
    state: PyTree[Array],
    index: ArrayLike,
    dt: float,
    n_substeps: int,
    a: Sequence[np.ndarray],
    b: np.ndarray,
    c: np.ndarray,
) -> PyTree[Array]:
    rates, step = [], dt / n_substeps
    for stage in range(len(b)):
        at = state if stage == 0 else _move(state, rates, step * a[stage - 1])
        rates.append(rate(dt * ((index + float(c[stage])) / n_substeps), at))
    return _move(state, rates, step * b)


def _move(state: PyTree[Array], rates: Sequence[PyTree[Array]], by: np.ndarray) -> PyTree[Array]:
    """Return the state plus the sum of `by` times the rates."""
    for weight, rate in zip(by, rates, strict=False):
        if weight != 0:
            state = jax.tree.map(lambda y, dy, w=float(weight): y + w * dy, state, rate)
    return state
