"""Evaluation of models and ensembles on the validation trials of a task."""

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Int, Key, PRNGKeyArray, PyTree

from popsim._compiled import jit_fast_compile, map_trials
from popsim._shared.checks import check_positive_int
from popsim._shared.member_values import check_values_of_members
from popsim.ensemble import as_member_ids, map_members, member, n_members
from popsim.loss import Loss, LossValues
from popsim.model import AbstractModel, check_model, simulate
from popsim.per_member import (
    check_n_members,
    check_of_one_member,
    member_values,
    select_member,
    with_member_values,
)
from popsim.randomness import as_key, trial_keys
from popsim.session import separate_trials
from popsim.task import AbstractTask, build_validation_trials, check_task, differs_between_members
from popsim.trial import Trial, check_trials, n_trials

__all__ = ["Evaluation", "evaluate", "evaluate_ensemble"]


class Evaluation(eqx.Module):
    """States, with axes ((member,) trial, time, ...), and losses, with axes ((member,) trial)."""

    states: PyTree[Array]
    losses: LossValues


def evaluate(
    model: AbstractModel,
    task: AbstractTask,
    *,
    trials: Trial | None = None,
    member_id: int | Int[Array, ""] = 0,
    key: PRNGKeyArray,
) -> Evaluation:
    """Run a model on stacked trials and compute the task's loss for each.

    To run without noise, pass `without_noise(model)`.

    **Arguments:**

    - `model`: one model.
    - `task`: the task, for its loss.
    - `trials`: stacked trials; by default the task's validation trials.
    - `member_id`: the id of the model in an ensemble; selects the noise that it has in `evaluate_ensemble`.
    - `key`: for the noise; that of trial i depends only on `key`, `member_id` and i.
    """
    key = as_key(key)
    check_task(task)
    check_model("model", model)
    for name, value in (("task", task), ("model", model)):
        check_of_one_member(name, value)
    if trials is None:
        trials = build_validation_trials(task)
    else:
        check_trials("trials", trials)
    check_trials_of(model, trials, task.loss)
    member_id = as_member_ids("member_id", member_id)
    if member_id.ndim:
        raise ValueError(
            f"`member_id` must be one whole number, got {member_id.size}: `evaluate_ensemble` takes the "
            "members of an ensemble."
        )
    return evaluate_trials(model, task, trials, key, member_id)


def evaluate_ensemble(
    ensemble: AbstractModel,
    task: AbstractTask,
    *,
    trials: Trial | None = None,
    member_ids: Int[Array | np.ndarray, " member"] | None = None,
    member_batch_size: int | None = None,
    key: PRNGKeyArray,
) -> Evaluation:
    """Evaluate every member of an ensemble on the same trials, each with its own noise.

    The result has a leading member axis. Other arguments are as for `evaluate`.

    **Arguments:**

    - `task`: any `PerMember` in it, loss weights included, gives each member its own value. If anything but
        the loss differs, so do the validation trials, which are then made under `vmap`.
    - `trials`: stacked trials that all members share.
    - `member_ids`: the id that selects the noise of each member; by default its index. Members with the same
        id get the same noise.
    - `member_batch_size`: how many members are evaluated at a time, on which the last digits of the results
        depend; None for all.
    """
    key = as_key(key)
    check_task(task)
    check_model("ensemble", ensemble)
    count = n_members(ensemble)
    check_n_members(task, count, "task")
    ids = as_member_ids("member_ids", np.arange(count) if member_ids is None else member_ids)
    check_values_of_members("task", task)
    if ids.shape != (count,):
        raise ValueError(f"`member_ids` must be one for each of {count} members, got shape {ids.shape}.")
    if member_batch_size is not None:
        check_positive_int("member_batch_size", member_batch_size)
    checked = prepare_trials(ensemble, task, trials)
    return evaluate_members(ensemble, task, *checked, key, ids, member_batch_size)


def prepare_trials(ensemble: AbstractModel, task: AbstractTask, trials: Trial | None) -> tuple[Trial, bool]:
    """Return the trials of an ensemble, by default for validation, and whether each member has its own."""
    if trials is not None:
        check_trials("trials", trials)
    each_its_own = trials is None and differs_between_members(task)
    trials = validation_trials(task, n_members(ensemble)) if trials is None else trials
    check_trials_of(member(ensemble, 0), merge_member_axis(trials) if each_its_own else trials, task.loss)
    return trials, each_its_own


def check_trials_of(model: AbstractModel, trials: Trial, loss: Loss | None = None) -> None:
    """Raise `ValueError` unless a model can run stacked trials as trained, and a loss evaluate them."""
    trials = separate_trials(trials)
    model.check(trials)
    model.trained_inputs.check(model.input_sizes(trials))
    if loss is not None:
        loss.check(trials, model)


@jit_fast_compile
def merge_member_axis(trials: Trial) -> Trial:
    """Return trials with the axes (member, trial, ...) as those of one model."""
    return jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0] * leaf.shape[1], *leaf.shape[2:]), trials)


def validation_trials(task: AbstractTask, n_members: int) -> Trial:
    """Return the validation trials of an ensemble, with a member axis in front if members differ."""
    values_of_members = member_values(task, n_members, "task")
    if not differs_between_members(task):
        return build_validation_trials(select_member(task, 0))
    return jax.vmap(lambda values: build_validation_trials(with_member_values(task, values)))(
        values_of_members
    )


@jit_fast_compile
def evaluate_trials(
    model: AbstractModel, task: AbstractTask, trials: Trial, key: Key[Array, ""], member_id: Int[Array, ""]
) -> Evaluation:
    """Return the evaluation of one model on trials that were checked."""

    def one_trial(trial, trial_key):
        states = simulate(model, trial, key=trial_key)
        return Evaluation(states, task.loss(states, trial, model))

    return map_trials(one_trial, trials, trial_keys(key, n_trials(trials), member_id=member_id))


@jit_fast_compile
def evaluate_members(
    ensemble: AbstractModel,
    task: AbstractTask,
    trials: Trial,
    each_its_own: bool,
    key: Key[Array, ""],
    member_ids: Int[Array, " member"],
    member_batch_size: int | None,
) -> Evaluation:
    """Return the evaluation of an ensemble on what `prepare_trials` returns."""
    arrays, static = eqx.partition(ensemble, eqx.is_array)

    def one_member(of_member):
        arrays, values, own_trials, member_id = of_member
        model = eqx.combine(arrays, static)
        member_trials = own_trials if each_its_own else trials
        return evaluate_trials(model, with_member_values(task, values), member_trials, key, member_id)

    values_of_members = member_values(task, member_ids.shape[0], "task")
    members = (arrays, values_of_members, trials if each_its_own else None, member_ids)
    return map_members(one_member, members, member_batch_size)
