"""Application of population updates to the state of a training."""

import dataclasses
from collections.abc import Mapping

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, PyTree

from popsim.ensemble import n_members
from popsim.randomness import key_stream
from popsim.training.options import TrainerOptions, Training
from popsim.training.population_updates import base
from popsim.training.population_updates import population_view as views
from popsim.training.population_updates.base import AbstractPopulationUpdate, Population, ValidationResults
from popsim.training.population_updates.population_view import Named, where_active
from popsim.training.steps.member_step import MemberStep
from popsim.training.steps.train_state import TrainState

__all__ = ["PopulationUpdates", "plan_population_updates"]

Records = dict[str, Named]
"""By axis, such as "selection", arrays by the names under which they are stored."""


@dataclasses.dataclass(frozen=True)
class PopulationUpdates:
    """The population updates of a training."""

    updates: Mapping[str, AbstractPopulationUpdate]
    view: views.PopulationView
    training: Training

    def __post_init__(self):
        names = [name for places, _ in self.view.places.values() for name in places]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(
                    f"`population_updates` must set each hyperparameter once, got {name!r} twice."
                )
        for label, update in self.updates.items():
            if update.every is not None and not self.batches(label):
                raise ValueError(
                    f"`every` of {label} must be {'below' if update.replaces else 'at most'} the "
                    f"{self.training.n_batches} batches, got {update.every}."
                )

    def batches(self, label: str) -> range:
        """Return the batches after which an update acts.

        What acts at log points does not act at that of the last batch, unless it is a regular one, and what
        replaces members never does: a longer training continues as if it had been longer from the start.
        """
        update, training = self.updates[label], self.training
        every = training.log_step if update.every is None else update.every
        # Counted from batch 0, not from the start: a training that continues another acts at the same
        # batches.
        first = (training.start_batch // every + 1) * every
        return range(first - 1, training.n_batches - update.replaces, every)

    def due_updates(self, batch: int, *, replaces: bool) -> dict[str, AbstractPopulationUpdate]:
        """Return the updates that act after a batch, of those that replace members or of the others."""
        return {
            label: update
            for label, update in self.updates.items()
            if update.replaces == replaces and batch in self.batches(label)
        }

    @property
    def may_stop(self) -> bool:
        return any(update.may_stop for update in self.updates.values())

    @property
    def axes(self) -> list[str]:
        """The axes of the records, such as "selection"."""
        return sorted({base.axis_of(label, update) for label, update in self.updates.items()})

    def with_first_states(self, state: TrainState) -> TrainState:
        """Return the first state of a training with what the updates keep, and what they set before it."""
        update_states = {}
        for label in self.updates:
            before = self.view.population(label, state)
            after, update_states[label] = self._init(label, before)
            state = self.view.with_values(state, label, after.hyperparameters)
            if after.final_model is not None:
                state = self.view.with_final_model(state, after.final_model)
        return self.view.with_states(state, update_states)

    def apply(
        self, state: TrainState, results: ValidationResults, batch: int, *, replaces: bool
    ) -> tuple[TrainState, Records]:
        """Apply the updates that are due, of those that replace members or of the others."""
        # Taken once: a member that one update stops takes part in the others of this call. Where members are
        # replaced, frozen and stopped ones take part: to be replaced is how they train again.
        active = ~np.atleast_1d(np.asarray(state.loss_fn_state.is_inactive)) | replaces
        # From before an exchange: a member that was stopped keeps its date, whatever its parent's is.
        stopped_before = state.loss_fn_state.stops
        restarts_by_label = {label: np.zeros(active.size, bool) for label in self.updates}
        stops, freezes = np.zeros((2, active.size), bool)
        kept = jax.tree.map(np.array, dict(state.population_update_states))
        update_states, records = self.view.add_member_axis(kept), {}
        for label in self.due_updates(batch, replaces=replaces):
            before = self.view.population(label, state)
            if replaces:
                exchange = views.MemberExchange(self.view, label, state, batch + 1)
                before = dataclasses.replace(before, _exchange=exchange)
            after, update_states[label], records[label] = self._call(
                label, before, results, update_states[label], batch, active
            )
            if after._members is not None:
                # Compared with the members that arrived: a stop that was inherited is not one that this
                # update decided.
                state, before = after._members, self.view.population(label, after._members)
            new_stops = after.stopped & ~before.stopped
            if np.any(new_stops) and not self.updates[label].may_stop:
                raise ValueError(f"{label} stops members, and must have `may_stop = True`.")
            state, is_finite = self.view.with_changes(state, label, before, after, active)
            freezes |= active & ~is_finite
            restarts_by_label[label] = after.restarted & active
            stops |= new_stops & active
        state, update_states = self._reset(state, update_states, restarts_by_label)
        state = self.view.with_states(state, update_states)
        restarts = np.any([*restarts_by_label.values()], axis=0)
        state = self.view.mark_inactive(
            state,
            batch + 1,
            # A member that begins anew, because a curriculum moved it on, is not stopped by a count of the
            # stage before.
            stops=stops if replaces else stops & ~restarts,
            freezes=freezes,
            replaced=restarts & replaces,
            stopped_before=stopped_before,
        )
        return state, self._rows(state, records)

    def _init(self, label: str, before: Population) -> tuple[Population, Named]:
        """Return what an update makes of the population before the first batch, and what it keeps."""
        after, update_state = self.updates[label].init(before)
        if after.model is not before.model:
            raise ValueError(f"`init` of {label} must leave the model as it is.")
        values = views.cast_like(
            f"`hyperparameters` of {label}", before.hyperparameters, after.hyperparameters
        )
        kept = views.check_named(f"the state of {label}", update_state, before.n_members)
        return dataclasses.replace(after, hyperparameters=values), kept

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
        stream = key_stream(self.training.key, update.recorded_as or f"population update {label}")
        key = jax.random.fold_in(stream, batch + 1)
        # Copies, which may be changed in place.
        values, kept = (
            {name: array.copy() for name, array in arrays.items()}
            for arrays in (before.hyperparameters, update_state)
        )
        given = dataclasses.replace(before, hyperparameters=values, stopped=before.stopped.copy())
        after, now, record = update(given, results, kept, batch=batch, key=key)
        values = views.cast_like(
            f"`hyperparameters` of {label}", before.hyperparameters, after.hyperparameters
        )
        masks = [{"stopped": each.stopped, "restarted": each.restarted} for each in (before, after)]
        values = where_active(active, values, before.hyperparameters)
        after = dataclasses.replace(
            after, hyperparameters=values, **views.cast_like(f"what {label} returns", *masks)
        )
        now = where_active(active, views.cast_like(f"the state of {label}", update_state, now), update_state)
        return after, now, views.check_named(f"the record of {label}", record, before.n_members)

    def _reset(
        self,
        state: TrainState,
        update_states: dict[str, Named],
        restarts_by_label: Mapping[str, Bool[np.ndarray, " member"]],
    ) -> tuple[TrainState, dict[str, Named]]:
        """Reset the states and hyperparameters of updates for members that another update has restarted."""
        nobody = np.zeros(self.view.count or 1, bool)
        for label, update in self.updates.items():
            # An update knows what it did itself, so only what others began anew resets its counts.
            restarts_by_others = (mask for other, mask in restarts_by_label.items() if other != label)
            restarts = np.any([nobody, *restarts_by_others], axis=0)
            if not update.restarts or not restarts.any():
                continue
            before = self.view.population(label, state)
            after, first_state = self._init(label, before)
            kept = update_states[label]
            cast = views.cast_like(f"the state of {label}", kept, first_state)
            update_states = {**update_states, label: where_active(restarts, cast, kept)}
            values = where_active(restarts, dict(after.hyperparameters), before.hyperparameters)
            state = self.view.with_values(state, label, values)
            final = views.changed_leaves(label, before.final_model, after.final_model, self.view.recorded)
            if final:
                model = views.with_leaves_where(restarts, before.final_model, final)
                state = self.view.with_final_model(state, model)
        return state, update_states

    def _rows(self, state: TrainState, records: Mapping[str, Named]) -> Records:
        """Return what the history records of updates that acted, by axis and name."""
        rows: Records = {}
        for label, record in records.items():
            update = self.updates[label]
            prefix, values = base.prefix_of(label, update), views.values_at(state, self.view.places[label][0])
            arrays = {**state.population_update_states[label], **self.view.drop_member_axis(record)}
            row = rows.setdefault(base.axis_of(label, update), {})
            row |= {prefix + name: np.asarray(array) for name, array in arrays.items()}
            row |= {base.HYPERPARAMETER + name: np.asarray(value) for name, value in values.items()}
        return rows


def plan_population_updates(
    trainer: TrainerOptions,
    training: Training,
    step: MemberStep,
    state: TrainState,
    recorded: PyTree[bool],
) -> PopulationUpdates:
    """Return the population updates of a trainer; `recorded` are the leaves of the model that may change."""
    count = n_members(training.model) if training.ensembled else None
    first = eqx.filter_eval_shape(
        lambda params: params if count is None else jax.tree.map(lambda leaf: leaf[0], params), state.params
    )
    updates, places = base.label_updates(trainer.population_updates), {}
    for label, update in updates.items():
        names = base.hyperparameters_of(update)
        places[label] = views.hyperparameter_places(names, state, step, first, owner=label)
        of_loss = [name for name in places[label][0] if name.startswith("task.loss")]
        if of_loss and trainer.loss_update_func is not None:
            raise ValueError(
                f"{label} must not set `{of_loss[0]}` with a `loss_update_func`, which sets the loss of each "
                "batch."
            )
    view = views.PopulationView(places, count, training.population, recorded)
    return PopulationUpdates(updates, view, training)
