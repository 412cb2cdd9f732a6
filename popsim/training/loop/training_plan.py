"""The plan of a training: all that follows from its options and those of the trainer."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Int, Key, PyTree

from popsim._compiled import as_array, jit_fast_compile
from popsim._shared.checks import bytes_of, warn_caller
from popsim._shared.other_draws import refuse_other_draws
from popsim.ensemble import member, n_members
from popsim.evaluation import check_trials_of, merge_member_axis, validation_trials
from popsim.loss import Loss
from popsim.model import with_trained_inputs
from popsim.per_member import member_values, select_member, with_member_values
from popsim.session import separate_trials
from popsim.task import AbstractTask, differs_between_members
from popsim.training.loop.batch_loop import BatchLoop, MemberLayout, members_at_a_time
from popsim.training.loop.batches import BatchNumbers, max_kept_per_call, number_batches
from popsim.training.loop.change_checks import check_changes, check_same_form
from popsim.training.options import TrainerOptions, Training, check_options
from popsim.training.population_updates.apply import PopulationUpdates, plan_population_updates
from popsim.training.population_updates.base import hyperparameters_of
from popsim.training.population_updates.population_view import with_present_values
from popsim.training.steps.member_step import MemberStep, starts_finite, trials_differ, trials_of_batch
from popsim.training.steps.optimizers import learning_rate_of
from popsim.training.steps.train_state import OWN, TrainState, state_parts
from popsim.trial import Trial, check_trials

__all__ = ["TrainingPlan", "plan_training"]

CAPACITY = 64
MAX_TRAINABLES_BYTES = 256 * 2**20


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingPlan:
    """The plan of a training: its checked options, and its first state and trials; nothing is written yet.

    - `count`: the number of members; None for a single model.
    - `member_ids`: the numbers on which the draws of members depend.
    - `layout`, `batches`, `step`: how members lie on devices, when something is done, and the train step.
    - `state`, `new_state`: the first state if no checkpoint is restored; the same with a new optimizer state.
    - `first_trials`, `validation_trials`: trials, those of the first batch by member if `trials_by_member`.
    - `population_updates`: what acts between batches.
    - `recorded`: which leaves of the model training changes.
    - `member_batch_size`: the members trained at a time on each device; None for all.
    """

    trainer: TrainerOptions
    training: Training
    count: int | None
    member_ids: Int[Array, "*member"]
    layout: MemberLayout
    batches: BatchNumbers
    step: MemberStep
    state: TrainState
    new_state: TrainState
    first_trials: Trial
    trials_by_member: bool
    validation_trials: Trial
    population_updates: PopulationUpdates
    recorded: PyTree[bool]
    member_batch_size: int | None

    @property
    def n_trained(self) -> int:
        """The size of what the optimizer trains of one member, in some phase."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.state.params)) // (self.count or 1)

    @property
    def shared_steps(self) -> range:
        """The steps of the checkpoints from which other trainings of a divided population inherit."""
        updates = self.population_updates
        batches = [updates.batches(label) for label, update in updates.updates.items() if update.replaces]
        if self.training.population is None or not batches:
            return range(0)
        return range(batches[0].start + 1, batches[0].stop + 1, batches[0].step)

    def trials_of(self, batch: int, hyperparameters: PyTree = None) -> Trial:
        """Return the trials of a batch; `hyperparameters` are those at present, None for those given."""
        task = self.training.task
        if hyperparameters is not None:
            task = with_present_values(task, self.layout.gather(hyperparameters), self.step)
        return _trials_of(self.step, task, batch, self.member_ids, self.training.key)

    def loops(self, member_batch_size: int | None) -> dict[int, BatchLoop]:
        """Return the compiled loop of each phase, by first batch."""
        layout, ensembled = self.layout, self.training.ensembled
        capacity, n_kept = _loop_sizes(
            eqx.filter(self.state.model, self.recorded), self.batches.recorded_batches
        )
        # `jax.vmap` maps over arrays, not over `PerMember`: the values of all members go beside the step,
        # into which the loop puts those of one.
        values = member_values(self.step, layout.n_members, "trainer") if ensembled else None
        loop = BatchLoop(
            self.step,
            layout.spread(self.member_ids) if ensembled else self.member_ids,
            layout.spread(values),
            self.recorded,
            ensembled=ensembled,
            capacity=capacity,
            n_kept=n_kept,
            member_batch_size=member_batch_size,
            skips_inactive=self.population_updates.may_stop,
            mesh=layout.mesh,
        )
        return {
            # Each phase has a program of its own: what is not trained then is left out of the gradient, not
            # masked.
            first_batch: dataclasses.replace(
                loop, member_step=layout.repeat(dataclasses.replace(self.step, trained=trained))
            )
            for first_batch, trained in self.batches.trained.items()
        }


