"""The plan of a training: all that follows from its options and those of the trainer."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Int, PyTree

from popsim._compiled import as_array
from popsim._shared.checks import bytes_of, short_repr, warn_caller
from popsim._shared.other_draws import drawing_from_key
from popsim.ensemble import member, n_members
from popsim.evaluation import check_trials_of, merge_member_axis, validation_trials
from popsim.loss import Loss
from popsim.model import AbstractModel, with_trained_inputs
from popsim.per_member import member_values, select_member, with_member_values
from popsim.randomness import seed_key
from popsim.schedules import AbstractBatchSchedule
from popsim.session import separate_trials
from popsim.task import differs_between_members
from popsim.training.loop.batch_loop import BatchLoop, MemberLayout, members_at_a_time
from popsim.training.loop.batches import BatchNumbers, max_kept_per_call
from popsim.training.options import TrainerOptions, Training, check_options
from popsim.training.population_updates.apply import PopulationUpdates, plan_population_updates
from popsim.training.population_updates.base import hyperparameters_of
from popsim.training.population_updates.population_view import with_present_values
from popsim.training.steps.gradients import BackpropThroughTime, BatchRun
from popsim.training.steps.member_step import MemberStep, starts_finite, trials_differ, trials_of_batch
from popsim.training.steps.model_updates import TrainedBatch, changed_leaves, first_carry
from popsim.training.steps.optimizers import learning_rate_of
from popsim.training.steps.train_state import OWN, TrainState, state_parts
from popsim.trial import Trial, check_trials

__all__ = ["TrainingPlan", "plan_training"]

CAPACITY = 64
MAX_TRAINABLES_BYTES = 256 * 2**20


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

    def __init__(self, trainer: TrainerOptions, training: Training):
        self.trainer, self.training = trainer, training
        self.count = n_members(training.model) if training.ensembled else None
        check_options(trainer, training, self.count)
        self.batches = BatchNumbers(trainer, training)
        ids = np.arange(self.count or 1) if training.members is None else training.members.ids
        self.member_ids = as_array(ids if training.ensembled else ids[0], int)
        self.layout = MemberLayout.over(trainer.devices if training.ensembled else None, self.count or 1)
        self._plan_states()
        self._plan_trials()
        self._plan_changes()

    def _plan_states(self) -> None:
        trainer, training = self.trainer, self.training
        step = _member_step(trainer, training)
        state = _new_state(trainer, training, step, self.batches.phases.where_train)
        finite = starts_finite((state.opt_state, state.loss_fn_state.gradient))
        # An optimizer may start from infinity; such a leaf says nothing about a member, and is never checked.
        self.step = dataclasses.replace(step, starts_finite=finite)
        self.population_updates = plan_population_updates(
            trainer, training, self.step, state, log_batches=self.batches.logged, count=self.count
        )
        self.new_state, self.state = state, _first_state(training, state, self.population_updates)

    def _plan_trials(self) -> None:
        training = self.training
        self.first_trials = self.trials_of(training.start_batch)
        # Tasks that differ give different trials even where all members draw the same numbers.
        self.trials_by_member = training.ensembled and trials_differ(
            training.task, shared_trials=self.step.shared_trials
        )
        check_trials("trial", self._trials_of_first_member())
        self.validation_trials = validation_trials(training.task, self.count or 1)
        trials = merge_member_axis(self.first_trials) if self.trials_by_member else self.first_trials
        sizes = _check_fit(training, trials, self.validation_trials)
        self.new_state, self.state = (
            state.with_trained_inputs(sizes) for state in (self.new_state, self.state)
        )

    def _plan_changes(self) -> None:
        trainer, training, step = self.trainer, self.training, self.step
        traced = (trainer.optimizer, step.gradient, step.updates, step.post_step_fns, step.loss_update_func)
        with drawing_from_key("the optimizer, the gradient and each update", *traced):
            self.recorded, state_bytes = check_changes(
                *self.first_member(), self._trials_of_first_member(), self.batches.phases.trained.values()
            )
        self.member_batch_size = trainer.member_batch_size
        if trainer.member_batch_size is None and training.ensembled and self.layout.platform == "cpu":
            weight_bytes = bytes_of((training.model, self.state.params)) // self.layout.n_members
            self.member_batch_size = members_at_a_time(self.layout.n_on_device, weight_bytes, state_bytes)

    def _trials_of_first_member(self) -> Trial:
        return _of_first(self.first_trials) if self.trials_by_member else self.first_trials

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

    def first_member(self) -> tuple[MemberStep, TrainState]:
        """Return the step and the state of one member, the state of an ensemble as shapes."""
        if not self.training.ensembled:
            return self.step, self.state
        # Shapes suffice to see what changes: slicing the first member would copy all of its state.
        shapes = eqx.filter_eval_shape(_of_first, state_parts(self.state, OWN))
        return select_member(self.step, 0), dataclasses.replace(self.state, **shapes)

    def trials_of(self, batch: int, hyperparameters: PyTree = None) -> Trial:
        """Return the trials of a batch; `hyperparameters` are those at present, None for those given."""
        task = self.training.task
        if hyperparameters is not None:
            task = with_present_values(task, self.layout.gather(hyperparameters), self.step)
        return trials_of_batch(
            task,
            self.training.batch_size,
            as_array(batch, int),
            member_ids=self.member_ids,
            shared_trials=self.step.shared_trials,
            key=self.training.key,
        )

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
            for first_batch, trained in self.batches.phases.trained.items()
        }


def plan_training(trainer: TrainerOptions, training: Training) -> TrainingPlan:
    """Return the plan of a training."""
    return TrainingPlan(trainer, training)


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


def _new_state(trainer: TrainerOptions, training: Training, step: MemberStep, where_train: Any) -> TrainState:
    initial = TrainState.initial_ensemble if training.ensembled else TrainState.initial_state
    state = initial(training.model, trainer.optimizer, training.key, where_train=where_train)
    has_rate = not isinstance(state.opt_state, optax.EmptyState)  # `optax.set_to_zero` has no rate
    if has_rate and np.all(np.isnan(learning_rate_of(state.opt_state))):
        warn_caller(
            "the optimizer does not tell its learning rate: it is NaN in the history. "
            "Build it with popsim.training.adam, or wrap it in popsim.training.inject_hyperparams."
        )

    def carry_of(model, params, values):
        return with_member_values(step, values).initial_carry(model, params)

    count = n_members(training.model) if training.ensembled else 1
    values = member_values(step, count, "trainer")
    carries_of = eqx.filter_vmap(carry_of) if training.ensembled else carry_of
    carry = carries_of(training.model, state.params, values)
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
        check_like("`opt_state`", training.opt_state, state.opt_state, "that of this optimizer and model")
        state = dataclasses.replace(state, opt_state=jax.tree.map(jnp.asarray, training.opt_state))
    return updates.with_first_states(state) if updates.updates else state


def _of_first(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, tree)


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
    validation = _of_first(validation) if differs_between_members(training.task) else validation
    check_trials_of(model, validation, task.loss)
    sizes = model.input_sizes(separate_trials(validation))
    check_trials_of(with_trained_inputs(model, sizes), trials, task.loss)
    _check_something_counts(task.loss, separate_trials(validation), separate_trials(trials))
    return sizes


def _check_something_counts(loss: Loss, *trials: Trial) -> None:
    """Raise `ValueError` if a term counts nothing in any of the stacked trials."""
    for term in loss.terms:
        weights = [term.trial_weights(each) for each in trials]
        if all(each is not None and not np.any(each) for each in weights):
            raise ValueError(
                f"`trial` of `task` must return something that counts for the term {term.name!r} of `loss`, "
                "got nothing in the first batch and in the validation trials: see the counts of targets or "
                "recordings, and the profile of the term."
            )


def check_changes(
    step: MemberStep, state: TrainState, trials: Trial | None, trained: Iterable[PyTree[bool] | None]
) -> tuple[PyTree[bool], int]:
    """Return which leaves of the model training changes, and the bytes of the states of a minibatch.

    Raise unless model, loss, gradient, optimizer and updates return what they should.
    """
    model, number = state.model, as_array(0, int)

    def first_run(state: TrainState, trials: Trial | None) -> BatchRun:
        run = step.batch_run(state, batch=number, member_id=number, trials=trials)
        return dataclasses.replace(run, keeps_states=True)

    run = eqx.filter_eval_shape(first_run, state, trials)
    trained_batch = eqx.filter_eval_shape(BatchRun.__call__, run, state.params)
    for trained_params in trained:
        step_now = dataclasses.replace(step, trained=trained_params)
        _check_gradient(step_now, state, run, trained_batch)
        _check_optimizer(step_now, state, run, trained_batch)
    is_kept = state.is_param
    for update in step.updates:

        def next_carry(state: PyTree, model: AbstractModel, batch: TrainedBatch, update=update) -> PyTree:
            return update(model, batch, state, key=seed_key(0))[1]

        changed = changed_leaves(update, model, trained_batch)
        is_kept = jax.tree.map(lambda was_kept, changes: was_kept or changes, is_kept, changed)
        carried = eqx.filter_eval_shape(first_carry, update, model)
        name = f"state of {type(update).__name__} in model_update_funcs"
        _check_same(name, next_carry, carried, model, trained_batch)
    for index, post_step in enumerate(step.post_step_fns):
        _check_same(f"post_step_fns[{index}]", post_step, model)
    if step.loss_update_func is not None:
        weights = step.task.loss.weights.items()
        if scheduled := [name for name, weight in weights if isinstance(weight, AbstractBatchSchedule)]:
            raise ValueError(
                "`loss_update_func` updates weights that are numbers, but those of "
                f"{scheduled} in `task.loss` follow a schedule over training batches."
            )
        values = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((), leaf.dtype), trained_batch.losses)
        _check_same("loss_update_func", step.loss_update_func, trained_batch.loss, values, state.params)
    return is_kept, bytes_of(trained_batch.initial_states) // step.n_minibatches


def _check_gradient(step: MemberStep, state: TrainState, run: BatchRun, batch: TrainedBatch) -> None:
    if type(step.gradient) is BackpropThroughTime:  # whose derivatives the loop alone need trace
        return
    name = type(step.gradient).__name__
    params = step.trained_params(state.params)

    def gradient(params: PyTree, carry: PyTree, run: BatchRun) -> Any:
        returned = step.gradient(run, params, carry, key=seed_key(0))
        if not isinstance(returned, tuple) or len(returned) != 3:
            raise ValueError(
                f"`gradient` {name} must return gradients, the batch and its carry, "
                f"got {short_repr(returned)}."
            )
        return returned

    carry = state.loss_fn_state.gradient
    gradients, run_batch, next_carry = eqx.filter_eval_shape(gradient, params, carry, run)
    check_like(f"what `gradient` {name} returns as gradients", gradients, params, "`params`")
    check_like(f"the batch of `gradient` {name}", run_batch, batch, "that of `run(params)`")
    check_like(f"the carry of `gradient` {name}", next_carry, carry, "the carry that it is given")


def _check_optimizer(step: MemberStep, state: TrainState, run: BatchRun, batch: TrainedBatch) -> None:
    def next_opt_state(opt_state, state, batch, run):
        stepped = dataclasses.replace(state, opt_state=opt_state)
        return step.apply_gradients(stepped, state.params, batch.mean_loss, run).opt_state

    try:
        _check_same("optimizer", next_opt_state, state.opt_state, state, batch, run)
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        reason = str(error).partition("\n")[0]
        phase = "" if step.trained is None else " where `where_train` trains other parts in other batches"
        raise ValueError(f"`optimizer` cannot train this model{phase}: {reason}") from error


def _check_same(name: str, function: Callable[..., Any], first: Any, *arguments: Any) -> None:
    """Raise `ValueError` unless a function returns arrays like its first argument."""
    check_like(f"what `{name}` returns", eqx.filter_eval_shape(function, first, *arguments), first)


def check_like(name: str, given: Any, expected: Any, like: str = "what it is given") -> None:
    """Raise `ValueError` unless a PyTree has the structure, shapes and dtypes expected."""

    def forms_of(tree: Any) -> Any:
        arrays = eqx.filter(tree, lambda leaf: hasattr(leaf, "shape"))
        return jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", arrays)

    expected_forms, forms = forms_of(expected), forms_of(given)
    if jax.tree.structure(forms) != jax.tree.structure(expected_forms):
        raise ValueError(
            f"{name} must be a {type(expected).__name__} with the structure of {like}, "
            f"got {jax.tree.structure(forms)}."
        )
    pairs = zip(jax.tree.leaves_with_path(expected_forms), jax.tree.leaves(forms), strict=True)
    for (path, expected_form), form in pairs:
        if form != expected_form:
            where = f" at {jax.tree_util.keystr(path)}" if path else ""
            raise ValueError(f"{name} must be {expected_form}{where}, like {like}, got {form}.")
