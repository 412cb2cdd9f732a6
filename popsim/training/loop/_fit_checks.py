"""Checks that options, task, model and updates fit together, before anything is compiled."""

import dataclasses
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from popsim._checks import bytes_of, short_repr
from popsim._compiled import as_array
from popsim._member_values import check_values_of_members
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
from popsim.training.steps.model_updates import AbstractModelUpdate, TrainedBatch, changed_leaves, first_carry
from popsim.training.steps.train_state import TrainState
from popsim.trial import Trial


def check_options(trainer: TrainerOptions, training: Training, count: int | None) -> None:
    """Raise `ValueError` if the options of a trainer and of a training do not fit together."""
    if training.restore_checkpoint and trainer.folder is None:
        raise ValueError(
            "`restore_checkpoint` needs `chkpt_dir`, the folder of the training, and `checkpointing`: "
            f"got {trainer.chkpt_dir} and {trainer.checkpointing}."
        )
    if training.members is not None and training.members.n_members != (count or 1):
        raise ValueError(
            f"`members` must be the {count or 1} of the model, got {training.members.n_members}."
        )
    parts = {
        "task": training.task,
        "model_update_funcs": trainer.model_update_funcs,
        "post_step_fns": trainer.post_step_fns,
        "gradient": trainer.gradient,
    }
    if count is None:
        for name in ("devices", "member_batch_size"):
            if getattr(trainer, name) is not None:
                raise ValueError(
                    f"`{name}` must be None for a single model, got {getattr(trainer, name)}: it divides "
                    "the members of an ensemble, which is trained with `ensembled=True`."
                )
        for name, part in parts.items():
            check_of_one_member(name, part)
    else:
        check_n_members(training.task, count, "task")
        for name, part in parts.items():
            check_values_of_members(name, part)
    _check_population(trainer, training, count)
    if training.batch_size % trainer.n_minibatches:
        raise ValueError(
            f"`batch_size` must divide into n_minibatches = {trainer.n_minibatches} parts, "
            f"got {training.batch_size}."
        )


def _check_population(trainer: TrainerOptions, training: Training, count: int | None) -> None:
    """Raise `ValueError` if population updates do not fit the training."""
    population, updates = training.population, trainer.population_updates
    if population is not None and not any(update.replaces for update in updates):
        raise ValueError(
            "`population` needs a population update that replaces members, such as "
            "PopulationBasedTraining, got none."
        )
    if population is not None and population.own_places.size != count:
        raise ValueError(
            f"`population` must have places of the {count} members, got {population.own_places.size}."
        )
    if np.size(np.asarray(training.reset_opt_state_at)) and any(
        update.replaces or hyperparameters_of(update) != () for update in updates
    ):
        raise ValueError(
            "`reset_opt_state_at` must be empty with `population_updates` that replace members or set "
            "hyperparameters: it would undo what they did."
        )


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
        _check_same(name, _carry_of(update), carried, model, trained_batch)
        is_kept = jax.tree.map(lambda was_kept, changes: was_kept or changes, is_kept, changed)
    for index, post_step in enumerate(step.post_step_fns):
        _check_same(f"post_step_fns[{index}]", post_step, model)
    if step.loss_update_func is not None:
        _check_weights_are_numbers(step.task.loss)
        values = jax.tree.map(_mean_shape, trained_batch.losses)
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
    _check_like(f"gradients of {name}", gradients, params, "`params`")
    _check_like(f"batch of {name}", run_batch, batch, "that of `run(params)`")
    _check_like(f"carry of {name}", next_carry, carry, "the carry that it is given")


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
        raise ValueError(
            f"`optimizer`{_raising_transformation(error)} cannot train this model{phase}: {reason}"
        ) from error


def _raising_transformation(error: Exception) -> str:
    """Return the name of the optax transformation that raised the error, if any."""
    codes = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    optax_names = [code.co_qualname for code in codes if "optax" in code.co_filename]
    names = [name.partition(".<locals>.")[0] for name in optax_names if ".<locals>." in name]
    return f" ({names[-1]})" if names else ""


def _carry_of(update: AbstractModelUpdate) -> Callable[..., PyTree]:
    """Return the function from the state of an update to its next state."""
    return lambda state, model, batch: update(model, batch, state, key=seed_key(0))[1]


def _mean_shape(leaf: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((), leaf.dtype)


def _check_same(name: str, function: Callable[..., Any], first: Any, *arguments: Any) -> None:
    """Raise `ValueError` unless a function returns arrays like its first argument."""
    _check_like(name, eqx.filter_eval_shape(function, first, *arguments), first)


def _check_like(name: str, returned: Any, expected: Any, model: str = "what it is given") -> None:
    """Raise `ValueError` unless what was returned has the structure, shapes and dtypes expected."""

    def forms_of(tree: Any) -> Any:
        arrays = eqx.filter(tree, lambda leaf: hasattr(leaf, "shape"))
        return jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", arrays)

    expected_forms, forms = forms_of(expected), forms_of(returned)
    if jax.tree.structure(forms) != jax.tree.structure(expected_forms):
        raise ValueError(
            f"`{name}` must return a {type(expected).__name__} with the structure of {model}, "
            f"got {jax.tree.structure(forms)}."
        )
    pairs = zip(jax.tree.leaves_with_path(expected_forms), jax.tree.leaves(forms), strict=True)
    for (path, expected_form), form in pairs:
        if form != expected_form:
            where = f" at {jax.tree_util.keystr(path)}" if path else ""
            raise ValueError(f"`{name}` must return {expected_form}{where}, like {model}, got {form}.")


def _check_weights_are_numbers(loss: Loss) -> None:
    """Raise if weights that a function updates follow a schedule."""
    scheduled = [name for name, weight in loss.weights.items() if isinstance(weight, AbstractBatchSchedule)]
    if scheduled:
        raise ValueError(
            "`loss_update_func` updates weights that are numbers, but those of "
            f"{scheduled} in `task.loss` follow a schedule over training batches."
        )