def plan_training(trainer: TrainerOptions, training: Training) -> TrainingPlan:
    """Return the plan of a training."""
    count = n_members(training.model) if training.ensembled else None
    check_options(trainer, training, count)
    batches = number_batches(trainer, training)
    ids = np.arange(count or 1) if training.members is None else training.members.ids
    member_ids = as_array(ids if training.ensembled else ids[0], int)
    layout = MemberLayout.over(trainer.devices if training.ensembled else None, count or 1)
    step = _member_step(trainer, training)
    new_state = _new_state(trainer, training, step, batches.where_train, member_ids)
    finite = starts_finite((new_state.opt_state, new_state.loss_fn_state.gradient))
    # An optimizer may start from infinity; such a leaf says nothing about a member, and is never checked.
    step = dataclasses.replace(step, starts_finite=finite)
    first_trials = _trials_of(step, step.task, training.start_batch, member_ids, training.key)
    # Tasks that differ give different trials even where all members draw the same numbers.
    by_member = training.ensembled and trials_differ(training.task, shared_trials=step.shared_trials)
    own_trials = _trials_of_first(first_trials) if by_member else first_trials
    check_trials("trial", own_trials)
    validation = validation_trials(training.task, count or 1)
    sizes = _check_fit(training, merge_member_axis(first_trials) if by_member else first_trials, validation)
    new_state = new_state.with_trained_inputs(sizes)
    traced = (trainer.optimizer, step.gradient, step.updates, step.post_step_fns, step.loss_update_func)
    with refuse_other_draws("the optimizer, the gradient and each update", *traced):
        # Of the first member, with trials of its own.
        first, trained = first_member(training, step, new_state), batches.trained.values()
        recorded, state_bytes = check_changes(*first, own_trials, trained)
    updates = plan_population_updates(trainer, training, step, new_state, recorded)
    state = _first_state(training, new_state, updates)
    return TrainingPlan(
        trainer=trainer,
        training=training,
        count=count,
        member_ids=member_ids,
        layout=layout,
        batches=batches,
        step=step,
        state=state,
        new_state=new_state,
        first_trials=first_trials,
        trials_by_member=by_member,
        validation_trials=validation,
        population_updates=updates,
        recorded=recorded,
        member_batch_size=_member_batch_size(trainer, training, layout, state, state_bytes),
    )


def _member_step(trainer: TrainerOptions, training: Training) -> MemberStep:
    return MemberStep(
        task=training.task,
        batch_size=training.batch_size,
        n_minibatches=trainer.n_minibatches,
        shared_trials=training.ensembled and not training.ensemble_random_trials,
        remat=trainer.remat,
        updates=trainer.updates,
        post_step_fns=tuple(trainer.post_step_fns),
        loss_update_func=trainer.loss_update_func,
        gradient=trainer.gradient,
    )


def _new_state(
    trainer: TrainerOptions,
    training: Training,
    step: MemberStep,
    where_train: Callable[[Any], Any],
    member_ids: Int[Array, "*member"],
) -> TrainState:
    initial = TrainState.initial_ensemble if training.ensembled else TrainState.initial_state
    state = initial(training.model, trainer.optimizer, training.key, where_train=where_train)
    has_rate = not isinstance(state.opt_state, optax.EmptyState)  # `optax.set_to_zero` has no rate
    if has_rate and np.all(np.isnan(learning_rate_of(state.opt_state))):
        warn_caller(
            "the optimizer does not tell its learning rate: it is NaN in the history. "
            "Build it with popsim.training.adam, or wrap it in popsim.training.inject_hyperparams."
        )

    def carry_of(model, params, values, member_id):
        key = jax.random.fold_in(state.root_rng, member_id)
        return with_member_values(step, values).initial_carry(model, params, key=key)

    count = n_members(training.model) if training.ensembled else 1
    values = member_values(step, count, "trainer")
    carries_of = eqx.filter_vmap(carry_of) if training.ensembled else carry_of
    carry = carries_of(training.model, state.params, values, member_ids)
    if any(update.may_stop for update in trainer.population_updates):
        carry = dataclasses.replace(carry, stopped_from=carry.stops)
    changes = any(hyperparameters_of(update) != () for update in trainer.population_updates)
    return dataclasses.replace(
        state,
        step=jnp.asarray(training.start_batch),
        loss_fn_state=carry,
        hyperparameters=jax.tree.map(jnp.asarray, values if changes else None),
    )


