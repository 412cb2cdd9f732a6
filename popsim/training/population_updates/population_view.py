"""The state of a training as its population updates see it, what they set in it, and members that move."""

import dataclasses
import re
from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from popsim._shared.checks import check_castable
from popsim._shared.text_checks import suggestion
from popsim.ensemble import members_at
from popsim.per_member import PerMember, aligned_mask, is_per_member, per_member_nodes
from popsim.store.files import is_plain_name
from popsim.training.population_updates.base import Population
from popsim.training.population_updates.divided_population import AbstractDividedPopulation
from popsim.training.steps.member_step import NOT_FROZEN
from popsim.training.steps.optimizers import injected_hyperparameters
from popsim.training.steps.train_state import SHARED, TrainState, named_state, with_named_state

__all__ = ["MemberExchange", "PopulationView", "hyperparameter_places", "with_present_values"]

Named = dict[str, np.ndarray]
Places = Mapping[str, tuple[str, int]]
"""By hyperparameter, the part of the train state that it is in, and the number of its leaf there."""


def hyperparameter_places(
    names: Sequence[str] | None, state: TrainState, step: Any, one_member: PyTree, *, owner: str
) -> tuple[Places, Places]:
    """Return the places of what a population update sets, and of others of the optimizer that differ between
    members."""
    injected, of_members = injected_hyperparameters(state.optimizer_def, state.opt_state, one_member)
    by_name = {name: ("opt_state", index) for name, index in injected.items()}
    chosen = [name for name in by_name if name in of_members]
    leaves = jax.tree.leaves(state.hyperparameters)
    for index, path in enumerate(per_member_nodes(step) if leaves else ()):
        name = re.sub(r"\[['\"]?(.*?)['\"]?\]", r".\1", path).strip(".")
        if np.issubdtype(leaves[index].dtype, np.floating):
            by_name[name] = ("hyperparameters", index)
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


def values_at(state: TrainState, places: Places) -> dict[str, Array]:
    """Return the hyperparameters of all members, by name."""
    return {name: jax.tree.leaves(getattr(state, part))[index] for name, (part, index) in places.items()}


def with_values_at(state: TrainState, places: Places, values: Mapping[str, Any]) -> TrainState:
    """Return the state with other hyperparameters."""
    for name, (part, index) in places.items():
        leaves, structure = jax.tree.flatten(getattr(state, part))
        leaves[index] = values[name]
        state = dataclasses.replace(state, **{part: jax.tree.unflatten(structure, leaves)})
    return state


def with_present_values(tree: Any, hyperparameters: PyTree, step: Any) -> Any:
    """Return a part of a step with its `PerMember` at present."""
    if hyperparameters is None:
        return tree
    # By identity: `tree` is a part of `step`, and holds the same `PerMember` objects.
    now = dict(zip(map(id, per_member_nodes(step).values()), jax.tree.leaves(hyperparameters), strict=True))
    return jax.tree.map(
        lambda node: PerMember(now[id(node)]) if is_per_member(node) else node, tree, is_leaf=is_per_member
    )


