"""What a small change of the state, or of the inputs, becomes a time step later."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from popsim.analysis.arrays import AnyArray
from popsim.analysis.dynamics.maps import (
    Dynamics,
    in_double_precision,
    map_members,
    network_dynamics,
    one_step,
)


def state_jacobians(
    ensemble: eqx.Module,
    states: Float[AnyArray, "member point state"],
    *,
    inputs: Float[AnyArray, "*member inputs"] | None = None,
    dynamics: Dynamics = network_dynamics,
) -> Float[np.ndarray, "member point state state"]:
    """The Jacobian A of one time step by the state: dh(t + 1) = A dh(t); A[i, j] = d step_i / d h_j.

    **Arguments:**

    - `ensemble`, `inputs`, `dynamics`: as for `find_fixed_points`.
    - `states`: where to differentiate, the same number for each member.

    **Raises:** `ValueError` if states or inputs are not finite, or not those of the members.
    """
    return _differentiated(0, ensemble, states, inputs, dynamics)


def input_jacobians(
    ensemble: eqx.Module,
    states: Float[AnyArray, "member point state"],
    inputs: Float[AnyArray, "*member inputs"],
    *,
    dynamics: Dynamics = network_dynamics,
) -> Float[np.ndarray, "member point state inputs"]:
    """The Jacobian B of one time step by the inputs: dh(t + 1) = A dh(t) + B du(t).

    **Arguments:**

    - `ensemble`, `dynamics`: as for `find_fixed_points`.
    - `states`: where to differentiate, the same number for each member.
    - `inputs`: around which, one vector, or one for each member.

    **Raises:** `ValueError` if states or inputs are not finite, or not those of the members.
    """
    return _differentiated(1, ensemble, states, inputs, dynamics)


def _differentiated(
    by: int, ensemble: eqx.Module, states: AnyArray, inputs: AnyArray | None, dynamics: Dynamics
) -> np.ndarray:
    with jax.enable_x64(True):
        given = in_double_precision(dynamics, ensemble, "states", states, inputs)
        return np.asarray(_jacobians(by, dynamics, *given))


@eqx.filter_jit
def _jacobians(by: int, dynamics: Dynamics, ensemble: Any, states: Array, inputs: Array | None) -> Array:
    def of_member(model, own, received):
        def differentiate(state):
            return jax.jacfwd(lambda *x: one_step(dynamics, model, *x), argnums=by)(state, received)

        return jax.vmap(differentiate)(own)

    return map_members(of_member, ensemble, states, inputs)
