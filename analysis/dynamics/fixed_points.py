"""Fixed points of networks."""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Complex, Float, Int, Key

from popsim.analysis import _arrays
from popsim.analysis._arrays import AnyArray
from popsim.analysis.dynamics import linearization
from popsim.analysis.dynamics.linearization import Constants, Dynamics, Inputs, network_dynamics
from popsim.analysis.dynamics.search import REFINING_DAMPING, FixedPointSearch, run_searches
from popsim.randomness import as_key

__all__ = [
    "mixtures_of_states",
    "states_with_noise",
    "FixedPoints",
    "FixedPointSearchResult",
    "find_fixed_points",
]


def mixtures_of_states(
    states: Float[AnyArray, "member *axes state"],
    n_starts: int,
    *,
    n_mixed: int = 3,
    concentration: float = 0.5,
    key: Key[Array, ""],
) -> Float[np.ndarray, "member start state"]:
    """Draw weighted means of visited states as starts of a search.

    They also lie near unstable points, which trajectories leave. Weights have a Dirichlet distribution.

    **Arguments:**

    - `states`: states visited by each member, such as `states.network.hidden` of an evaluation.
    - `concentration`: of the distribution: far below 1 near the visited states, far above 1 near their mean.
    """
    starts = []
    for generator, visited in _generators_and_states(states, key):
        chosen = visited[generator.integers(len(visited), size=(n_starts, n_mixed))]
        weights = generator.dirichlet(np.full(n_mixed, concentration), size=n_starts)
        starts.append(np.einsum("sm,smu->su", weights, chosen))
    return np.stack(starts)


def states_with_noise(
    states: Float[AnyArray, "member *axes state"], n_starts: int, *, noise: float = 0.1, key: Key[Array, ""]
) -> Float[np.ndarray, "member start state"]:
    """Draw visited states with Gaussian noise as starts of a search.

    **Arguments:**

    - `states`, `n_starts`, `key`: as for `mixtures_of_states`.
    - `noise`: standard deviation as a share of the root-mean-square distance of the member's visited states
        from their mean, divided by the square root of the number of units.
    """
    starts = []
    for generator, visited in _generators_and_states(states, key):
        chosen = visited[generator.integers(len(visited), size=n_starts)]
        deviation = noise * float(spread(visited)) / visited.shape[1] ** 0.5
        starts.append(chosen + deviation * generator.standard_normal(chosen.shape))
    return np.stack(starts)


def spread(states: Float[np.ndarray, "*axes point state"]) -> Float[np.ndarray, "*axes"]:
    """Return the root-mean-square distance of states from their mean, in the unit of the states."""
    return np.asarray(np.sqrt(np.var(states, axis=-2).sum(axis=-1)))


def _generators_and_states(
    states: AnyArray, key: Key[Array, ""]
) -> list[tuple[np.random.Generator, Float[np.ndarray, "visited state"]]]:
    if _arrays.holds_arrays(states, list):
        raise ValueError(
            f"`states` must be one array, got {len(states)}, which would be taken for members: join the "
            "arrays of a hidden state by np.concatenate(states, axis=-1), stack members by np.stack(states)."
        )
    visited = _arrays.finite_float64("states", states, "member ... visited state")
    flat = visited.reshape(visited.shape[0], -1, visited.shape[-1])
    return [
        (_arrays.numpy_generator(jax.random.fold_in(as_key(key), i)), member_states)
        for i, member_states in enumerate(flat)
    ]


class DistinctPoints(NamedTuple):
    """Points that are farther apart than a radius, the slowest of the starts that were merged into each."""

    state: Float[np.ndarray, "distinct state"]
    speed: Float[np.ndarray, " distinct"]
    n_starts: Int[np.ndarray, " distinct"]


def distinct_points(
    states: Float[np.ndarray, "point state"],
    speed: Float[np.ndarray, " point"],
    n_starts: Int[np.ndarray, " point"],
    radius: float,
) -> DistinctPoints:
    """Merge points greedily: the slowest point absorbs all remaining points within a radius of it."""
    remaining = np.argsort(speed, kind="stable")
    rows, counts = [], []
    while remaining.size:
        is_near = np.linalg.norm(states[remaining] - states[remaining[0]], axis=-1) <= radius
        # Itself, whatever the radius: each turn must remove a point, or the loop would not end.
        is_near[0] = True
        rows.append(remaining[0])
        counts.append(n_starts[remaining[is_near]].sum())
        remaining = remaining[~is_near]
    distinct = np.asarray(rows, int)
    return DistinctPoints(states[distinct], speed[distinct], np.asarray(counts, int))


