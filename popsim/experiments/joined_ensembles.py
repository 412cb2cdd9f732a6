"""Models with different settings, joined into one ensemble."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from popsim.noise import AbstractNoise, NoNoise
from popsim.senses import SensoryChannel

__all__ = ["join_ensembles"]

PARTS = (AbstractNoise, SensoryChannel)
"""What is made alike where it differs between models."""


def join_ensembles(ensembles: Sequence[Any], labels: Sequence[str]) -> Any:
    """Join ensembles of models that differ in settings along the member axis; `labels` say them in errors.

    What numbers alone cannot express is made equal: channels of different delays get buffers for the longest,
    and where some have no noise, that is noise of zero standard deviation.
    """
    if len(ensembles) == 1:
        return ensembles[0]
    first, *further = _with_common_parts(ensembles)
    leaves, structure = jax.tree.flatten(first)
    columns = [leaves]
    for ensemble, label in zip(further, labels[1:], strict=True):
        ensemble_leaves, ensemble_structure = jax.tree.flatten(ensemble)
        if ensemble_structure != structure or any(map(_are_incompatible, leaves, ensemble_leaves)):
            raise ValueError(
                f"the settings of members of one ensemble must change nothing but numbers in arrays, got "
                f"models of another structure for {labels[0]} and {label}: leave the setting out of "
                "`member_settings`, and a sweep trains them in separate cells."
            )
        if (sizes := ensemble.trained_inputs.sizes) is not None:
            first.trained_inputs.check(sizes)
        columns.append(ensemble_leaves)
    joined = [
        jnp.concatenate(column) if eqx.is_array(column[0]) else column[0]
        for column in zip(*columns, strict=True)
    ]
    return jax.tree.unflatten(structure, joined)


def _are_incompatible(first: Any, second: Any) -> bool:
    if eqx.is_array(first) and eqx.is_array(second):
        return first.shape[1:] != second.shape[1:] or first.dtype != second.dtype
    return type(first) is not type(second) or bool(first != second)


def _with_common_parts(ensembles: Sequence[Any]) -> Sequence[Any]:
    """Return the ensembles with delays and noises of the same kind."""
    parts = functools.partial(jax.tree.flatten, is_leaf=lambda node: isinstance(node, PARTS))
    columns, structures = zip(*map(parts, ensembles), strict=True)
    if any(structure != structures[0] for structure in structures):
        return ensembles
    arrays = [filter(eqx.is_array, jax.tree.leaves(ensemble)) for ensemble in ensembles]
    counts = [next(array).shape[0] for array in arrays]
    rows = [_common(nodes, counts) for nodes in zip(*columns, strict=True)]
    # Each by its own structure, which also holds the inputs with which it was trained.
    return [*map(jax.tree.unflatten, structures, zip(*rows, strict=True))]


def _common(nodes: Sequence[Any], counts: Sequence[int]) -> Sequence[Any]:
    """Return the nodes at one place of all ensembles, made alike where they are noises or channels."""
    if all(isinstance(node, AbstractNoise) for node in nodes):
        template = next((noise for noise in nodes if not isinstance(noise, NoNoise)), NoNoise())

        def silent(n_members: int) -> Any:
            return jax.tree.map(lambda leaf: jnp.zeros((n_members, *leaf.shape[1:]), leaf.dtype), template)

        pairs = zip(nodes, counts, strict=True)
        return [silent(n) if isinstance(node, NoNoise) else node for node, n in pairs]
    if not all(isinstance(node, SensoryChannel) for node in nodes):
        return nodes
    noises = _common([node.noise for node in nodes], counts)
    nodes = [dataclasses.replace(node, noise=noise) for node, noise in zip(nodes, noises, strict=True)]
    longest = max(node.delay for node in nodes)
    if all(node.delay == longest and node.own_delay is None for node in nodes):
        return nodes
    return [_extend_delay(node, longest, n) for node, n in zip(nodes, counts, strict=True)]


def _extend_delay(channel: SensoryChannel, longest: float, n_members: int) -> SensoryChannel:
    delays = jnp.full(n_members, channel.delay) if channel.own_delay is None else channel.own_delay
    extend = eqx.filter_vmap(lambda noise, delay: SensoryChannel(channel.sense, longest, noise, delay))
    return extend(channel.noise, delays)
