"""Checks, before a loop is compiled, that all parts of a training change what they may."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax
from jaxtyping import PyTree

from popsim._compiled import as_array
from popsim._shared.checks import bytes_of
from popsim.model import AbstractModel
from popsim.randomness import seed_key
from popsim.schedules import AbstractBatchSchedule
from popsim.training.steps.batch_runs import BatchRun
from popsim.training.steps.gradients import BackpropThroughTime
from popsim.training.steps.member_step import MemberStep
from popsim.training.steps.model_updates import TrainedBatch, changed_leaves, first_carry
from popsim.training.steps.train_state import TrainState
from popsim.trial import Trial

__all__ = ["check_changes", "check_same_form"]


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
        return step.gradient(run, params, carry, key=seed_key(0))

    expected = (params, batch, state.loss_fn_state.gradient)
    returned = eqx.filter_eval_shape(gradient, params, expected[-1], run)
    like = "the gradients, the batch and the carry that it is given"
    check_same_form(f"what `gradient` {name} returns", returned, expected, like)


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


def _check_same(name: str, function: Callable[..., Any], like: Any, *arguments: Any) -> None:
    """Raise `ValueError` unless a function returns arrays like its first argument."""
    check_same_form(f"what `{name}` returns", eqx.filter_eval_shape(function, like, *arguments), like)


def check_same_form(name: str, given: Any, expected: Any, like: str = "what it is given") -> None:
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