@dataclasses.dataclass(frozen=True, eq=False)
class FixedPoints:
    """A table of fixed or slow points of all members, which may have different numbers of them.

    Rows are ordered by member, then by the number of unstable directions.

    - `speed`: q = |step(h) - h|^2 / 2, in squared units of the state.
    - `jacobian`: Jacobian of one time step by the state, at the point.
    - `eigenvalues`: eigenvalues of the Jacobian, in order of decreasing absolute value.
    - `n_unstable`: number of unstable directions, with absolute eigenvalues above 1 + margin.
    - `n_marginal`: number of absolute eigenvalues from 1 - margin to 1 + margin.
    - `n_members`: number of members of the ensemble, including those without points.
    """

    member: Int[np.ndarray, " point"]
    state: Float[np.ndarray, "point state"]
    speed: Float[np.ndarray, " point"]
    jacobian: Float[np.ndarray, "point state state"]
    eigenvalues: Complex[np.ndarray, "point state"]
    n_unstable: Int[np.ndarray, " point"]
    n_marginal: Int[np.ndarray, " point"]
    n_starts: Int[np.ndarray, " point"]
    n_members: int

    def __len__(self) -> int:
        return len(self.member)

    @property
    def residual(self) -> Float[np.ndarray, " point"]:
        """Distance that a time step moves the state, |step(h) - h|, in the unit of the state."""
        return np.sqrt(2 * self.speed)

    @property
    def is_stable(self) -> Bool[np.ndarray, " point"]:
        """Whether small changes of the state decay in all directions."""
        return self.n_unstable + self.n_marginal == 0

    @property
    def index(self) -> Int[np.ndarray, " point"]:
        """Sign of det(1 - A), with the Jacobian A: -1 if an odd number of eigenvalues are real and > 1.

        For a map of a ball into itself, such as a network of bounded units, the indices of all fixed points
        sum to 1 (Lefschetz-Hopf theorem).
        """
        identity = np.eye(self.jacobian.shape[-1])
        return np.linalg.slogdet(identity - self.jacobian).sign.astype(int)

    def where(self, is_chosen: Bool[np.ndarray, " point"]) -> "FixedPoints":
        """Select points, such as `points.where(points.is_stable)`."""
        chosen = {
            field.name: getattr(self, field.name)[is_chosen]
            for field in dataclasses.fields(self)
            if field.name != "n_members"
        }
        return dataclasses.replace(self, **chosen)

    def select_member(self, member: int) -> "FixedPoints":
        """Return the points of one member."""
        _arrays.check_within("member", member, 0, self.n_members - 1)
        return self.where(self.member == member)

    def counts(self) -> Int[np.ndarray, "member unstable"]:
        """Count the points of each member with 0, 1, 2, ... unstable directions; at least one column."""
        counts = np.zeros((self.n_members, int(self.n_unstable.max(initial=0)) + 1), int)
        np.add.at(counts, (self.member, self.n_unstable), 1)
        return counts


class FixedPointSearchResult(NamedTuple):
    """The result of a search for fixed points.

    - `fixed`: points with a speed within `tolerance`.
    - `slow`: other points with a speed within `slow_tolerance`.
    - `n_lost`: per member, number of searches that ended at neither.
    """

    fixed: FixedPoints
    slow: FixedPoints
    n_lost: Int[np.ndarray, " member"]


def find_fixed_points(
    ensemble: eqx.Module,
    starts: Float[AnyArray, "member start state"],
    *,
    inputs: Inputs | None = None,
    dynamics: Dynamics = network_dynamics,
    search: FixedPointSearch | None = None,
) -> FixedPointSearchResult:
    """Find the fixed points step(h) = h of each member, with constant inputs and without noise.

    After Sussillo & Barak 2013, Neural Comput 25:626. The speed q = |step(h) - h|^2 / 2 is minimised from
    each start by a Levenberg-Marquardt method, in double precision, in one compiled program. Near a
    bifurcation searches continue until rounding ends them, before their ends are merged. The result depends
    on the starts: see `mixtures_of_states`, and `FixedPoints.index` for a check of whether all were found.

    **Arguments:**

    - `ensemble`: models stacked on axis 0: networks or models of popsim, or any modules with `dynamics`.
    - `starts`: starts of the search, the same number per member.
    - `inputs`: by name, each one vector for all members or one per member: those of the trial and, of a model
        with a body, all senses, as `popsim.senses.network_input_names` lists them, such as
        `{"target": [0.1, 0.0]}`. By default a network receives zeros. Your own `dynamics` get them as given.
    - `dynamics`: one time step of one model. For your own system, a function `(model, state) -> state`, or
        `(model, state, inputs) -> state` if `inputs` are given; differentiable by JAX.
    """
    search = FixedPointSearch() if search is None else search
    with jax.enable_x64(True):
        double, first_states, constant = linearization.to_double_precision(
            dynamics, ensemble, "starts", starts, inputs
        )
        ends = run_searches(dynamics, double, constant, first_states, search)
        end_states, speed = (np.asarray(values) for values in ends[:2])
    is_fixed = speed <= search.tolerance
    is_slow = ~is_fixed & (speed <= search.slow_tolerance)
    size, tables = spread(np.asarray(first_states)), []
    for is_chosen, radius in ((is_fixed, search.radius * size), (is_slow, search.slow_radius * size)):
        distinct = [
            distinct_points(states[chosen], speeds[chosen], np.ones(np.count_nonzero(chosen), int), near)
            for states, speeds, chosen, near in zip(
                end_states, speed, is_chosen, radius.tolist(), strict=True
            )
        ]
        jacobians = _jacobians_at(ensemble, distinct, inputs, dynamics)
        if is_chosen is is_fixed and _some_at_bifurcation(distinct, jacobians):
            distinct = _refine(distinct, double, constant, dynamics, search, radius)
            jacobians = _jacobians_at(ensemble, distinct, inputs, dynamics)
        tables.append(_table(distinct, jacobians, search.margin))
    return FixedPointSearchResult(*tables, n_lost=np.count_nonzero(~(is_fixed | is_slow), axis=1))


