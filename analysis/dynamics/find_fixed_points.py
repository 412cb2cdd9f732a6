"""The fixed points of all members of an ensemble."""

from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from popsim.analysis.arrays import AnyArray
from popsim.analysis.dynamics.fixed_points import FixedPoints, FoundPoints
from popsim.analysis.dynamics.linearization import state_jacobians
from popsim.analysis.dynamics.maps import (
    Dynamics,
    in_double_precision,
    network_dynamics,
)
from popsim.analysis.dynamics.merging import distinct_points
from popsim.analysis.dynamics.modes import sorted_eigenvalues
from popsim.analysis.dynamics.search import FixedPointSearch, run_searches
from popsim.analysis.dynamics.starts import spread


def find_fixed_points(
    ensemble: eqx.Module,
    starts: Float[AnyArray, "member start state"],
    *,
    inputs: Float[AnyArray, "*member inputs"] | None = None,
    dynamics: Dynamics = network_dynamics,
    search: FixedPointSearch | None = None,
) -> FoundPoints:
    """Where the dynamics of each member rest, step(h) = h, with constant inputs and without noise.

    After Sussillo & Barak 2013, Neural Comput 25:626. From each start the speed q = |step(h) - h|^2 / 2 is
    minimised by a Levenberg-Marquardt method, in double precision, in one compiled program; a start takes
    the place of one that has come to its end. What is found depends on the starts: see
    `mixtures_of_states`, and `FixedPoints.index` for a check of whether all were found.

    **Arguments:**

    - `ensemble`: models stacked on axis 0: networks or models of popsim, or any modules with `dynamics`.
    - `starts`: where to search from, the same number for each member.
    - `inputs`: one vector for all, or one for each member; by default a network receives zeros.
    - `dynamics`: one time step of one model. For your own system, a function `(model, state) -> state`, or
        `(model, state, inputs) -> state` if `inputs` are given; differentiable by JAX.
    - `search`: tolerances and more; see `FixedPointSearch`.

    **Raises:** `ValueError` if starts or inputs are not finite or not those of the members, or the dynamics
    do not return a state like the one that they are given.
    """
    search = FixedPointSearch() if search is None else search
    with jax.enable_x64(True):
        double, began, constant = in_double_precision(dynamics, ensemble, "starts", starts, inputs)
        ends = run_searches(dynamics, double, constant, began, search)
        ended, speed = (np.asarray(values) for values in ends[:2])
    is_fixed = speed <= search.tolerance
    is_slow = ~is_fixed & (speed <= search.slow_tolerance)
    size, tables = spread(np.asarray(began)), []
    for is_chosen, radius in ((is_fixed, search.radius), (is_slow, search.slow_radius)):
        distinct = _distinct_ends(ended, speed, is_chosen, radius * size)
        jacobians = _jacobians_at(ensemble, distinct, inputs, dynamics)
        tables.append(_table(distinct, jacobians, search.margin))
    return FoundPoints(*tables, n_lost=np.count_nonzero(~(is_fixed | is_slow), axis=1))


class _Ends(NamedTuple):
    """Of one member, the distinct ends of searches, their speeds, and how many searches came there."""

    state: Float[np.ndarray, "point state"]
    speed: Float[np.ndarray, " point"]
    n_starts: Int[np.ndarray, " point"]


def _distinct_ends(
    ended: Float[np.ndarray, "member start state"],
    speed: Float[np.ndarray, "member start"],
    is_chosen: Bool[np.ndarray, "member start"],
    radii: Float[np.ndarray, " member"],
) -> list[_Ends]:
    found = []
    for own, own_speed, chosen, radius in zip(ended, speed, is_chosen, radii, strict=True):
        states, speeds = own[chosen], own_speed[chosen]
        distinct = distinct_points(states, speeds, float(radius))
        found.append(_Ends(states[distinct.row], speeds[distinct.row], distinct.n_merged))
    return found


def _jacobians_at(
    ensemble: eqx.Module, points: list[_Ends], inputs: AnyArray | None, dynamics: Dynamics
) -> list[np.ndarray]:
    """The Jacobians at the points of each member.

    All members get as many points, a power of two, so that few programs are compiled.
    """
    most, size = max(len(own.state) for own in points), points[0].state.shape[1]
    if most == 0:
        return [np.zeros((0, size, size))] * len(points)
    padded = np.zeros((len(points), 1 << (most - 1).bit_length(), size))
    for i, own in enumerate(points):
        padded[i, : len(own.state)] = own.state
    jacobians = state_jacobians(ensemble, padded, inputs=inputs, dynamics=dynamics)
    return [own[: len(there.state)] for own, there in zip(jacobians, points, strict=True)]


def _table(points: list[_Ends], jacobians: list[np.ndarray], margin: float) -> FixedPoints:
    jacobian = np.concatenate(jacobians)
    eigenvalues = sorted_eigenvalues(jacobian)
    n_unstable = np.count_nonzero(np.abs(eigenvalues) > 1 + margin, axis=-1)
    n_marginal = np.count_nonzero(np.abs(np.abs(eigenvalues) - 1) <= margin, axis=-1)
    member = np.repeat(np.arange(len(points)), [len(own.state) for own in points])
    state, speed, n_starts = (np.concatenate(column) for column in zip(*points, strict=True))
    order = np.lexsort((speed, n_unstable, member))
    columns = (member, state, speed, jacobian, eigenvalues, n_unstable, n_marginal, n_starts)
    return FixedPoints(*(column[order] for column in columns), n_members=len(points))
