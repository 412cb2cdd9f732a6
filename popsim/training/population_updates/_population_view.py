"""The state of a training as its population updates see it, and what they set in it."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from popsim._shared.checks import check_castable
from popsim.per_member import aligned_mask
from popsim.store.files import is_plain_name
from popsim.training.population_updates.base import Population
from popsim.training.population_updates.hyperparameters import HyperparameterLeaf, values_at, with_values_at
from popsim.training.population_updates.shared_population import SharedPopulation
from popsim.training.steps.member_step import NOT_FROZEN
from popsim.training.steps.train_state import TrainState

Named = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class PopulationView:
    """The state of a training as its population updates see it: arrays that lead with the member."""

    places: Mapping[str, tuple[Mapping[str, HyperparameterLeaf], Mapping[str, HyperparameterLeaf]]]
    count: int | None
    shared: SharedPopulation | None

    def population(self, label: str, state: TrainState) -> Population:
        """Return the population as an update sees it."""
        carry = state.loss_fn_state
        values = {name: np.array(value) for name, value in values_at(state, self.places[label][0]).items()}
        shared, n_members = self.shared, self.count or 1
        return Population(
            model=self.add_member_axis(state.model),
            hyperparameters=self.add_member_axis(values),
            frozen=np.atleast_1d(np.asarray(carry.frozen_from != NOT_FROZEN)),
            stopped=np.atleast_1d(np.asarray(carry.stops != NOT_FROZEN)),
            restarted=np.zeros(n_members, bool),
            places=np.arange(n_members) if shared is None else np.asarray(shared.own_places),
            size=n_members if shared is None else sum(places.size for places in shared.places),
        )

    def kept_hyperparameters(self, label: str) -> dict[str, HyperparameterLeaf]:
        """Return where the hyperparameters are that a member keeps when an update replaces it.

        They are those of the optimizer that differ between members, and those that other updates set.
        """
        by_others = [places for other, (places, _) in self.places.items() if other != label]
        return {
            name: place for places in (self.places[label][1], *by_others) for name, place in places.items()
        }

    def add_member_axis(self, tree: PyTree) -> PyTree:
        """Return arrays with a leading member axis, also of a single model."""
        if self.count is not None:
            return tree
        return jax.tree.map(lambda leaf: leaf[None] if _is_array(leaf) else leaf, tree)

    def drop_member_axis(self, tree: PyTree) -> PyTree:
        """Invert `add_member_axis`."""
        if self.count is not None:
            return tree
        return jax.tree.map(lambda leaf: leaf[0] if _is_array(leaf) else leaf, tree)

    def update_states(self, state: TrainState) -> dict[str, Named]:
        """Return what the updates keep, copied, as arrays with a member axis."""
        return self.add_member_axis(jax.tree.map(np.array, dict(state.population_update_states)))

    def with_states(self, state: TrainState, update_states: Mapping[str, Named]) -> TrainState:
        """Return the state with what the updates keep."""
        states = jax.tree.map(jnp.asarray, self.drop_member_axis(dict(update_states)))
        return dataclasses.replace(state, population_update_states=states)

    def with_values(self, state: TrainState, label: str, values: Mapping[str, Any]) -> TrainState:
        """Return the state with the hyperparameters that an update sets."""
        values = {name: jnp.asarray(value) for name, value in self.drop_member_axis(dict(values)).items()}
        return with_values_at(state, self.places[label][0], values)

    def with_changes(
        self,
        state: TrainState,
        label: str,
        before: Population,
        after: Population,
        recorded: PyTree[bool],
        active: Bool[np.ndarray, " member"],
    ) -> tuple[TrainState, Bool[np.ndarray, " member"]]:
        """Return the state with the weights and hyperparameters that an update changed, of active members.

        Members for which a change is not finite keep what they had.
        """
        changed = changed_leaves(label, before.model, after.model, recorded)
        is_finite = np.ones(active.size, bool)
        for new in (*changed.values(), *after.hyperparameters.values()):
            # Checked here, on the host: the compiled step sees only what the next batch makes of it, and
            # would freeze the member with the bad values inside.
            is_finite &= np.isfinite(np.asarray(new, float)).reshape(active.size, -1).all(axis=1)
        active = active & is_finite
        values = where_active(active, dict(after.hyperparameters), before.hyperparameters)
        state = self.with_values(state, label, values)
        if not changed:
            return state, is_finite
        leaves, structure = jax.tree.flatten(before.model)
        for index, new in changed.items():
            leaves[index] = jnp.where(aligned_mask(active, new), new, leaves[index])
        model = self.drop_member_axis(jax.tree.unflatten(structure, leaves))
        return state.with_model(model), is_finite

    def mark_inactive(
        self,
        state: TrainState,
        *,
        stops: Bool[np.ndarray, " member"],
        freezes: Bool[np.ndarray, " member"],
        from_batch: int,
    ) -> TrainState:
        """Return the state with members stopped or frozen from a batch on."""
        carry, changes = state.loss_fn_state, {}
        for name, ends in (("stopped_from", stops), ("frozen_from", freezes)):
            if ends.any():
                mask = jnp.asarray(self.drop_member_axis(ends))
                changes[name] = jnp.where(mask, from_batch, getattr(carry, name))
        return dataclasses.replace(state, loss_fn_state=dataclasses.replace(carry, **changes))

    def with_stop_batches(
        self,
        state: TrainState,
        restarted: Bool[np.ndarray, " member"],
        stopped_before: Int[Array, "*member"],
        from_batch: int,
    ) -> TrainState:
        """Return the state in which replaced members that are stopped say since when they do not train."""
        carry = state.loss_fn_state
        if carry.stopped_from is None:
            return state
        # The inherited date is that of the parent, which may lie before batches that this member did train.
        since = jnp.where(stopped_before == NOT_FROZEN, from_batch, stopped_before)
        is_stopped = self.drop_member_axis(restarted) & (carry.stopped_from != NOT_FROZEN)
        carry = dataclasses.replace(carry, stopped_from=jnp.where(is_stopped, since, carry.stopped_from))
        return dataclasses.replace(state, loss_fn_state=carry)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray | jax.Array)


def check_named(subject: str, arrays: Any, n_members: int) -> Named:
    """Return arrays by name, in the dtypes of JAX."""
    checked = {name: np.asarray(jnp.asarray(array)) for name, array in arrays.items()}
    for name, array in checked.items():
        if not isinstance(name, str) or not is_plain_name(name):  # they name arrays on disk
            raise ValueError(f"{subject} must have plain names without '/', got {name!r}.")
        if array.shape[:1] != (n_members,):
            raise ValueError(
                f"{subject} must lead with the {n_members} members, got shape {array.shape} for {name!r}."
            )
    return checked


def changed_leaves(label: str, before: Any, after: Any, recorded: PyTree[bool]) -> dict[int, Array]:
    """Return the leaves of a model that an update changed, by their number, in the dtypes of those before."""
    if after is before:
        return {}
    old, structure = jax.tree.flatten_with_path(before)
    new, structure_after = jax.tree.flatten(after)
    if structure_after != structure:
        raise ValueError(f"{label} must return a model of the structure given, got {structure_after}.")
    may_change = jax.tree.leaves(
        jax.tree.map(
            lambda leaf, changes: None if leaf is None else bool(changes), before, recorded, is_leaf=_is_none
        )
    )
    changed = {}
    for index, (path, leaf) in enumerate(old):
        if new[index] is leaf:
            continue
        where = f"`model{jax.tree_util.keystr(path)}`"
        if not may_change[index]:
            raise ValueError(
                f"{label} must change leaves of the model that are trained, or that model updates change: "
                f"{where} is constant in this training."
            )
        if np.shape(new[index]) != leaf.shape:
            raise ValueError(
                f"{where} of {label} must keep its shape {leaf.shape}, got {np.shape(new[index])}."
            )
        check_castable(f"{where} of {label}", jnp.result_type(new[index]), leaf.dtype)
        changed[index] = jnp.asarray(new[index]).astype(leaf.dtype)
    return changed


def _is_none(node: Any) -> bool:
    return node is None


def cast_like(subject: str, before: Mapping[str, np.ndarray], now: Mapping[str, Any]) -> Named:
    """Return arrays in the dtypes of those before, whose names and shapes they must have."""
    expected, shapes = ({name: np.shape(of[name]) for name in of} for of in (before, now))
    if shapes != expected:
        raise ValueError(f"{subject} must keep names and shapes, {expected}, got {shapes}.")
    for name, array in before.items():
        check_castable(f"{name!r} in {subject}", np.asarray(now[name]).dtype, array.dtype)
    return {name: np.asarray(now[name]).astype(array.dtype) for name, array in before.items()}


def where_active(active: Bool[np.ndarray, " member"], now: Named, before: Mapping[str, np.ndarray]) -> Named:
    """Return what is now of active members, and what was before of others."""
    return {name: np.where(aligned_mask(active, array), array, before[name]) for name, array in now.items()}