@dataclasses.dataclass(frozen=True)
class PopulationView:
    """The state of a training as its population updates see it: arrays that lead with the member."""

    places: Mapping[str, tuple[Places, Places]]
    count: int | None
    divided: AbstractDividedPopulation | None
    recorded: PyTree[bool]  # which leaves of the model training changes

    def population(self, label: str, state: TrainState) -> Population:
        """Return the population as an update sees it."""
        carry = state.loss_fn_state
        values = {name: np.array(value) for name, value in values_at(state, self.places[label][0]).items()}
        divided, n_members = self.divided, self.count or 1
        model, final = self.add_member_axis((state.model, state.final))
        return Population(
            model=model,
            hyperparameters=self.add_member_axis(values),
            frozen=np.atleast_1d(np.asarray(carry.frozen_from != NOT_FROZEN)),
            stopped=np.atleast_1d(np.asarray(carry.stops != NOT_FROZEN)),
            restarted=np.zeros(n_members, bool),
            places=np.arange(n_members) if divided is None else divided.own_places,
            size=n_members if divided is None else divided.size,
            # Shares with `model` the leaves that training does not change.
            final_model=None if state.final is None else eqx.combine(final, model),
        )

    def kept_hyperparameters(self, label: str) -> Places:
        """Return where the hyperparameters are that a member keeps when an update replaces it.

        They are those of the optimizer that differ between members, and those that other updates set.
        """
        by_others = [places for other, (places, _) in self.places.items() if other != label]
        return dict(ChainMap(*map(dict, by_others), dict(self.places[label][1])))

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

    def with_states(self, state: TrainState, update_states: Mapping[str, Named]) -> TrainState:
        """Return the state with what the updates keep."""
        states = jax.tree.map(jnp.asarray, self.drop_member_axis(dict(update_states)))
        return dataclasses.replace(state, population_update_states=states)

    def with_values(self, state: TrainState, label: str, values: Mapping[str, Any]) -> TrainState:
        values = {name: jnp.asarray(value) for name, value in self.drop_member_axis(dict(values)).items()}
        return with_values_at(state, self.places[label][0], values)

    def with_changes(
        self,
        state: TrainState,
        label: str,
        before: Population,
        after: Population,
        active: Bool[np.ndarray, " member"],
    ) -> tuple[TrainState, Bool[np.ndarray, " member"]]:
        """Return the state with the weights and hyperparameters that an update changed, of active members.

        Members for which a change is not finite keep what they had.
        """
        changed = changed_leaves(label, before.model, after.model, self.recorded)
        final = changed_leaves(label, before.final_model, after.final_model, self.recorded)
        is_finite = np.ones(active.size, bool)
        for new in (*changed.values(), *final.values(), *after.hyperparameters.values()):
            # Checked here, on the host: the compiled step sees only what the next batch makes of it, and
            # would freeze the member with the bad values inside.
            is_finite &= np.isfinite(np.asarray(new, float)).reshape(active.size, -1).all(axis=1)
        active = active & is_finite
        values = where_active(active, dict(after.hyperparameters), before.hyperparameters)
        state = self.with_values(state, label, values)
        if changed:
            model = with_leaves_where(active, before.model, changed)
            state = state.with_model(self.drop_member_axis(model))
        if final:
            state = self.with_final_model(state, with_leaves_where(active, before.final_model, final))
        return state, is_finite

    def with_final_model(self, state: TrainState, model: Any) -> TrainState:
        """Return the state of a training that returns a model, of which it keeps what training changes."""
        return dataclasses.replace(state, final=eqx.filter(self.drop_member_axis(model), self.recorded))

    def mark_inactive(
        self,
        state: TrainState,
        from_batch: int,
        *,
        stops: Bool[np.ndarray, " member"],
        freezes: Bool[np.ndarray, " member"],
        replaced: Bool[np.ndarray, " member"],
        stopped_before: Int[Array, "*member"],
    ) -> TrainState:
        """Return the state with members stopped or frozen from a batch on.

        Members that were replaced by one that is stopped do not train since then, or since they were stopped.
        """
        carry, changes = state.loss_fn_state, {}
        for name, ends in (("stopped_from", stops), ("frozen_from", freezes)):
            if ends.any():
                mask = jnp.asarray(self.drop_member_axis(ends))
                changes[name] = jnp.where(mask, from_batch, getattr(carry, name))
        carry = dataclasses.replace(carry, **changes)
        if replaced.any() and carry.stopped_from is not None:
            # The inherited date is that of the parent, which may lie before batches that this member trained.
            since = jnp.where(stopped_before == NOT_FROZEN, from_batch, stopped_before)
            is_stopped = self.drop_member_axis(replaced) & (carry.stopped_from != NOT_FROZEN)
            carry = dataclasses.replace(carry, stopped_from=jnp.where(is_stopped, since, carry.stopped_from))
        return dataclasses.replace(state, loss_fn_state=carry)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray | jax.Array)


