"""What tasks need in common to stand in for one another in a training."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from popsim.batch_schedules import AbstractBatchSchedule, Phases
from popsim.checks import is_traced
from popsim.loss import Loss
from popsim.output_target import OutputTarget
from popsim.per_member import has_per_member, without_member_axes
from popsim.task import AbstractTask
from popsim.trial import Trial, label_trial, n_trials


def common_loss(tasks: Sequence[AbstractTask], loss: Loss | None) -> Loss:
    """The `loss` that is given, or if None the one that all tasks have.

    Weights that JAX is tracing are taken to be the same.

    **Raises:** `ValueError` if there is no task, or none is given and they have not the same.
    """
    if not tasks:
        raise ValueError("`tasks` must be at least one, got none.")
    if loss is not None:
        return loss
    same = [eqx.tree_equal(task.loss, tasks[0].loss) for task in tasks]
    if not all(is_traced(one) or one for one in same):
        raise ValueError("`loss` must be given where `tasks` have not the same loss.")
    return tasks[0].loss


def check_same_trials(tasks: Sequence[AbstractTask]) -> None:
    """Raise `ValueError` unless the trials of all tasks have the same structure and shapes."""

    def outline(task: AbstractTask) -> list:
        own = without_member_axes(task)
        trial = eqx.filter_eval_shape(lambda: own.trial(batch=0, key=jax.random.key(0)))
        leaves = jax.tree.leaves_with_path(trial)
        described = [f"{jax.tree_util.keystr(path)}: {leaf.dtype}{list(leaf.shape)}" for path, leaf in leaves]
        if isinstance(trial.targets, OutputTarget):
            described.append(f".targets.is_choice: {trial.targets.is_choice}")
        return [*described, f"time step {trial.timeline.dt}"]

    first = outline(tasks[0])
    for index, task in enumerate(tasks[1:], start=1):
        differs = set(first) ^ set(outline(task))
        if differs:
            raise ValueError(
                "`tasks` must have trials with the same inputs, targets, epochs and conditions, "
                f"but tasks[0] and tasks[{index}] differ in {sorted(differs)}."
            )


def check_shares(shares: AbstractBatchSchedule, n_tasks: int) -> None:
    """Raise `ValueError` unless every phase has a number for each task, none below zero and one above."""
    if has_per_member(shares):
        return
    given = shares.values if isinstance(shares, Phases) else shares(0)[None]
    if is_traced(given):
        return
    for number in np.asarray(given):
        if number.shape != (n_tasks,) or np.any(number < 0) or not np.any(number > 0):
            raise ValueError(
                f"`shares` must be one number for each of {n_tasks} tasks, none below zero and one above, "
                f"got {number}."
            )


def validation_trials_of_all(tasks: Sequence[AbstractTask], name: str) -> Trial:
    """The validation trials of all tasks, one task after the other; the condition `name` is its number."""

    def of_task(index: int, task: AbstractTask) -> Trial:
        trials = task.validation_trials()
        label = jnp.full(n_trials(trials), index)
        return label_trial(trials, {name: label})

    each = [of_task(index, task) for index, task in enumerate(tasks)]
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *each)
