"""The inputs of networks, by name."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from popsim._compiled import jit
from popsim.analysis._arrays import AnyArray, finite_float64
from popsim.ensemble import member, n_members
from popsim.model import AbstractModel
from popsim.network_input import network_input, sizes_text
from popsim.networks import AbstractNetwork
from popsim.trial import Trial

__all__ = ["received_inputs"]

Inputs = Mapping[str, Float[AnyArray, "..."]] | Float[AnyArray, "*member inputs"]
"""Constant inputs by name, each one vector for all members or one per member. A single vector without a name
is for networks of one number, and for other `dynamics`."""
Constants = dict[str, Float[Array, "member _"]] | Float[Array, "member inputs"]


def received_inputs(
    ensemble: AbstractModel, states: PyTree, trials: Trial
) -> dict[str, Float[np.ndarray, "member trial time _"]]:
    """Return the inputs of each member's network at each time step by name: of the trial, and the senses.

    Numbers are those that the network received, scaled. With those of one time step as `inputs`,
    `find_fixed_points` takes the network with constant inputs, without the body. Zeros correspond to every
    scaled input at its center.

    **Arguments:**

    - `ensemble`: stacked `SensorimotorLoop` or `NetworkModel`.
    - `states`: states of an evaluation in these trials, `run.evaluate(ensemble, trials=trials).states`.
    - `trials`: the same for all members.

    **Returns:** the inputs by name, in the order of `popsim.senses.network_input_names`.
    """
    leading_axes, count = {len(leaf) for leaf in jax.tree.leaves(states)}, n_members(ensemble)
    if leading_axes != {count}:
        raise ValueError(f"`states` must be of {count} members, got leading axes of {sorted(leading_axes)}.")
    sizes = member(ensemble, 0).input_sizes(trials)
    ensemble.trained_inputs.check(sizes)
    received = np.asarray(_inputs_of_members(ensemble, states, trials), np.float64)
    ends = np.cumsum(list(sizes.values()))[:-1]
    return dict(zip(sizes, np.split(received, ends, axis=-1), strict=True))


@jit
def _inputs_of_members(
    ensemble: Any, states: PyTree[Array], trials: Trial
) -> Float[Array, "member trial time inputs"]:
    def of_member(model, states_of_member):
        return jax.vmap(model.network_inputs)(states_of_member, trials)

    return eqx.filter_vmap(of_member)(ensemble, states)


def composed_inputs(model: eqx.Module, inputs: Mapping[str, Array] | Array) -> Float[Array, " inputs"]:
    """Return the input vector of a network, in the order in which its model composes it."""
    if not isinstance(inputs, Mapping):
        if inputs.shape == (1,):
            return inputs
        raise ValueError(
            "`inputs` must be by name, such as {'target': vector}, because models compose them in an order "
            "of their own (popsim.senses.network_input_names lists the names), "
            f"got an array of shape {inputs.shape}."
        )
    if isinstance(model, AbstractNetwork) and len(inputs) != 1:
        raise ValueError(
            "`inputs` of a network by itself, which knows of no order, must have one name: for several, such "
            f"as {', '.join(map(repr, inputs))}, give the model that composes them, a NetworkModel or a "
            "SensorimotorLoop."
        )
    channels = getattr(model, "channels", {})
    if not inputs or not all(name in inputs for name in channels):
        raise ValueError(
            f"`inputs` must have the inputs of the trial and the senses {list(channels)} by name, "
            f"got {list(inputs)}."
        )
    if isinstance(model, AbstractModel):
        model.trained_inputs.check({name: vector.size for name, vector in inputs.items()})
    feedback = {name: inputs[name] for name in channels}
    return network_input({name: inputs[name] for name in inputs if name not in channels}, feedback, {})


def forms_text(inputs: Mapping[str, Array] | Array | None) -> str:
    if not isinstance(inputs, Mapping):
        return f"shape {getattr(inputs, 'shape', ())}"
    return sizes_text({name: vector.size for name, vector in inputs.items()})


def vectors_of_members(name: str, vectors: AnyArray, n_members: int) -> Float[Array, "member inputs"]:
    """Return an input vector of each member, from one for all or one per member."""
    values = finite_float64(name, vectors)
    if values.ndim not in (1, 2) or (values.ndim == 2 and values.shape[0] != n_members):
        raise ValueError(
            f"`{name}` must be one vector, or one for each of {n_members} members, got shape {values.shape}."
        )
    return jnp.asarray(np.broadcast_to(values, (n_members, values.shape[-1])))
