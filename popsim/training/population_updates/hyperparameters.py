"""The hyperparameters of a training by name, and what one member can inherit of another."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PyTree

from popsim._shared.text_checks import suggestion
from popsim.per_member import PerMember, is_per_member, per_member_nodes
from popsim.training.steps.optimizers import injected_hyperparameters
from popsim.training.steps.train_state import TrainState

__all__ = [
    "HyperparameterLeaf",
    "hyperparameter_places",
    "inherited_parts",
    "values_at",
    "with_inherited",
    "with_present_values",
    "with_values_at",
]


@dataclasses.dataclass(frozen=True)
class HyperparameterLeaf:
    """The place of a hyperparameter: a part of the train state, and the number of its leaf there."""

    part: str
    index: int


def hyperparameter_places(
    names: Sequence[str] | None, state: TrainState, step: Any, one_member: PyTree, *, owner: str
) -> tuple[dict[str, HyperparameterLeaf], dict[str, HyperparameterLeaf]]:
    """Return the places of the hyperparameters that a population update sets, and of others of the
    optimizer that differ between members."""
    injected, of_members = injected_hyperparameters(state.optimizer_def, state.opt_state, one_member)
    by_name = {name: HyperparameterLeaf("opt_state", index) for name, index in injected.items()}
    chosen = [name for name in by_name if name in of_members]
    leaves = jax.tree.leaves(state.hyperparameters)
    for index, path in enumerate(per_member_nodes(step) if leaves else ()):
        name = re.sub(r"\[['\"]?(.*?)['\"]?\]", r".\1", path).strip(".")
        if np.issubdtype(leaves[index].dtype, np.floating):
            by_name[name] = HyperparameterLeaf("hyperparameters", index)
            chosen.append(name)
    place_names = chosen if names is None else list(names)
    for name in place_names:
        if name not in by_name:
            raise ValueError(
                f"`hyperparameters` of {owner} must be of "
                f"{', '.join(sorted(by_name)) or 'those of the training'}, got {name!r}."
                f"{suggestion(name, by_name)}"
            )
    member_places = {name: by_name[name] for name in of_members if name not in place_names}
    return {name: by_name[name] for name in place_names}, member_places


def values_at(state: TrainState, places: Mapping[str, HyperparameterLeaf]) -> dict[str, Array]:
    """Return the hyperparameters of all members, by name."""
    return {name: jax.tree.leaves(getattr(state, at.part))[at.index] for name, at in places.items()}


def with_values_at(
    state: TrainState, places: Mapping[str, HyperparameterLeaf], values: Mapping[str, Any]
) -> TrainState:
    """Return the state with other hyperparameters."""
    for part in {at.part for at in places.values()}:
        leaves, structure = jax.tree.flatten(getattr(state, part))
        for name, at in places.items():
            if at.part == part:
                leaves[at.index] = values[name]
        state = dataclasses.replace(state, **{part: jax.tree.unflatten(structure, leaves)})
    return state


def inherited_parts(
    state: TrainState, recorded: PyTree[bool], places: Mapping[str, HyperparameterLeaf]
) -> PyTree:
    """Return what a selection moves between members: what changes in training, and their hyperparameters.

    Parameters, leaves that model updates change, and the states of optimizer and loss are inherited. Other
    settings stay with their member.
    """
    changing = eqx.filter(state.model_without_params, recorded)
    parts = (state.params, changing, state.opt_state, state.loss_fn_state)
    return {"state": eqx.filter(parts, eqx.is_array), "hyperparameters": values_at(state, places)}


def with_inherited(
    state: TrainState,
    recorded: PyTree[bool],
    places: Mapping[str, HyperparameterLeaf],
    member_places: Mapping[str, HyperparameterLeaf],
    inherited: PyTree,
) -> TrainState:
    """Return the state with other `inherited_parts`."""
    own_values = values_at(state, member_places)
    changing, constant = eqx.partition(state.model_without_params, recorded)
    parts = (state.params, changing, state.opt_state, state.loss_fn_state)
    params, changing, opt_state, carry = eqx.combine(inherited["state"], parts)
    state = dataclasses.replace(
        state,
        params=params,
        model_without_params=eqx.combine(changing, constant),
        opt_state=opt_state,
        loss_fn_state=carry,
    )
    return with_values_at(state, {**places, **member_places}, {**inherited["hyperparameters"], **own_values})


def with_present_values(tree: Any, hyperparameters: PyTree, step: Any) -> Any:
    """Return a part of a step with its `PerMember` at present."""
    if hyperparameters is None:
        return tree
    # By identity: `tree` is a part of `step`, and holds the same `PerMember` objects.
    now = dict(zip(map(id, per_member_nodes(step).values()), jax.tree.leaves(hyperparameters), strict=True))
    return jax.tree.map(
        lambda node: PerMember(now[id(node)]) if is_per_member(node) else node, tree, is_leaf=is_per_member
    )
