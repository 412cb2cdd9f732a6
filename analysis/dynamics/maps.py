"""The dynamics that are analysed: maps from a state to the next one."""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.ensemble import n_members
from popsim.networks import AbstractNetwork
from popsim.noise import without_noise

Dynamics = Callable[..., Array]
"""One time step of one model: `dynamics(model, state)`, or `dynamics(model, state, inputs)`, is the next
state; all are vectors."""

Tree = TypeVar("Tree")


def network_dynamics(
    model: eqx.Module, hidden: Float[Array, " hidden"], inputs: Float[Array, " inputs"] | None = None
) -> Float[Array, " hidden"]:
    """One time step of the units of a network, without noise.

    **Arguments:**

    - `model`: a network of popsim, or a model that has one as `model.network`, such as a `NetworkModel` or a
        `SensorimotorLoop`: the body is left out then.
    - `hidden`: the units before the step.
    - `inputs`: what the network receives; by default zeros.

    **Raises:** `ValueError` if `model` has no network, or the units or inputs are not those of it.
    """
    network = model if isinstance(model, AbstractNetwork) else getattr(model, "network", None)
    if not isinstance(network, AbstractNetwork):
        raise ValueError(
            "`ensemble` must be networks or models with one, for others say their `dynamics`; "
            f"got {type(model).__name__}."
        )
    if hidden.shape != (units := jax.eval_shape(network.init, key=jax.random.key(0)).shape):
        raise ValueError(f"`hidden` must be {units[0]} units, got shape {hidden.shape}.")
    received = jnp.zeros(network.n_inputs, hidden.dtype) if inputs is None else inputs
    if received.shape != (network.n_inputs,):
        raise ValueError(f"`inputs` must be {network.n_inputs} numbers, got shape {received.shape}.")
    return without_noise(network).step(received, hidden, key=jax.random.key(0))


def one_step(dynamics: Dynamics, model: Any, state: Array, inputs: Array | None) -> Array:
    """The next state; `dynamics` is given inputs only if there are some."""
    return dynamics(model, state) if inputs is None else dynamics(model, state, inputs)


def in_double_precision(
    dynamics: Dynamics, ensemble: eqx.Module, name: str, states: AnyArray, inputs: AnyArray | None
) -> tuple[Any, Float[Array, "member point state"], Float[Array, "member inputs"] | None]:
    """The ensemble, its states and its inputs, checked and in double precision, where that is enabled.

    **Arguments:**

    - `dynamics`, `ensemble`, `inputs`: as for `find_fixed_points`.
    - `name`, `states`: what the argument with the states is called, and it.

    **Raises:** `ValueError` as `checked_states`, `checked_inputs` and `check_dynamics`.
    """
    checked, received = checked_states(name, states, ensemble), checked_inputs(inputs, ensemble)
    constant, double = None if received is None else jnp.asarray(received), in_float64(ensemble)
    check_dynamics(dynamics, double, checked, constant)
    return double, jnp.asarray(checked), constant


def check_dynamics(dynamics: Dynamics, ensemble: Any, states: np.ndarray, inputs: Any) -> None:
    """Raise `ValueError` unless the dynamics of a member make a state of the state that they are given."""
    stacked, shared = eqx.partition(ensemble, eqx.is_array)

    def of_first(arrays, received):
        model = eqx.combine(jax.tree.map(lambda leaf: leaf[0], arrays), shared)
        return one_step(dynamics, model, jnp.asarray(states[0, 0]), None if received is None else received[0])

    following = jax.eval_shape(of_first, stacked, inputs)
    if getattr(following, "shape", None) != states.shape[2:]:
        raise ValueError(
            f"`dynamics` must return a state of shape {states.shape[2:]}, like that given, got {following}."
        )


def in_float64(tree: Tree) -> Tree:
    """All real numbers of a PyTree in double precision; for use where that is enabled."""
    return jax.tree.map(
        lambda leaf: (
            jnp.asarray(np.asarray(leaf, np.float64))
            if eqx.is_array(leaf) and jnp.issubdtype(leaf.dtype, jnp.floating)
            else leaf
        ),
        tree,
    )


def map_members(function: Callable[..., Any], ensemble: Any, *arrays: Any) -> Any:
    """`function(model, *arrays)` for one member after the other, within a compiled program."""
    stacked, shared = eqx.partition(ensemble, eqx.is_array)
    return jax.lax.map(lambda own: function(eqx.combine(own[0], shared), *own[1:]), (stacked, *arrays))


def checked_states(
    name: str, states: Float[AnyArray, "member point state"], ensemble: eqx.Module
) -> Float[np.ndarray, "member point state"]:
    """States of all members, in float64.

    **Raises:** `ValueError` if they are none or not finite, or not those of as many members.
    """
    checked, count = finite_float64(name, states), n_members(ensemble)
    if checked.ndim != 3 or checked.shape[0] != count:
        raise ValueError(
            f"`{name}` must have axes (member, point, state) of {count} members, got shape {checked.shape}."
        )
    return checked


def checked_inputs(
    inputs: Float[AnyArray, "*member inputs"] | None, ensemble: eqx.Module
) -> Float[np.ndarray, "member inputs"] | None:
    """The constant inputs of each member, in float64.

    **Raises:** `ValueError` if they are none or not finite, or not those of as many members.
    """
    if inputs is None:
        return None
    checked, count = finite_float64("inputs", inputs), n_members(ensemble)
    if checked.ndim not in (1, 2) or (checked.ndim == 2 and checked.shape[0] != count):
        raise ValueError(
            f"`inputs` must be one vector, or one for each of {count} members, got shape {checked.shape}."
        )
    return np.broadcast_to(checked, (count, checked.shape[-1]))
