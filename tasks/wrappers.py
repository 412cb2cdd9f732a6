"""Tasks that wrap other tasks, and sessions of their trials."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key

from popsim._shared.argument_shapes import check_fields
from popsim._shared.checks import as_parts, check_positive_int, explain_errors, is_traced, short_repr
from popsim._shared.member_values import check_modules
from popsim._shared.plain_values import plain_number
from popsim.interventions.intervention_plan import InterventionPlan
from popsim.loss import Loss
from popsim.parameters import replace_fields
from popsim.per_member import has_per_member, without_member_axes
from popsim.randomness import key_of_seed, key_stream, seed_key
from popsim.schedules import LAST_BATCH, AbstractBatchSchedule, PiecewiseSchedule, as_batch_schedule
from popsim.session import CARRIED, check_carry, join_trials
from popsim.task import AbstractTask
from popsim.trial import OutputTarget, Trial, label_trial, n_trials

__all__ = [
    "HeldOutConditions",
    "Mixture",
    "TaskCurriculum",
    "ParameterCurriculum",
    "Session",
    "WithFixation",
    "WithInterventions",
]


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

    first = outline(tasks[0])
    for index, task in enumerate(tasks[1:], start=1):
        differs = set(first) ^ set(outline(task))
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


class AbstractWrapper(AbstractTask):
    """A task that changes the trials of another one, and has its loss."""

    task: AbstractTask

    @property
    def loss(self) -> Loss:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The loss of the task."""
        return self.task.loss


Conditions = Mapping[str, Array]


class HeldOutConditions(AbstractWrapper):
    """A task with some conditions held out from training, to test generalisation.

    `HeldOutConditions(task, lambda conditions: abs(conditions["direction"]) < 0.5)`. A training trial that is
    held out is redrawn. The validation trials are all those of the task; their condition "held out" tells
    which conditions were never trained.

    **Arguments:**

    - `task`: the task.
    - `is_held_out`: a function from the conditions of one trial to whether it is held out; it is traced.
    - `n_attempts`: the maximum number of draws of a trial.
    """

    is_held_out: Callable[[Conditions], Bool[Array, ""]] = eqx.field(static=True)
    n_attempts: int = eqx.field(static=True, converter=plain_number)

    def __init__(
        self, task: AbstractTask, is_held_out: Callable[[Conditions], Any], *, n_attempts: int = 1000
    ):
        self.task, self.is_held_out, self.n_attempts = task, is_held_out, n_attempts

    def __check_init__(self):
        check_positive_int("n_attempts", self.n_attempts)

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        def attempt(index: Int[Array, ""]) -> Trial:
            return self.task.trial(batch=batch, key=jax.random.fold_in(key_stream(key, "attempt"), index))

        def is_rejected(index: Int[Array, ""]) -> Bool[Array, ""]:
            return jnp.asarray(self.is_held_out(attempt(index).conditions))

        accepted = jax.lax.while_loop(
            lambda index: (index < self.n_attempts) & is_rejected(index),
            lambda index: index + 1,
            jnp.array(0),
        )
        accepted = eqx.error_if(
            accepted,
            accepted == self.n_attempts,
            f"`is_held_out` must leave trials to train on, but held out {self.n_attempts} draws in a row.",
        )
        return label_trial(attempt(accepted), {"held out": jnp.asarray(False)})

    def validation_trials(self) -> Trial:
        def label(trial: Trial) -> Trial:
            return label_trial(trial, {"held out": jnp.asarray(self.is_held_out(trial.conditions))})

        return jax.vmap(label)(self.task.validation_trials())


class AbstractSeveralTasks(AbstractTask):
    """Several tasks with trials of the same structure, of which a trial has one."""

    tasks: eqx.AbstractVar[tuple[AbstractTask, ...]]
    condition: eqx.AbstractClassVar[str]

    def __check_init__(self):
        check_same_trials(self.tasks)

    def validation_trials(self) -> Trial:
        each = [task.validation_trials() for task in self.tasks]
        numbers = [jnp.full(n_trials(trials), index) for index, trials in enumerate(each)]
        labels = ({self.condition: number} for number in numbers)
        return concatenated(list(map(label_trial, each, labels)))


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
    phases: PiecewiseSchedule
    loss: Loss
    condition = "phase"

    def __init__(self, tasks: Sequence[AbstractTask], starts: Sequence[int], *, loss: Loss | None = None):
        self.tasks = as_parts("tasks", tasks, AbstractTask, "tasks")
        self.loss = common_loss(self.tasks, loss)
        if not isinstance(starts, Sequence) or len(starts) != len(self.tasks):
            each = f"one batch for each of {len(self.tasks)} tasks"
            raise ValueError(f"`starts` must be {each}, got {short_repr(starts)}.")
        self.phases = PiecewiseSchedule(tuple(starts), jnp.arange(float(len(starts))))

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        phase = self.phases.phase(batch)
        branches = [lambda key, task=task: task.trial(batch=batch, key=key) for task in self.tasks]
        return label_trial(jax.lax.switch(phase, branches, key), {"phase": phase})


