"""A train state as arrays by name: how it lies in a checkpoint."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from popsim.store import leaf_names
from popsim.training.train_state import TrainState

MODEL = "model"
NAMES = {
    "params": MODEL,  # together they are the model: its leaves have the names that they have in it
    "model_without_params": MODEL,
    "opt_state": "opt_state",
    "loss_fn_state": "loss_fn_state",
    "step": "step",
    "root_rng": "root_rng",
}


def named_arrays(name: str, tree: Any) -> dict[str, Any]:
    """The arrays of a PyTree by `name` and their path in it, such as "model.network.readout.weight"."""
    named = {name: tree}
    leaves = jax.tree.leaves(named)
    return {own_name: leaves[index] for own_name, index in leaf_names(named).items()}


def with_named_arrays(name: str, tree: Any, arrays: Mapping[str, Any]) -> Any:
    """The PyTree with the arrays that `named_arrays` would find in it replaced by those given."""
    named = {name: tree}
    leaves, structure = jax.tree.flatten(named)
    for own_name, index in leaf_names(named).items():
        leaves[index] = jnp.asarray(arrays[own_name])
    return jax.tree.unflatten(structure, leaves)[name]


def named_state(state: TrainState) -> dict[str, Array]:
    """All arrays of a train state by name."""
    arrays = {}
    for part, name in NAMES.items():
        arrays |= named_arrays(name, getattr(state, part))
    return arrays


def with_named_state(state: TrainState, arrays: Mapping[str, Any]) -> TrainState:
    """The state with all its arrays replaced; what is no array stays."""
    parts = {part: with_named_arrays(name, getattr(state, part), arrays) for part, name in NAMES.items()}
    return dataclasses.replace(state, **parts)