_NEARLY_ONE = 1e-4
"""Distance of an eigenvalue from 1 below which a fixed point may be at a bifurcation."""


def _some_at_bifurcation(points: list[DistinctPoints], jacobians: list[np.ndarray]) -> bool:
    return any(
        len(distinct.state) > 1 and bool(np.any(np.abs(np.linalg.eigvals(jacobian) - 1) < _NEARLY_ONE))
        for distinct, jacobian in zip(points, jacobians, strict=True)
    )


def _refine(
    points: list[DistinctPoints],
    ensemble: Any,
    inputs: Constants | None,
    dynamics: Dynamics,
    search: FixedPointSearch,
    radius: Float[np.ndarray, " member"],
) -> list[DistinctPoints]:
    """Continue the search from fixed points until rounding ends it, and merge them again."""
    with jax.enable_x64(True):
        further = dataclasses.replace(search, tolerance=float(np.finfo(np.float64).tiny))
        starts = jnp.asarray(_pad(points))
        ends = run_searches(dynamics, ensemble, inputs, starts, further, REFINING_DAMPING)
        states, speeds = (np.asarray(values) for values in ends[:2])
    return [
        distinct_points(state[: len(before.state)], speed[: len(before.state)], before.n_starts, near)
        for before, state, speed, near in zip(points, states, speeds, radius.tolist(), strict=True)
    ]


def _pad(points: list[DistinctPoints]) -> Float[np.ndarray, "member point state"]:
    """Return the states of all members, padded to one power of two, so that few programs are compiled."""
    most, size = max(len(distinct.state) for distinct in points), points[0].state.shape[1]
    padded = np.zeros((len(points), 1 << max(most - 1, 0).bit_length(), size))
    for states, distinct in zip(padded, points, strict=True):
        states[: len(distinct.state)] = distinct.state
    return padded


def _jacobians_at(
    ensemble: eqx.Module, points: list[DistinctPoints], inputs: Inputs | None, dynamics: Dynamics
) -> list[np.ndarray]:
    if not any(len(distinct.state) for distinct in points):
        return [np.zeros((0, size, size)) for size in (distinct.state.shape[1] for distinct in points)]
    jacobians = linearization.state_jacobians(ensemble, _pad(points), inputs=inputs, dynamics=dynamics)
    return [matrices[: len(distinct.state)] for matrices, distinct in zip(jacobians, points, strict=True)]


def _table(points: list[DistinctPoints], jacobians: list[np.ndarray], margin: float) -> FixedPoints:
    jacobian = np.concatenate(jacobians)
    eigenvalues = _arrays.sorted_eigenvalues(jacobian)
    n_unstable = np.count_nonzero(np.abs(eigenvalues) > 1 + margin, axis=-1)
    n_marginal = np.count_nonzero(np.abs(np.abs(eigenvalues) - 1) <= margin, axis=-1)
    member = np.repeat(np.arange(len(points)), [len(distinct.state) for distinct in points])
    state, speed, n_starts = (np.concatenate(column) for column in zip(*points, strict=True))
    # `lexsort` sorts by the last key first.
    order = np.lexsort((speed, n_unstable, member))
    columns = (member, state, speed, jacobian, eigenvalues, n_unstable, n_marginal, n_starts)
    return FixedPoints(*(column[order] for column in columns), n_members=len(points))