class ParameterCurriculum(AbstractWrapper):
    """A task whose array `where(task)` follows a schedule over training batches: a curriculum.

    `ParameterCurriculum(task, lambda task: task.catch_probability, LinearSchedule(0.0, 0.2, last_batch=9))`.
    The validation trials are those of the task with the final value of the schedule.

    **Arguments:**

    - `task`: the task.
    - `where`: a function that selects one array of the task, such as a bound of a distribution.
    - `schedule`: the value in each training batch, of the same shape.
    """

    where: Callable[[Any], Any] = eqx.field(static=True)
    schedule: AbstractBatchSchedule

    def __init__(self, task: AbstractTask, where: Callable[[Any], Any], schedule: AbstractBatchSchedule):
        self.task, self.where, self.schedule = task, where, schedule

    def __check_init__(self):
        check_fields(self)
        with explain_errors("`where`", "(task)"):
            picked = self.where(self.task)
        if not eqx.is_inexact_array(picked):
            raise ValueError(f"`where` must pick a floating-point array of the task, got {picked!r}.")
        shape = jax.eval_shape(lambda: without_member_axes(self.schedule)(0)).shape
        if shape != picked.shape:
            raise ValueError(f"`schedule` must be of the shape of `where`, {picked.shape}, got {shape}.")
        starts = self.schedule.starts if isinstance(self.schedule, PiecewiseSchedule) else (0, LAST_BATCH)
        if not has_per_member(self.schedule):
            for batch in starts:
                check_modules("schedule", self.at_batch(batch))

    def at_batch(self, batch: int | Int[Array, ""]) -> AbstractTask:
        """Return the task in a given training batch."""
        return eqx.tree_at(self.where, self.task, self.schedule(batch))

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        return self.at_batch(batch).trial(batch=batch, key=key)

    def validation_trials(self) -> Trial:
        return self.at_batch(LAST_BATCH).validation_trials()


class WithFixation(AbstractWrapper):
    """A task with an additional fixation input: 1 until an event, then 0.

    The input is 1 throughout if the event never comes, like the go cue in a catch trial.

    **Arguments:**

    - `task`: the task, with named inputs.
    - `until`: the event that ends fixation.
    - `name`: the name of the input.
    """

    until: str = eqx.field(static=True)
    name: str = eqx.field(static=True)

    def __init__(self, task: AbstractTask, until: str = "go cue", *, name: str = "fixation"):
        self.task, self.until, self.name = task, until, name

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        return self._with_fixation(self.task.trial(batch=batch, key=key))

    def validation_trials(self) -> Trial:
        return jax.vmap(self._with_fixation)(self.task.validation_trials())

    def _with_fixation(self, trial: Trial) -> Trial:
        inputs = trial.inputs if jax.tree.leaves(trial.inputs) else {}
        if not isinstance(inputs, dict) or self.name in inputs:
            raise ValueError(f"`name` must be a new name, and the inputs must have names, got {self.name!r}.")
        fixation = (~trial.timeline.since(self.until)).astype(float)[:, None]
        return dataclasses.replace(trial, inputs=inputs | {self.name: fixation})


