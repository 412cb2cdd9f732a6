"""Tasks of which a trial has one: mixtures and curricula, and what several tasks must have in common."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from popsim._shared.checks import as_parts, check_instance, is_traced
from popsim.loss import Loss
from popsim.per_member import has_per_member, without_member_axes
from popsim.randomness import key_stream, seed_key
from popsim.schedules import AbstractBatchSchedule, PiecewiseSchedule, as_batch_schedule
from popsim.task import AbstractTask, check_draws_trials
from popsim.trial import OutputTarget, Trial, label_trial, n_trials

__all__ = ["Mixture", "TaskCurriculum"]


def common_loss(tasks: Sequence[AbstractTask], loss: Loss | None) -> Loss:
    """Return `loss`, or if None the one that all tasks share; traced weights are taken to be equal."""
    if not tasks:
        raise ValueError("`tasks` must be at least one, got none.")
    if loss is not None:
        return loss
    same = [eqx.tree_equal(task.loss, tasks[0].loss) for task in tasks]
    if not all(is_traced(is_same) or is_same for is_same in same):
        raise ValueError("`loss` must be given where `tasks` have not the same loss.")
    return tasks[0].loss


def check_same_trials(tasks: Sequence[AbstractTask]) -> None:
    """Raise `ValueError` unless the trials of all tasks have the same structure and shapes."""

    def outline(task: AbstractTask) -> list:
        member_task = without_member_axes(task)
        trial = eqx.filter_eval_shape(lambda: member_task.trial(batch=0, key=seed_key(0)))
        leaves = jax.tree.leaves_with_path(trial)
        described = [f"{jax.tree_util.keystr(path)}: {leaf.dtype}{list(leaf.shape)}" for path, leaf in leaves]
        if isinstance(trial.targets, OutputTarget):
            described.append(f".targets.is_choice: {trial.targets.is_choice}")
        if trial.environment is not None:
            described.append(f".environment: {jax.tree.structure(trial.environment)}")
        return [*described, f"time step {trial.timeline.dt}"]

    expected = outline(tasks[0])
    for index, task in enumerate(tasks[1:], start=1):
        differs = set(expected) ^ set(outline(task))
        if differs:
            raise ValueError(
                "`tasks` must have trials with the same inputs, targets, epochs, conditions and environment, "
                f"but tasks[0] and tasks[{index}] differ in {sorted(differs)}."
            )


def as_shares(shares: Any, names: Sequence[Any], others: float | None = None) -> AbstractBatchSchedule:
    """Return the schedule of shares, which a dict may give by name; `others` of those that it lacks."""
    if isinstance(shares, Mapping):
        if not set(shares) <= set(names) or (others is None and len(shares) < len(names)):
            raise ValueError(f"`shares` must be those of {list(names)}, got {list(shares)}.")
        shares = [shares.get(name, others) for name in names]
    return as_batch_schedule(jnp.ones(len(names)) if shares is None else shares)


def check_shares(shares: AbstractBatchSchedule, n_tasks: int) -> None:
    """Raise `ValueError` unless each phase has one non-negative number per task, and a positive one."""
    if has_per_member(shares):
        return
    numbers = shares.values if isinstance(shares, PiecewiseSchedule) else shares(0)[None]
    if is_traced(numbers):
        return
    for number in np.asarray(numbers):
        if number.shape != (n_tasks,) or np.any(number < 0) or not np.any(number > 0):
            raise ValueError(
                f"`shares` must be one number for each of {n_tasks} tasks, none below zero and one above, "
                f"got {number}."
            )


def concatenated(trials: Sequence[Trial]) -> Trial:
    """Return stacked trials one after the other."""
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *trials)


class AbstractSeveralTasks(AbstractTask):
    """Several tasks with trials of the same structure, of which a trial has one."""

    tasks: eqx.AbstractVar[tuple[AbstractTask, ...]]
    condition: eqx.AbstractClassVar[str]

    def __check_init__(self):
        check_draws_trials(*self.tasks)
        check_same_trials(self.tasks)

    def validation_trials(self) -> Trial:
        of_tasks = [task.validation_trials() for task in self.tasks]
        return concatenated(
            [
                label_trial(trials, {self.condition: jnp.full(n_trials(trials), index)})
                for index, trials in enumerate(of_tasks)
            ]
        )


class Mixture(AbstractSeveralTasks):
    """A random mixture of several tasks with trials of the same structure.

    All trials have the same inputs, targets, epochs and conditions, and environments of the same class;
    `MultiTask` mixes tasks that differ in these. The condition "task" is the index of the task. The
    validation trials are those of all tasks.

    **Arguments:**

    - `tasks`: the tasks.
    - `shares`: the relative frequency of each task, not negative, or a schedule of these over training
        batches. All equal by default.
    - `loss`: the loss to train with; by default the one that all tasks share.
    """

    tasks: tuple[AbstractTask, ...]
    shares: AbstractBatchSchedule
    loss: Loss
    condition = "task"

    def __init__(self, tasks: Sequence[AbstractTask], shares: Any = None, *, loss: Loss | None = None):
        self.tasks = as_parts("tasks", tasks, AbstractTask, "tasks")
        self.loss = common_loss(self.tasks, loss)
        if isinstance(shares, Mapping):
            raise ValueError(f"`shares` must be in the order of `tasks`, without names, got {shares!r}.")
        self.shares = as_shares(shares, range(len(self.tasks)))

    def __check_init__(self):
        check_shares(self.shares, len(self.tasks))

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        index = jax.random.categorical(key_stream(key, "task"), jnp.log(self.shares(batch)))
        trials = [task.trial(batch=batch, key=key_stream(key, "trial")) for task in self.tasks]
        trial_of_task = jax.tree.map(lambda *leaves: jnp.stack(leaves)[index], *trials)
        return label_trial(trial_of_task, {"task": index})


class TaskCurriculum(AbstractSeveralTasks):
    """A sequence of tasks: trials are of `tasks[i]` from training batch `starts[i]`.

    All trials have the same inputs, targets, epochs and conditions, and environments of the same class. The
    condition "phase" is the index of the task. The validation trials are those of all tasks.

    **Arguments:**

    - `tasks`: the tasks in sequence.
    - `starts`: the first batch of each task, beginning with 0.
    - `loss`: the loss to train with; by default the one that all tasks share.
    """

    tasks: tuple[AbstractTask, ...]
    starts: tuple[int, ...] = eqx.field(static=True)
    loss: Loss
    condition = "phase"

    def __init__(self, tasks: Sequence[AbstractTask], starts: Sequence[int], *, loss: Loss | None = None):
        self.tasks = as_parts("tasks", tasks, AbstractTask, "tasks")
        self.loss = common_loss(self.tasks, loss)
        check_instance("starts", starts, Sequence, "the first batch of each task")
        self.starts = tuple(starts)

    def __check_init__(self):
        if len(self.starts) != len(self.tasks):
            raise ValueError(f"`starts` must be {len(self.tasks)}, one for each task, got {self.starts}.")
        _ = self.phases

    @property
    def phases(self) -> PiecewiseSchedule:
        """The index of the task by batch."""
        return PiecewiseSchedule(self.starts, jnp.arange(float(len(self.starts))))

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        phase = self.phases.phase(batch)
        branches = [lambda key, task=task: task.trial(batch=batch, key=key) for task in self.tasks]
        return label_trial(jax.lax.switch(phase, branches, key), {"phase": phase})
