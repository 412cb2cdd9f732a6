"""What becomes of states that are left alone."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from popsim.analysis.arrays import AnyArray
from popsim.analysis.dynamics.fixed_points import FixedPoints
from popsim.analysis.dynamics.maps import (
    Dynamics,
    in_double_precision,
    map_members,
    network_dynamics,
    one_step,
)
from popsim.checks import check_positive, check_positive_int


def follow_dynamics(
    ensemble: eqx.Module,
    states: Float[AnyArray, "member point state"],
    n_steps: int,
    *,
    inputs: Float[AnyArray, "*member inputs"] | None = None,
    dynamics: Dynamics = network_dynamics,
) -> Float[np.ndarray, "member point time state"]:
    """The states after each time step with constant inputs and without noise, in double precision.

    How far they come from where they were is the drift of what a network holds.

    **Arguments:**

    - `ensemble`, `inputs`, `dynamics`: as for `find_fixed_points`.
    - `states`: where to begin, the same number for each member.
    - `n_steps`: how many time steps.

    **Raises:** `ValueError` if states or inputs are not finite or not those of the members, or `n_steps` is
    not a positive whole number.
    """
    check_positive_int("n_steps", n_steps)
    with jax.enable_x64(True):
        given = in_double_precision(dynamics, ensemble, "states", states, inputs)
        return np.asarray(_followed(dynamics, *given, n_steps))


@eqx.filter_jit
def _followed(
    dynamics: Dynamics, ensemble: Any, states: Array, inputs: Array | None, n_steps: int
) -> Float[Array, "member point time state"]:
    def of_member(model, own, received):
        def forward(state, _):
            following = jax.vmap(lambda one: one_step(dynamics, model, one, received))(state)
            return following, following

        return jnp.swapaxes(jax.lax.scan(forward, own, length=n_steps)[1], 0, 1)

    return map_members(of_member, ensemble, states, inputs)


def reached_points(
    points: FixedPoints, states: Float[AnyArray, "member point state"], within: float
) -> Int[np.ndarray, "member point"]:
    """At which point, a row of the table, states are that were followed for long; -1 for none.

    **Arguments:**

    - `points`: those of the same members, such as the stable ones.
    - `states`: the last ones.
    - `within`: how far a state may be from its point, in the unit of the states.

    **Raises:** `ValueError` if the members are not as many, or `within` is not positive.
    """
    check_positive("within", within)
    last = np.asarray(states, np.float64)
    if last.ndim != 3 or last.shape[0] != points.n_members:
        raise ValueError(
            f"`states` must have axes (member, point, state) of {points.n_members} members, "
            f"got shape {last.shape}."
        )
    reached = np.full(last.shape[:2], -1)
    for member, own in enumerate(last):
        rows = np.flatnonzero(points.member == member)
        if rows.size:
            distance = np.linalg.norm(own[:, None] - points.state[rows], axis=-1)
            is_there = distance.min(axis=1) <= within
            reached[member] = np.where(is_there, rows[distance.argmin(axis=1)], -1)
    return reached
