"""What the population updates of a training do to its state."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key, PyTree

from popsim.per_member import aligned_mask
from popsim.randomness import key_stream
from popsim.training.population_updates._returned import (
    Named,
    changed_leaves,
    checked_arrays,
    checked_like,
    checked_mask,
    where_active,
)
from popsim.training.population_updates.base import (
    HYPERPARAMETER,
    AbstractPopulationUpdate,
    Population,
    ValidationResults,
)
from popsim.training.population_updates.exchange import MemberExchange
from popsim.training.population_updates.hyperparameters import (
    Place,
    values_at,
    with_values_at,
)
from popsim.training.population_updates.labels import axis_of, prefix_of
from popsim.training.population_updates.shared_population import SharedPopulation
from popsim.training.steps.member_step import NOT_FROZEN, MemberCarry
from popsim.training.steps.train_state import TrainState

__all__ = ["PopulationUpdates", "with_no_stops"]

Records = dict[str, Named]
"""By axis, such as "selection", arrays by the names under which they are stored."""


@dataclasses.dataclass(frozen=True)
class PopulationUpdates:
    """The population updates of a training.

    - `updates`: the updates by label.
    - `places`: by label, the places of the hyperparameters that it sets, and of others of the optimizer that
        differ between members, see `hyperparameter_places`.
    - `log_batches`: the batches after which there is a regular log point.
    - `n_batches`, `start_batch`: those of the training.
    - `count`: the number of members; None for a single model.
    - `key`: the key of the training.
    - `shared`: the trainings over which the population is divided; None for one training.
    """

    updates: Mapping[str, AbstractPopulationUpdate]
    places: Mapping[str, tuple[Mapping[str, Place], Mapping[str, Place]]]
    log_batches: range
    n_batches: int
    start_batch: int
    count: int | None
    key: Key[Array, ""]
    shared: SharedPopulation | None

    def __post_init__(self):
        setters: dict[str, str] = {}
        for label, (places, _) in self.places.items():
            for name in places:
                if name in setters:
                    raise ValueError(
                        "`population_updates` must set each hyperparameter once, "
                        f"got {name!r} in {setters[name]} and {label}."
                    )
                setters[name] = label
        for label, update in self.updates.items():
            if update.every is not None and not self.batches(label):
                raise ValueError(
                    f"`every` of {label} must be {'below' if update.replaces else 'at most'} the "
                    f"{self.n_batches} batches, got {update.every}."
                )

    def batches(self, label: str) -> range:
        """Return the batches after which an update acts.

        What acts at log points does not act at that of the last batch, unless it is a regular one, and what
        replaces members never does: a longer training continues as if it had been longer from the start.
        """
        update = self.updates[label]
        if update.every is None:
            skipped = -(-(self.start_batch - self.log_batches.start) // self.log_batches.step)
            return self.log_batches[max(0, skipped) :]
        first = (self.start_batch // update.every + 1) * update.every
        return range(first - 1, self.n_batches - update.replaces, update.every)

    def due(self, batch: int, *, replaces: bool) -> dict[str, AbstractPopulationUpdate]:
        """Return the updates that act after a batch, of those that replace members or of the others."""
        return {
            label: update
            for label, update in self.updates.items()
            if update.replaces == replaces and batch in self.batches(label)
        }

    @property
    def may_stop(self) -> bool:
        """Whether one of the updates may stop members."""
        return any(update.may_stop for update in self.updates.values())

    @property
    def axes(self) -> list[str]:
        """The axes of the records, such as "selection"."""
        return sorted({axis_of(label, update) for label, update in self.updates.items()})

    def with_first_states(self, state: TrainState) -> TrainState:
        """Return the first state of a training with what the updates keep, and what they set before it."""
        update_states = {}
        for label in self.updates:
            before = self._population(label, state)
            after, update_states[label] = self._init(label, before)
            state = self._with_values(state, label, after.hyperparameters)
        return self._with_states(state, update_states)

    def apply(
        self, state: TrainState, results: ValidationResults, batch: int, *, recorded: PyTree[bool]
    ) -> tuple[TrainState, Records]:
        """Apply the updates that are due, except those that replace members.

        **Arguments:**

        - `state`: the state after a batch, on one device.
        - `results`: those of the validation trials.
        - `batch`: the number of the batch.
        - `recorded`: which leaves of the model change in training.

        **Returns:** the state and the records.
        """
        active = ~np.atleast_1d(np.asarray(state.loss_fn_state.is_held))
        anew_by = {label: np.zeros(active.size, bool) for label in self.updates}
        stops, freezes = np.zeros((2, active.size), bool)
        update_states, records = self._update_states(state), {}
        for label in self.due(batch, replaces=False):
            before = self._population(label, state)
            after, update_states[label], records[label] = self._call(
                label, before, results, update_states[label], batch, active
            )
            self._check_stops(label, before, after)
            state, is_finite = self._with_changes(state, label, before, after, recorded, active)
            freezes |= active & ~is_finite
            anew_by[label] = after.began_anew & active
            stops |= after.stopped & active
        state, update_states = self._reset(state, update_states, anew_by)
        state = self._with_states(state, update_states)
        anew = np.any([*anew_by.values()], axis=0)
        state = self._hold(state, stops=stops & ~anew, freezes=freezes, from_batch=batch + 1)
        return state, self._rows(state, records)

    def replace(
        self,
        state: TrainState,
        results: ValidationResults,
        batch: int,
        *,
        recorded: PyTree[bool],
        is_told_to_stop: Callable[[], bool],
    ) -> tuple[TrainState, Records]:
        """Apply the update that replaces members, if it is due.

        **Arguments:**

        - `state`, `results`, `batch`, `recorded`: see `apply`.
        - `is_told_to_stop`: whether to give up waiting for other trainings.

        **Returns:** the state and the records.

        **Raises:** `StoppedWaiting`; `ValueError` as `apply`; `CorruptDataError` if what another training
        wrote is damaged; `SaveError` if what this one offers cannot be written.
        """
        records: Records = {}
        for label in self.due(batch, replaces=True):
            before = self._population(label, state)
            exchange = MemberExchange(
                state=state,
                recorded=recorded,
                places=(self.places[label][0], self._places_that_stay(label)),
                shared=self.shared,
                before=before,
                population_of=functools.partial(self._population, label),
                n_done=batch + 1,
                is_told_to_stop=is_told_to_stop,
            )
            update_states, stopped_before = self._update_states(state), state.loss_fn_state.stops
            before = dataclasses.replace(before, _exchange=exchange)
            everyone = np.ones(before.n_members, bool)
            after, update_states[label], records[label] = self._call(
                label, before, results, update_states[label], batch, everyone
            )
            if after._members is not None:
                state, before = after._members, self._population(label, after._members)
            self._check_stops(label, before, after)
            state, is_finite = self._with_changes(state, label, before, after, recorded, everyone)
            state, update_states = self._reset(state, update_states, {label: after.began_anew})
            state = self._with_states(state, update_states)
            stops = after.stopped & ~before.stopped
            state = self._hold(state, stops=stops, freezes=~is_finite, from_batch=batch + 1)
            state = _with_own_stops(state, self._single(after.began_anew), stopped_before, batch + 1)
        return state, self._rows(state, records)

    def _population(self, label: str, state: TrainState) -> Population:
        """Return the population as an update sees it."""
        carry = state.loss_fn_state
        values = {name: np.array(value) for name, value in values_at(state, self.places[label][0]).items()}
        shared, n_members = self.shared, self.count or 1
        return Population(
            model=self._by_member(state.model),
            hyperparameters=self._by_member(values),
            frozen=np.atleast_1d(np.asarray(carry.frozen_from != NOT_FROZEN)),
            stopped=np.atleast_1d(np.asarray(carry.stops != NOT_FROZEN)),
            began_anew=np.zeros(n_members, bool),
            places=np.arange(n_members) if shared is None else np.asarray(shared.own_places),
            size=n_members if shared is None else sum(places.size for places in shared.places),
        )

    def _places_that_stay(self, label: str) -> dict[str, Place]:
        """Return where the hyperparameters are that a member keeps when an update replaces it.

        They are those of the optimizer that differ between members, and those that other updates set.
        """
        by_others = [places for other, (places, _) in self.places.items() if other != label]
        return {
            name: place for places in (self.places[label][1], *by_others) for name, place in places.items()
        }

    def _by_member(self, tree: PyTree) -> PyTree:
        """Return arrays with a leading member axis, also of a single model."""
        if self.count is not None:
            return tree
        return jax.tree.map(lambda leaf: leaf[None] if _is_array(leaf) else leaf, tree)

    def _single(self, tree: PyTree) -> PyTree:
        """Invert `_by_member`."""
        if self.count is not None:
            return tree
        return jax.tree.map(lambda leaf: leaf[0] if _is_array(leaf) else leaf, tree)

    def _update_states(self, state: TrainState) -> dict[str, Named]:
        """Return what the updates keep, copied, as arrays with a member axis."""
        return self._by_member(jax.tree.map(np.array, dict(state.population_update_states)))

    def _with_states(self, state: TrainState, update_states: Mapping[str, Named]) -> TrainState:
        states = jax.tree.map(jnp.asarray, self._single(dict(update_states)))
        return dataclasses.replace(state, population_update_states=states)

    def _with_values(self, state: TrainState, label: str, values: Mapping[str, Any]) -> TrainState:
        values = {name: jnp.asarray(value) for name, value in self._single(dict(values)).items()}
        return with_values_at(state, self.places[label][0], values)

    def _with_changes(
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

        **Returns:** the state, and for which members all changes are finite.
        """
        changed = changed_leaves(label, before.model, after.model, recorded)
        is_finite = np.ones(active.size, bool)
        for new in (*changed.values(), *after.hyperparameters.values()):
            is_finite &= np.isfinite(np.asarray(new, float)).reshape(active.size, -1).all(axis=1)
        active = active & is_finite
        values = where_active(active, dict(after.hyperparameters), before.hyperparameters)
        state = self._with_values(state, label, values)
        if not changed:
            return state, is_finite
        leaves, structure = jax.tree.flatten(before.model)
        for index, new in changed.items():
            leaves[index] = jnp.where(aligned_mask(active, new), new, leaves[index])
        model = self._single(jax.tree.unflatten(structure, leaves))
        params, rest = eqx.partition(model, state.is_param)
        return dataclasses.replace(state, params=params, model_without_params=rest), is_finite

    def _init(self, label: str, before: Population) -> tuple[Population, Named]:
        """Return what an update makes of the population before the first batch, and what it keeps."""
        returned = self.updates[label].init(before)
        if not (isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[0], Population)):
            raise ValueError(f"`init` of {label} must return a population and arrays, got {returned!r:.200}.")
        after, update_state = returned
        if after.model is not before.model:
            raise ValueError(f"`init` of {label} must leave the model as it is.")
        values = checked_like(f"`hyperparameters` of {label}", before.hyperparameters, after.hyperparameters)
        return (
            dataclasses.replace(after, hyperparameters=values),
            checked_arrays(f"the state of {label}", update_state, before.n_members),
        )

    def _call(
        self,
        label: str,
        before: Population,
        results: ValidationResults,
        update_state: Named,
        batch: int,
        active: Bool[np.ndarray, " member"],
    ) -> tuple[Population, Named, Named]:
        """Call an update, and return what it returned for active members, what was before for others."""
        update = self.updates[label]
        stream = key_stream(self.key, update.recorded_as or f"population update {label}")
        key = jax.random.fold_in(stream, batch + 1)
        copies = {name: array.copy() for name, array in update_state.items()}  # which may be changed in place
        returned = update(_with_copies(before), results, copies, batch=batch, key=key)
        if not (isinstance(returned, tuple) and len(returned) == 3 and isinstance(returned[0], Population)):
            raise ValueError(
                f"{label} must return a population, what it keeps and what it records, got {returned!r:.200}."
            )
        after, now, record = returned
        values = checked_like(f"`hyperparameters` of {label}", before.hyperparameters, after.hyperparameters)
        after = dataclasses.replace(
            after,
            hyperparameters=where_active(active, values, before.hyperparameters),
            stopped=checked_mask(f"`stopped` of {label}", after.stopped, before.n_members),
            began_anew=checked_mask(f"`began_anew` of {label}", after.began_anew, before.n_members),
        )
        now = where_active(active, checked_like(f"the state of {label}", update_state, now), update_state)
        return after, now, checked_arrays(f"the record of {label}", record, before.n_members)

    def _check_stops(self, label: str, before: Population, after: Population) -> None:
        """Raise `ValueError` if an update stops members without saying that it may."""
        if np.any(after.stopped & ~before.stopped) and not self.updates[label].may_stop:
            raise ValueError(f"{label} stops members, and must have `may_stop = True`.")

    def _reset(
        self,
        state: TrainState,
        update_states: dict[str, Named],
        anew_by: Mapping[str, Bool[np.ndarray, " member"]],
    ) -> tuple[TrainState, dict[str, Named]]:
        """Reset what updates keep of members that another update lets begin anew, and what they set first."""
        update_states = dict(update_states)
        for label, update in self.updates.items():
            by_others = [anew for other_label, anew in anew_by.items() if other_label != label]
            anew = np.any(by_others, axis=0) if by_others else np.zeros(self.count or 1, bool)
            if not update.restarts or not anew.any():
                continue
            before = self._population(label, state)
            after, first = self._init(label, before)
            update_states[label] = where_active(
                anew, checked_like(f"the state of {label}", update_states[label], first), update_states[label]
            )
            values = where_active(anew, dict(after.hyperparameters), before.hyperparameters)
            state = self._with_values(state, label, values)
        return state, update_states

    def _hold(
        self,
        state: TrainState,
        *,
        stops: Bool[np.ndarray, " member"],
        freezes: Bool[np.ndarray, " member"],
        from_batch: int,
    ) -> TrainState:
        """Return the state with members stopped or frozen from a batch on."""
        carry, changes = state.loss_fn_state, {}
        for name, held in (("stopped_from", stops), ("frozen_from", freezes)):
            if held.any():
                mask = jnp.asarray(self._single(held))
                changes[name] = jnp.where(mask, from_batch, getattr(carry, name))
        return dataclasses.replace(state, loss_fn_state=dataclasses.replace(carry, **changes))

    def _rows(self, state: TrainState, records: Mapping[str, Named]) -> Records:
        """Return what the history records of updates that acted, by axis and name."""
        rows: Records = {}
        for label, record in records.items():
            update = self.updates[label]
            prefix, values = prefix_of(label, update), values_at(state, self.places[label][0])
            arrays = {**state.population_update_states[label], **self._single(record)}
            row = rows.setdefault(axis_of(label, update), {})
            row |= {prefix + name: np.asarray(array) for name, array in arrays.items()}
            row |= {HYPERPARAMETER + name: np.asarray(value) for name, value in values.items()}
        return rows


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray | jax.Array)


def _with_copies(population: Population) -> Population:
    """Return a population whose numpy arrays may be changed in place."""
    values = {name: array.copy() for name, array in population.hyperparameters.items()}
    return dataclasses.replace(population, hyperparameters=values, stopped=population.stopped.copy())


def _with_own_stops(
    state: TrainState,
    began_anew: Bool[np.ndarray, "*member"],
    stopped_before: Int[Array, "*member"],
    from_batch: int,
) -> TrainState:
    """Return the state in which replaced members that are stopped say from which batch they did not train."""
    carry = state.loss_fn_state
    if carry.stopped_from is None:
        return state
    since = jnp.where(stopped_before == NOT_FROZEN, from_batch, stopped_before)
    is_stopped = jnp.asarray(began_anew) & (carry.stopped_from != NOT_FROZEN)
    carry = dataclasses.replace(carry, stopped_from=jnp.where(is_stopped, since, carry.stopped_from))
    return dataclasses.replace(state, loss_fn_state=carry)


def with_no_stops(carry: MemberCarry) -> MemberCarry:
    """Return the first carry of a training in which members may be stopped, before any is."""
    return dataclasses.replace(carry, stopped_from=carry.stops)