class WithInterventions(AbstractWrapper):
    """A task with interventions scheduled by plans.

    The validation trials are those of the task without interventions, then all of them again under each plan
    alone. A condition with the name of each intervention tells whether it acts in a trial.

    **Arguments:**

    - `task`: the task.
    - `plans`: the plans of the interventions, which the model must hold; a plan may exclude trials with
        interventions of earlier plans.
    """

    plans: tuple[InterventionPlan, ...]

    def __init__(self, task: AbstractTask, plans: Sequence[InterventionPlan]):
        self.task = task
        self.plans = as_parts("plans", plans, InterventionPlan, "plans of interventions")

    def __check_init__(self):
        twice = [name for name, count in Counter(plan.name for plan in self.plans).items() if count > 1]
        if twice:
            raise ValueError(f"`plans` must be of different interventions, got {twice} more than once.")
        if delayed := [plan for plan in self.plans if plan.fixed_delays]:
            task = without_member_axes(self.task)
            dt = eqx.filter_eval_shape(lambda: task.trial(batch=0, key=seed_key(0))).timeline.dt
            for plan in delayed:
                plan.check_dt(dt)

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        trial = self.task.trial(batch=batch, key=key)
        for plan in self.plans:
            trial = plan.schedule(trial, batch=batch, key=key_stream(key, f"plan of {plan.name}"))
        return trial

    def validation_trials(self) -> Trial:
        trials = self.task.validation_trials()
        keys = jax.vmap(jax.random.fold_in, (None, 0))(seed_key(0), jnp.arange(n_trials(trials)))
        under = [
            jax.vmap(lambda trial, key, acts=acts: self._with_plans(trial, acts, key))(trials, keys)
            for acts in jnp.eye(len(self.plans) + 1, len(self.plans), k=-1, dtype=bool)
        ]
        return concatenated(under)

    def _with_plans(self, trial: Trial, acts: Bool[Array, " plan"], key: Key[Array, ""]) -> Trial:
        for index, plan in enumerate(self.plans):
            plan_key = key_stream(key, f"plan of {plan.name}")
            trial = plan.schedule_if(acts[index], trial, batch=LAST_BATCH, key=plan_key)
        return trial


class Session(AbstractTask):
    """Trials that follow one another, through which a network keeps its hidden state.

    A trial of this task is a whole session: the trials are drawn ahead, and joined on one axis of time. What
    depends on what the network did in an earlier trial is an environment, whose state continues. The loss is
    the mean of that of the trials. In a policy gradient what a later trial pays is credited to earlier
    choices, unless nothing is carried, or its terms have `cut_credit`. A body starts anew in each trial.

    States have the axes (session, time of all trials, ...); `popsim.session.split_time` divides their time
    into trials; `axis=2` is time where members come first. Conditions have the axes (session, trial).

    - Inputs, targets and conditions: those of the task.

    **Arguments:**

    - `task`: the task of each trial. For blocks of several tasks, see `in_blocks`.
    - `n_trials`: the number of trials in a session.
    - `carry`: what continues from one trial to the next, some of "hidden" and "environment".
    - `cut_gradient`: whether derivatives end where a trial begins; else they flow through the session. It
        does not cut the credit of a policy gradient.
    - `n_validation`: the number of sessions that validate, which are drawn as in training.
    """

    tasks: tuple[AbstractTask, ...]
    n_trials: tuple[int, ...] = eqx.field(static=True)
    carry: tuple[str, ...] = eqx.field(static=True)
    cut_gradient: bool = eqx.field(static=True)
    n_validation: int = eqx.field(static=True)
    loss: Loss

    def __init__(
        self,
        task: AbstractTask,
        n_trials: int,
        *,
        carry: Sequence[str] = CARRIED,
        cut_gradient: bool = False,
        n_validation: int = 8,
    ):
        check_positive_int("n_trials", n_trials)
        check_positive_int("n_validation", n_validation)
        self.tasks, self.n_trials = (task,), (int(n_trials),)
        self.carry, self.cut_gradient = check_carry(carry), cut_gradient
        self.n_validation, self.loss = int(n_validation), task.loss

    @classmethod
    def in_blocks(cls, blocks: Sequence[tuple[AbstractTask, int]], **options: Any) -> "Session":
        """Return a session of several blocks, such as a force field that comes and goes.

        `Session.in_blocks([(reaches, 20), (with_field, 40), (reaches, 20)])`.

        **Arguments:**

        - `blocks`: the task of each block, and its number of trials. Their trials must have the same inputs,
            targets, epochs and conditions, and all tasks the same loss.
        - `options`: those of `Session`.
        """
        blocks = tuple(blocks)
        if not blocks:
            raise ValueError("`blocks` must be at least one, got none.")
        sessions = [cls(task, n_trials, **options) for task, n_trials in blocks]
        tasks = tuple(task for session in sessions for task in session.tasks)
        check_same_trials(tasks)
        counts = tuple(count for session in sessions for count in session.n_trials)
        return replace_fields(sessions[0], tasks=tasks, n_trials=counts, loss=common_loss(tasks, None))

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        blocks = [
            jax.vmap(lambda key, task=task: task.trial(batch=batch, key=key))(
                jax.random.split(key_stream(key, f"block {index}"), count)
            )
            for index, (task, count) in enumerate(zip(self.tasks, self.n_trials, strict=True))
        ]
        return join_trials(concatenated(blocks), carry=self.carry, cut_gradient=self.cut_gradient)

    def validation_trials(self) -> Trial:
        keys = jax.random.split(key_of_seed(0, "validation sessions"), self.n_validation)
        return jax.vmap(lambda key: self.trial(batch=LAST_BATCH, key=key))(keys)