def _first_state(training: Training, state: TrainState, updates: PopulationUpdates) -> TrainState:
    """Return the state before the first batch if no checkpoint is restored."""
    if training.opt_state is not None:
        check_same_form("`opt_state`", training.opt_state, state.opt_state, "that of this optimizer")
        state = dataclasses.replace(state, opt_state=jax.tree.map(jnp.asarray, training.opt_state))
    return updates.with_first_states(state) if updates.updates else state


def _trials_of(
    step: MemberStep, task: AbstractTask, batch: int, member_ids: Int[Array, "*member"], key: Key[Array, ""]
) -> Trial:
    options = {"member_ids": member_ids, "shared_trials": step.shared_trials, "key": key}
    return trials_of_batch(task, step.batch_size, as_array(batch, int), **options)


def first_member(training: Training, step: MemberStep, state: TrainState) -> tuple[MemberStep, TrainState]:
    """Return the step and the state of one member, the state of an ensemble as shapes."""
    if not training.ensembled:
        return step, state
    # Shapes suffice to see what changes: slicing the first member would copy all of its state.
    shapes = eqx.filter_eval_shape(_first_rows, state_parts(state, OWN))
    return select_member(step, 0), dataclasses.replace(state, **shapes)


def _member_batch_size(
    trainer: TrainerOptions, training: Training, layout: MemberLayout, state: TrainState, state_bytes: int
) -> int | None:
    """Return how many members are trained at a time on each device; None for all."""
    if trainer.member_batch_size is not None or not training.ensembled or layout.platform != "cpu":
        return trainer.member_batch_size
    weight_bytes = bytes_of((training.model, state.params)) // layout.n_members
    return members_at_a_time(layout.n_on_device, weight_bytes, state_bytes)


def _first_rows(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, tree)


_trials_of_first = jit_fast_compile(_first_rows)


def _loop_sizes(recorded: PyTree[Array], batches: Int[np.ndarray, " recorded"]) -> tuple[int, int]:
    """Return the capacity of a call of the compiled loop, lowered to bound memory, and its `n_kept`."""
    n_bytes = bytes_of(recorded)
    capacity = CAPACITY
    # The rows of a call are allocated on the device for its whole capacity, whether or not they are filled.
    while (n_kept := max_kept_per_call(batches, capacity)) * n_bytes > MAX_TRAINABLES_BYTES and capacity > 1:
        capacity //= 2
    return capacity, n_kept


def _check_fit(training: Training, trials: Trial, validation: Trial) -> dict[str, int]:
    """Check that the first task and model fit together, and return the sizes of the inputs by name."""
    task = select_member(training.task, 0)
    model = member(training.model, 0) if training.ensembled else training.model
    validation = _trials_of_first(validation) if differs_between_members(training.task) else validation
    check_trials_of(model, validation, task.loss)
    sizes = model.input_sizes(separate_trials(validation))
    check_trials_of(with_trained_inputs(model, sizes), trials, task.loss)
    _check_something_counts(task.loss, separate_trials(validation), separate_trials(trials))
    return sizes


def _check_something_counts(loss: Loss, *trials: Trial) -> None:
    """Raise `ValueError` if a term counts nothing in any of the stacked trials."""
    for term in loss.terms:
        weights = [term.trial_weights(stacked) for stacked in trials]
        if all(weight is not None and not np.any(weight) for weight in weights):
            raise ValueError(
                f"`trial` of `task` must return something that counts for the term {term.name!r} of `loss`, "
                "got nothing in the first batch and in the validation trials: see the counts of targets or "
                "recordings, and the profile of the term."
            )
