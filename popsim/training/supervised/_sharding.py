"""Shardings of a train step: where its arrays are on the devices."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec, Sharding
from jaxtyping import PyTree

from popsim._checks import is_traced
from popsim.training.steps.train_state import OWN, SHARED, TrainState

Tree = TypeVar("Tree", bound=PyTree)


class StepShardings(eqx.Module):
    """The shardings of the arguments and results of a train step.

    Each is a PyTree of JAX shardings, or a prefix of one: a sharding stands for all arrays below it, None
    leaves them to JAX.
    """

    parts: dict[str, PyTree]
    inputs: dict[str, PyTree]
    outputs: PyTree

    def __init__(self, train_state: PyTree, inputs: PyTree, outputs: PyTree):
        is_whole = not isinstance(train_state, TrainState)
        self.parts = {part: train_state if is_whole else getattr(train_state, part) for part in OWN}
        self.inputs = dict(inputs or {})
        self.outputs = outputs
        self.parts |= dict.fromkeys(SHARED, _replicated_sharding(self.parts))

    def place_state(self, state: TrainState) -> TrainState:
        """Return the state moved to its devices; arrays already there are not copied."""
        return self._map_state(_place, state)

    def place_inputs(self, inputs: dict[str, PyTree]) -> dict[str, PyTree]:
        """Return the inputs moved to their devices; arrays already there are not copied."""
        if not set(self.inputs) <= set(inputs):
            raise ValueError(
                f"`input_kwarg_shardings` must be for inputs of the step, {sorted(inputs)}, "
                f"got {sorted(self.inputs)}."
            )
        return {
            name: _map_sharded(_place, f"input_kwarg_shardings[{name!r}]", self.inputs.get(name), value)
            for name, value in inputs.items()
        }

    def constrain(self, state: TrainState, outputs: PyTree) -> tuple[TrainState, PyTree]:
        """Return the results of a step with sharding constraints, to be called in the compiled step."""
        state = self._map_state(_constrain, state)
        return state, _map_sharded(_constrain, "aux_output_shardings", self.outputs, outputs)

    def _map_state(self, function: Callable[[Any, Sharding], Any], state: TrainState) -> TrainState:
        parts = {
            part: _map_sharded(function, f"train_state_shardings.{part}", shardings, getattr(state, part))
            for part, shardings in self.parts.items()
        }
        return dataclasses.replace(state, **parts)


class ShardedStep(eqx.Module):
    """A train step whose results have given shardings."""

    step: Callable[..., tuple[TrainState, PyTree]]
    shardings: StepShardings

    def __call__(self, train_state: TrainState, **inputs: PyTree) -> tuple[TrainState, PyTree]:
        return self.shardings.constrain(*self.step(train_state, **inputs))


def _replicated_sharding(shardings: PyTree) -> Sharding | None:
    """Return the sharding that copies to each device of the mesh of the shardings, if there is one."""
    meshes = [sharding.mesh for sharding in jax.tree.leaves(shardings) if isinstance(sharding, NamedSharding)]
    return NamedSharding(meshes[0], PartitionSpec()) if meshes else None


def _map_sharded(function: Callable[[Any, Sharding], Any], name: str, shardings: PyTree, tree: Tree) -> Tree:
    """Apply `function(array, sharding)` to the arrays of `tree` that have a sharding."""
    if shardings is None:
        return tree
    leaves, structure = jax.tree.flatten(tree)
    of_leaves = _shardings_of_leaves(name, *_hashable(shardings), structure)
    mapped = [
        leaf if sharding is None or not eqx.is_array(leaf) else function(leaf, sharding)
        for leaf, sharding in zip(leaves, of_leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, mapped)


def _hashable(shardings: PyTree) -> tuple[tuple[Sharding, ...], Any]:
    leaves, structure = jax.tree.flatten(shardings)
    return tuple(leaves), structure


@functools.lru_cache
def _shardings_of_leaves(
    name: str, shardings: tuple[Sharding, ...], shardings_structure: Any, structure: Any
) -> tuple[Sharding | None, ...]:
    """Return the sharding of each leaf of a PyTree structure, from a prefix of shardings."""
    prefix = jax.tree.unflatten(shardings_structure, shardings)
    numbered = jax.tree.unflatten(structure, range(structure.num_leaves))
    try:
        jax.tree.broadcast(prefix, numbered, is_leaf=_is_none)
    except ValueError as error:
        raise ValueError(
            f"`{name}` must have the structure of what it is for, or a prefix of it, got: {error}"
        ) from error
    by_number: dict[int, Sharding | None] = {}
    jax.tree.map(
        lambda sharding, numbers: by_number.update(dict.fromkeys(jax.tree.leaves(numbers), sharding)),
        prefix,
        numbered,
        is_leaf=_is_none,
    )
    return tuple(by_number[number] for number in range(structure.num_leaves))


def _place(leaf: Any, sharding: Sharding) -> jax.Array:
    if is_traced(leaf):
        return _constrain(leaf, sharding)
    if isinstance(leaf, jax.Array) and _lies(leaf, sharding):
        return leaf
    return jax.device_put(leaf, sharding)


def _lies(leaf: jax.Array, sharding: Sharding) -> bool:
    """Return whether the array has the sharding. JAX compiles again for another mesh of the same devices."""
    leaf_sharding = leaf.sharding
    same_mesh = getattr(leaf_sharding, "mesh", None) == getattr(sharding, "mesh", None)
    return leaf_sharding == sharding or (same_mesh and leaf_sharding.is_equivalent_to(sharding, leaf.ndim))


def _constrain(leaf: Any, sharding: Sharding) -> jax.Array:
    explicit = isinstance(sharding, NamedSharding) and AxisType.Explicit in sharding.mesh.axis_types
    return (jax.sharding.reshard if explicit else jax.lax.with_sharding_constraint)(leaf, sharding)


def _is_none(node: Any) -> bool:
    return node is None
