"""Basins of attraction, line attractors, and the flow in a plane."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Int

from popsim._compiled import jit
from popsim._shared.checks import check_time_step
from popsim.analysis import _arrays
from popsim.analysis._arrays import AnyArray
from popsim.analysis.dynamics import linearization
from popsim.analysis.dynamics.fixed_points import FixedPoints
from popsim.analysis.dynamics.linearization import Constants, Dynamics, Inputs, States, network_dynamics
from popsim.analysis.neural_activity.components import principal_components
from popsim.ensemble import n_members

__all__ = ["rollout", "assign_basins", "SlowDirections", "slow_directions", "PhasePlane", "phase_plane"]


def rollout(
    ensemble: eqx.Module,
    states: States,
    n_steps: int,
    *,
    inputs: Inputs | None = None,
    dynamics: Dynamics = network_dynamics,
) -> Float[np.ndarray, "member point time state"]:
    """Simulate the states with constant inputs and without noise, in double precision.

    The distance from the initial states is the drift of a memory held by the network.

    **Arguments:**

    - `ensemble`, `inputs`, `dynamics`: as for `find_fixed_points`.
    - `states`: initial states, the same number per member.
    """
    with jax.enable_x64(True):
        arguments = linearization.to_double_precision(dynamics, ensemble, "states", states, inputs)
        return np.asarray(_follow(dynamics, *arguments, n_steps))


@jit
def _follow(
    dynamics: Dynamics, ensemble: Any, states: Array, inputs: Constants | None, n_steps: int
) -> Float[Array, "member point time state"]:
    def follow_member(model, points, received):
        def forward(state, _):
            following = jax.vmap(lambda point: linearization.one_step(dynamics, model, point, received))(
                state
            )
            return following, following

        return jnp.swapaxes(jax.lax.scan(forward, points, length=n_steps)[1], 0, 1)

    return linearization.map_members(follow_member, ensemble, states, inputs)


def assign_basins(points: FixedPoints, states: States, within: float) -> Int[np.ndarray, "member point"]:
    """Return the row of the fixed point that each final state has reached, -1 for none.

    **Arguments:**

    - `points`: fixed points of the same members, such as the stable ones.
    - `states`: final states, such as the last of `rollout`.
    - `within`: maximum distance of a state from its point, in the unit of the states.
    """
    last = _arrays.as_float64("states", states, f"member={points.n_members} point state")
    reached = np.full(last.shape[:2], -1)
    for member, ends in enumerate(last):
        rows = np.flatnonzero(points.member == member)
        if rows.size:
            distance = np.linalg.norm(ends[:, None] - points.state[rows], axis=-1)
            is_there = distance.min(axis=1) <= within
            reached[member] = np.where(is_there, rows[distance.argmin(axis=1)], -1)
    return reached


class SlowDirections(NamedTuple):
    """The slowest mode at each point of a candidate line attractor.

    - `n_slow`: number of slow modes, by their time constants; 1 on a line attractor.
    - `eigenvalue`: eigenvalue of the slowest mode, the one closest to 1.
    - `direction`: unit vector of that mode; all point along one axis, along which the sum of the cubed
        distances of the points from their mean is positive.
    - `selection`: vector whose product with a small change of the state is the movement along `direction`.
    - `alignment`: |cosine| between the direction and the curve through the points; 1 on a line attractor.
    - `next_largest`: largest absolute eigenvalue of the other modes; 0 without any.
    """

    n_slow: Int[np.ndarray, " point"]
    eigenvalue: Complex[np.ndarray, " point"]
    direction: Float[np.ndarray, "point state"]
    selection: Float[np.ndarray, "point state"]
    alignment: Float[np.ndarray, " point"]
    next_largest: Float[np.ndarray, " point"]


def slow_directions(
    states: Float[AnyArray, "point state"],
    jacobian: Float[AnyArray, "point state state"],
    *,
    dt: float,
    least_time_constant: float,
    least_growth_time: float | None = None,
    n_neighbours: int = 4,
) -> SlowDirections:
    """Return the slowest mode at each point of one member and its alignment with the curve of points.

    The curve at a point is the first principal component of its nearest neighbours. After Mante et al. 2013,
    Nature 503:78, not compared with the paper.

    **Arguments:**

    - `states`, `jacobian`: fixed or slow points of one member, and their Jacobians.
    - `least_time_constant`: in s; a mode that takes this time or longer to decay to 1/e is slow.
    - `least_growth_time`: the same for growth by e; None for `least_time_constant`.
    - `n_neighbours`: number of neighbours from which the curve is estimated.
    """
    points = _arrays.finite_float64("states", states, "point state")
    matrices = _arrays.finite_float64(
        "jacobian", jacobian, f"point={len(points)} state state={points.shape[1]}"
    )
    _arrays.check_within("n_neighbours", n_neighbours, 2, len(points) - 1)
    check_time_step(dt)
    growth_time = least_time_constant if least_growth_time is None else least_growth_time
    eigenmodes, row = linearization.modes(matrices), np.arange(len(points))
    size = np.abs(eigenmodes.eigenvalue)
    at = np.argmin(np.abs(eigenmodes.eigenvalue - 1), axis=-1)
    direction, selection = eigenmodes.direction[row, :, at], eigenmodes.selection[row, at]
    # An eigenvector has an arbitrary complex phase; remove it so that the eigenvector of a real mode is real.
    phase = np.exp(-0.5j * np.angle(np.sum(direction**2, axis=-1, keepdims=True)))
    length = np.linalg.norm((direction * phase).real, axis=-1, keepdims=True)
    real_direction, real_selection = (direction * phase).real / length, (selection / phase).real * length
    tangent = _tangents(points, n_neighbours)
    common = np.linalg.svd(real_direction, full_matrices=False)[2][0]
    common = common * _arrays.sign_factors((points - points.mean(axis=0)) @ common, axis=0)
    sign = np.where(real_direction @ common < 0, -1.0, 1.0)[:, None]
    other_sizes = np.where(np.arange(size.shape[-1]) == at[:, None], 0.0, size)
    return SlowDirections(
        np.count_nonzero(
            (size >= np.exp(-dt / least_time_constant)) & (size <= np.exp(dt / growth_time)), axis=-1
        ),
        eigenmodes.eigenvalue[row, at],
        sign * real_direction,
        sign * real_selection,
        np.abs(np.sum(real_direction * tangent, axis=-1)),
        other_sizes.max(axis=-1),
    )


def _tangents(points: Float[np.ndarray, "point state"], n: int) -> Float[np.ndarray, "point state"]:
    distance = np.linalg.norm(points[:, None] - points, axis=-1)
    nearest = points[np.argsort(distance, axis=1)[:, : n + 1]]
    return principal_components(nearest[:, None], n_components=1).components[:, 0]


PARALLEL = 1e-6  # share of a direction's length across the other below which the two make no plane


class PhasePlane(NamedTuple):
    """The velocity of each member's state on a grid of points of a plane.

    - `x`, `y`: coordinates of the grid along the two axes, in units of the state.
    - `velocity`: its part in the plane, in units of the state per second. Rows are along `y`.
    - `speed`: length of the whole velocity. Where it exceeds that of `velocity`, states leave the plane.
    - `origin`: the state at (0, 0).
    - `axes`: orthogonal unit vectors of the plane.
    """

    x: Float[np.ndarray, " column"]
    y: Float[np.ndarray, " row"]
    velocity: Float[np.ndarray, "member row column 2"]
    speed: Float[np.ndarray, "member row column"]
    origin: Float[np.ndarray, "member state"]
    axes: Float[np.ndarray, "member 2 state"]

    def project(self, states: Float[AnyArray, "member *axes state"]) -> Float[np.ndarray, "member *axes 2"]:
        """Return the coordinates in the plane of states of each member, such as trajectories."""
        n_members, n_state = self.origin.shape
        values = _arrays.finite_float64("states", states, f"member={n_members} ... state={n_state}")
        members = zip(values, self.origin, self.axes, strict=True)
        return np.stack([(points - origin) @ axes.T for points, origin, axes in members])


def phase_plane(
    ensemble: eqx.Module,
    directions: Float[AnyArray, "*member 2 state"],
    x: Float[AnyArray, " column"],
    y: Float[AnyArray, " row"],
    *,
    dt: float,
    origin: Float[AnyArray, "*member state"] | None = None,
    inputs: Inputs | None = None,
    dynamics: Dynamics = network_dynamics,
) -> PhasePlane:
    """Return the velocity (h(t + dt) - h(t)) / dt of states in a plane, with constant inputs and no noise.

    The state at coordinates (x, y) is the origin + x a + y b, where a is the unit vector along the first
    direction, and b that of the part of the second across a. See `figures.draw_phase_portrait`.

    **Arguments:**

    - `ensemble`, `inputs`, `dynamics`: as for `find_fixed_points`.
    - `directions`: two directions in the space of states, for all members or for each, such as
        `principal_components(hidden).components[:, :2]`.
    - `x`, `y`: coordinates of the grid, in units of the state.
    - `origin`: state at (0, 0), for all members or for each; None for zero.
    """
    linearization.check_dt_of(ensemble, dynamics, dt)
    columns, rows = _arrays.finite_float64("x", x, "coordinate"), _arrays.finite_float64("y", y, "coordinate")
    count = n_members(ensemble)
    axes = _orthonormal(_arrays.for_each_member("directions", directions, count, "direction=2 state"))
    start = np.zeros(axes.shape[-1]) if origin is None else origin
    center = _arrays.for_each_member("origin", start, count, f"state={axes.shape[-1]}")
    grid = np.stack(np.meshgrid(columns, rows), axis=-1).reshape(-1, 2)
    states = center[:, None] + np.einsum("pa,mas->mps", grid, axes)
    following = rollout(ensemble, states, 1, inputs=inputs, dynamics=dynamics)[:, :, 0]
    change = (following - states) / dt
    shape = (count, rows.size, columns.size)
    velocity = np.einsum("mps,mas->mpa", change, axes).reshape(*shape, 2)
    speed = np.linalg.norm(change, axis=-1).reshape(shape)
    return PhasePlane(columns, rows, velocity, speed, center, axes)


def _orthonormal(directions: Float[np.ndarray, "member 2 state"]) -> Float[np.ndarray, "member 2 state"]:
    lengths = np.linalg.norm(directions, axis=-1, keepdims=True)
    first, second = np.moveaxis(directions / np.where(lengths > 0, lengths, 1.0), 1, 0)
    across = second - np.sum(first * second, axis=-1, keepdims=True) * first
    length = np.linalg.norm(across, axis=-1, keepdims=True)
    if np.any(length < PARALLEL):
        raise ValueError("`directions` must span a plane, got two that are parallel, or zero.")
    return np.stack([first, across / length], axis=1)
