"""The state of a training as its population updates see it, and what they set in it."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from popsim.per_member import aligned_mask
from popsim.training.population_updates._return_checks import Named, changed_leaves, where_active
from popsim.training.population_updates.base import Population
from popsim.training.population_updates.hyperparameters import HyperparameterLeaf, values_at, with_values_at
from popsim.training.population_updates.shared_population import SharedPopulation
from popsim.training.steps.member_step import NOT_FROZEN
from popsim.training.steps.train_state import TrainState


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
        params, constants = eqx.partition(model, state.is_param)
        return dataclasses.replace(state, params=params, model_without_params=constants), is_finite

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


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray | jax.Array)


def with_stop_batches(
    state: TrainState,
    restarted: Bool[np.ndarray, "*member"],
    stopped_before: Int[Array, "*member"],
    from_batch: int,
) -> TrainState:
    """Return the state in which replaced members that are stopped say from which batch they did not train."""
    carry = state.loss_fn_state
    if carry.stopped_from is None:
        return state
    # The inherited date is that of the parent, which may lie before batches that this member did train.
    since = jnp.where(stopped_before == NOT_FROZEN, from_batch, stopped_before)
    is_stopped = jnp.asarray(restarted) & (carry.stopped_from != NOT_FROZEN)
    carry = dataclasses.replace(carry, stopped_from=jnp.where(is_stopped, since, carry.stopped_from))
    return dataclasses.replace(state, loss_fn_state=carry)
