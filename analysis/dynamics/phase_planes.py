"""The flow of a network's state in a plane."""

from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from popsim.analysis._arrays import AnyArray, check_axes, finite_float64
from popsim.analysis.dynamics.attractors import rollout
from popsim.analysis.dynamics.inputs import Inputs
from popsim.analysis.dynamics.linearization import Dynamics, check_dt_of, network_dynamics
from popsim.ensemble import n_members

__all__ = ["PhasePlane", "phase_plane"]

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
        values = finite_float64("states", states, f"member={n_members} ... state={n_state}")
        members = zip(values, self.origin, self.axes, strict=True)
        return np.stack([(of_member - origin) @ axes.T for of_member, origin, axes in members])


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
    direction, and b that of the part of the second across a. A plane shows the dynamics well if states near
    it stay near: compare `speed` with the length of `velocity`. `popsim.analysis.figures.draw_phase_portrait`
    draws it.

    **Arguments:**

    - `ensemble`, `inputs`, `dynamics`: as for `find_fixed_points`.
    - `directions`: two directions in the space of states, for all members or for each, such as
        `principal_components(hidden).components[:, :2]`, or a readout and an input direction.
    - `x`, `y`: coordinates of the grid, in units of the state.
    - `dt`: time step in s, that of the model.
    - `origin`: state at (0, 0), for all members or for each, such as `principal_components(hidden).mean`. The
        default is zero.
    """
    check_dt_of(ensemble, dynamics, dt)
    columns, rows = _coordinates("x", x), _coordinates("y", y)
    count = n_members(ensemble)
    axes = _orthonormal(_of_members("directions", directions, count, ("direction=2", "state")))
    start = np.zeros(axes.shape[-1]) if origin is None else origin
    center = _of_members("origin", start, count, (f"state={axes.shape[-1]}",))
    grid = np.stack(np.meshgrid(columns, rows), axis=-1).reshape(-1, 2)
    states = center[:, None] + np.einsum("pa,mas->mps", grid, axes)
    following = rollout(ensemble, states, 1, inputs=inputs, dynamics=dynamics)[:, :, 0]
    change = (following - states) / dt
    shape = (count, rows.size, columns.size)
    velocity = np.einsum("mps,mas->mpa", change, axes).reshape(*shape, 2)
    speed = np.linalg.norm(change, axis=-1).reshape(shape)
    return PhasePlane(columns, rows, velocity, speed, center, axes)


def _coordinates(name: str, values: AnyArray) -> Float[np.ndarray, " coordinate"]:
    coordinates = finite_float64(name, values, "coordinate")
    if coordinates.size < 2 or np.any(np.diff(coordinates) <= 0):
        raise ValueError(f"`{name}` must be two coordinates or more that ascend, got {coordinates}.")
    return coordinates


def _of_members(
    name: str, values: AnyArray, count: int, axes: tuple[str, ...]
) -> Float[np.ndarray, "member ..."]:
    """Return an array of each member, from one for all or one per member."""
    given = finite_float64(name, values)
    if given.ndim == len(axes):
        given = np.broadcast_to(given, (count, *given.shape))
    check_axes(name, given, " ".join((f"member={count}", *axes)))
    return given


def _orthonormal(directions: Float[np.ndarray, "member 2 state"]) -> Float[np.ndarray, "member 2 state"]:
    lengths = np.linalg.norm(directions, axis=-1, keepdims=True)
    first, second = np.moveaxis(directions / np.where(lengths > 0, lengths, 1.0), 1, 0)
    across = second - np.sum(first * second, axis=-1, keepdims=True) * first
    length = np.linalg.norm(across, axis=-1, keepdims=True)
    if np.any(length < PARALLEL):
        raise ValueError("`directions` must span a plane, got two that are parallel, or zero.")
    return np.stack([first, across / length], axis=1)
