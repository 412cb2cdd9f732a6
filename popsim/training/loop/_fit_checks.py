"""Checks that options, task, model and updates fit together, before anything is compiled."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from popsim._compiled import as_array
from popsim._shared.checks import bytes_of, short_repr
from popsim._shared.member_values import check_values_of_members
from popsim.evaluation import check_trials_of
from popsim.loss import Loss
from popsim.model import AbstractModel, with_trained_inputs
from popsim.per_member import check_n_members, check_of_one_member
from popsim.randomness import seed_key
from popsim.schedules import AbstractBatchSchedule
from popsim.session import separate_trials
from popsim.task import AbstractTask
from popsim.training.options import TrainerOptions, Training
from popsim.training.population_updates.base import hyperparameters_of
from popsim.training.steps.gradients import BackpropThroughTime, BatchRun
from popsim.training.steps.member_step import MemberStep
from popsim.training.steps.model_updates import TrainedBatch, changed_leaves, first_carry
from popsim.training.steps.train_state import TrainState
from popsim.trial import Trial


def check_options(trainer: TrainerOptions, training: Training, count: int | None) -> None:
    """Raise `ValueError` if the options of a trainer and of a training do not fit together."""
    population, members, n_members = training.population, training.members, count or 1
    n_given = n_members if members is None else members.n_members
    n_places = count if population is None else population.own_places.size
    updates, n_parts = trainer.population_updates, trainer.n_minibatches
    may_be_undone = any(update.replaces or hyperparameters_of(update) != () for update in updates)
    has_resets = np.size(np.asarray(training.reset_opt_state_at)) > 0
    refusals = {
        "`restore_checkpoint` needs `chkpt_dir`, the folder of the training, and `checkpointing`: "
        f"got {trainer.chkpt_dir} and {trainer.checkpointing}.": (
            training.restore_checkpoint and trainer.folder is None
        ),
        f"`members` must be the {n_members} of the model, got {n_given}.": n_given != n_members,
        "`population` needs a population update that replaces members, such as PopulationBasedTraining, got "
        "none.": population is not None and not any(update.replaces for update in updates),
        f"`population` must have places of the {count} members, got {n_places}.": n_places != count,
        "`reset_opt_state_at` must be empty with `population_updates` that replace members or set "
        "hyperparameters: it would undo what they did.": has_resets and may_be_undone,
        f"`batch_size` must divide into n_minibatches = {n_parts} parts, got {training.batch_size}.": (
            training.batch_size % n_parts != 0
        ),
        **{
            f"`{name}` must be None for a single model: it divides the members of an ensemble, which is "
            "trained with `ensembled=True`.": count is None and getattr(trainer, name) is not None
            for name in ("devices", "member_batch_size")
        },
    }
    for message, is_refused in refusals.items():
        if is_refused:
            raise ValueError(message)
    if count is not None:
        check_n_members(training.task, count, "task")
    check_part = check_of_one_member if count is None else check_values_of_members
    check_part("task", training.task)
    for name in ("model_update_funcs", "post_step_fns", "gradient"):
        check_part(name, getattr(trainer, name))


def check_fit(task: AbstractTask, model: AbstractModel, trials: Trial, validation: Trial) -> dict[str, int]:
    """Raise unless the task and the model of one member fit together."""
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
    step: MemberStep, state: TrainState, trials: Trial | None, trained: Sequence[PyTree[bool] | None]
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
        _check_optimizer(step_now, state, state.params, trained_batch, run)
    is_kept = state.is_param
    for update in step.updates:
        changed = changed_leaves(update, model, trained_batch)
        carried = eqx.filter_eval_shape(first_carry, update, model)
        name = f"state of {type(update).__name__} in model_update_funcs"

        def next_carry(state: PyTree, model: AbstractModel, batch: TrainedBatch, update=update) -> PyTree:
            return update(model, batch, state, key=seed_key(0))[1]

        _check_same(name, next_carry, carried, model, trained_batch)
        is_kept = jax.tree.map(lambda was_kept, changes: was_kept or changes, is_kept, changed)
    for index, post_step in enumerate(step.post_step_fns):
        _check_same(f"post_step_fns[{index}]", post_step, model)
    if step.loss_update_func is not None:
        weights = step.task.loss.weights.items()
        scheduled = [name for name, weight in weights if isinstance(weight, AbstractBatchSchedule)]
        if scheduled:
            raise ValueError(
                "`loss_update_func` updates weights that are numbers, but those of "
                f"{scheduled} in `task.loss` follow a schedule over training batches."
            )
        values = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((), leaf.dtype), trained_batch.losses)
        _check_same("loss_update_func", step.loss_update_func, trained_batch.loss, values, state.params)
    return is_kept, bytes_of(trained_batch.initial_states) // step.n_minibatches


def _check_gradient(step: MemberStep, state: TrainState, run: BatchRun, batch: TrainedBatch) -> None:
    """Raise `ValueError` unless the gradient returns what its contract says."""
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


def _check_optimizer(
    step: MemberStep, state: TrainState, gradients: PyTree, batch: TrainedBatch, run: BatchRun
) -> None:
    """Raise `ValueError` unless the optimizer can make a step and preserves the structure of its state."""

    def next_opt_state(opt_state, state, gradients, batch, run):
        stepped = dataclasses.replace(state, opt_state=opt_state)
        return step.apply_gradients(stepped, gradients, batch.mean_loss, run).opt_state

    try:
        _check_same("optimizer", next_opt_state, state.opt_state, state, gradients, batch, run)
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