def check_named(subject: str, arrays: Any, n_members: int) -> Named:
    """Return arrays by name, in the dtypes of JAX."""
    checked = {name: np.asarray(jnp.asarray(array)) for name, array in arrays.items()}
    for name, array in checked.items():
        is_name = isinstance(name, str) and is_plain_name(name)  # of an array on disk
        if not is_name or array.shape[:1] != (n_members,):
            raise ValueError(
                f"{subject} must have plain names without '/' and lead with the {n_members} members, "
                f"got shape {array.shape} for {name!r}."
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
    # `recorded` has a boolean also where the model has None.
    may_change = jax.tree.leaves(
        jax.tree.map(
            lambda leaf, changes: None if leaf is None else bool(changes),
            *(before, recorded),
            is_leaf=lambda node: node is None,
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


def with_leaves_where(mask: Bool[np.ndarray, " member"], model: Any, changed: Mapping[int, Array]) -> Any:
    """Return a model with some leaves, by their number, changed in the members of a mask."""
    leaves, structure = jax.tree.flatten(model)
    for index, new in changed.items():
        leaves[index] = jnp.where(aligned_mask(mask, new), new, leaves[index])
    return jax.tree.unflatten(structure, leaves)


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


@dataclasses.dataclass
class MemberExchange:
    """Moves members within the population of an update, see `Population`."""

    view: PopulationView
    label: str
    state: TrainState
    n_done: int
    was_asked: bool = False

    def gather_scores(self, scores: Float[Any, " member"]) -> Float[Array, " population"]:
        """See `Population.gather_scores`; raises `StoppedForSelection`."""
        divided, n_members = self.view.divided, self.view.count or 1
        if np.shape(scores) != (n_members,):
            raise ValueError(
                f"`scores` must be one number for each of the {n_members} members, "
                f"got shape {np.shape(scores)}."
            )
        if self.was_asked:
            raise ValueError("`gather_scores` may be called once in a call of an update.")
        self.was_asked = True
        if divided is None:
            return jnp.asarray(scores)
        return jnp.asarray(divided.gather_scores(self.n_done, np.asarray(scores)))

    def take(self, parents: Int[Any, " member"]) -> Population:
        """See `Population.take`."""
        parents, before = np.asarray(parents), self.view.population(self.label, self.state)
        is_place = parents.dtype.kind in "iu" and np.all((parents >= 0) & (parents < before.size))
        if parents.shape != before.places.shape or not is_place:
            raise ValueError(
                f"`parents` must be {before.n_members} places, each from 0 to {before.size - 1}, "
                f"got {parents!r:.200}."
            )
        if not self.was_asked:
            raise ValueError(
                "`gather_scores` must be called before `take`: it makes sure that all trainings of the "
                "population have come to this selection."
            )
        divided = self.view.divided
        if divided is None:
            inherited = members_at(self._inherited(self.state), parents)
        else:
            inherited = self._read_members(divided, parents)
        state = self._with_inherited(inherited)
        population, restarted = self.view.population(self.label, state), parents != before.places
        return dataclasses.replace(population, restarted=restarted, _exchange=self, _members=state)

    def _read_members(
        self, divided: AbstractDividedPopulation, members: Int[np.ndarray, " member"]
    ) -> PyTree[Array]:
        """Return what is inherited of the members at some places, of which others are in other trainings."""
        rows_of_parts: list[PyTree[Array]] = []
        order: list[int] = []
        for part, places in enumerate(divided.places):
            row_of_place = {place: row for row, place in enumerate(places.tolist())}
            slots = [slot for slot, member in enumerate(members.tolist()) if member in row_of_place]
            if slots:
                rows = np.array([row_of_place[members[slot]] for slot in slots])
                state = self.state if part == divided.part else self._read_state(divided, part)
                rows_of_parts.append(members_at(self._inherited(state), rows))
                order += slots
        joined = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *rows_of_parts)
        return members_at(joined, np.argsort(order))

    def _read_state(self, divided: AbstractDividedPopulation, part: int) -> TrainState:
        """Return the state of another training of the population, as it was saved for this selection."""
        own, n_members = named_state(self.state), divided.places[part].size
        forms = {
            name: jax.ShapeDtypeStruct((n_members, *array.shape[1:]), array.dtype)
            for name, array in own.items()
            if name not in SHARED
        }
        return with_named_state(self.state, {**own, **divided.read_part(part, self.n_done, forms)})

    def _parts(self, state: TrainState) -> tuple[PyTree, ...]:
        """Return what changes in training: parameters, leaves that model updates change, and states."""
        changing = eqx.filter(state.model_without_params, self.view.recorded)
        return (state.params, changing, state.opt_state, state.loss_fn_state)

    def _inherited(self, state: TrainState) -> PyTree[Array]:
        """Return what may be inherited of the members in a state; their other settings stay with them."""
        places = self.view.places[self.label][0]
        parts = eqx.filter(self._parts(state), eqx.is_array)
        return {"state": parts, "hyperparameters": values_at(state, places)}

    def _with_inherited(self, inherited: PyTree) -> TrainState:
        """Return the state in which the members have what they inherit."""
        places, kept = self.view.places[self.label][0], self.view.kept_hyperparameters(self.label)
        params, changing, opt_state, carry = eqx.combine(inherited["state"], self._parts(self.state))
        constant = eqx.filter(self.state.model_without_params, self.view.recorded, inverse=True)
        state = dataclasses.replace(
            self.state,
            params=params,
            model_without_params=eqx.combine(changing, constant),
            opt_state=opt_state,
            loss_fn_state=carry,
        )
        values = inherited["hyperparameters"] | values_at(self.state, kept)
        return with_values_at(state, {**places, **kept}, values)
