"""Tasks that change the trials of another one."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from popsim._shared.argument_shapes import check_fields
from popsim._shared.checks import as_parts, check_positive_int, explain_errors
from popsim._shared.member_values import check_modules
from popsim._shared.plain_values import plain_number
from popsim.interventions.intervention_plan import InterventionPlan
from popsim.loss import Loss
from popsim.network_input import inputs_by_name
from popsim.per_member import has_per_member, without_member_axes
from popsim.randomness import key_stream, seed_key, trial_keys
from popsim.schedules import (
    LAST_BATCH,
    AbstractBatchSchedule,
    PiecewiseSchedule,
    as_batch_schedule,
    check_fractions,
)
from popsim.senses import network_input_names
from popsim.task import AbstractTask, check_draws_trials
from popsim.tasks.mixtures import concatenated
from popsim.trial import Trial, label_trial, n_trials

__all__ = [
    "HeldOutConditions",
    "ParameterCurriculum",
    "WithFixation",
    "WithInterventions",
    "WithTeacherForcing",
]


class AbstractWrapper(AbstractTask):
    """A task that changes the trials of another one, and has its loss.

    Training trials come as those of the other one do, and are changed one by one.
    """

    task: AbstractTask

    def change(self, trial: Trial, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        """Return a training trial of the task as it is here; the key is that of the trial."""
        return trial

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        return self.change(self.at_batch(batch).trial(batch=batch, key=key), batch=batch, key=key)

    def trials(self, *, batch: int | Int[Array, ""], n: int, key: Key[Array, ""]) -> Trial:
        if self.draws_trials:
            return super().trials(batch=batch, n=n, key=key)
        trials = self.at_batch(batch).trials(batch=batch, n=n, key=key)
        keys = trial_keys(key_stream(key, "changes"), n, member_id=None)
        return jax.vmap(lambda trial, own: self.change(trial, batch=batch, key=own))(trials, keys)

    def at_batch(self, batch: int | Int[Array, ""]) -> AbstractTask:
        """Return the task in a given training batch."""
        return self.task

    @property
    def draws_trials(self) -> bool:
        """Whether the task draws each trial by itself."""
        return self.task.draws_trials

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
        check_draws_trials(self.task)

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
        return eqx.tree_at(self.where, self.task, self.schedule(batch))

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

    def change(self, trial: Trial, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        return self._with_fixation(trial)

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

    def change(self, trial: Trial, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        for plan in self.plans:
            trial = plan.schedule(trial, batch=batch, key=key_stream(key, f"plan of {plan.name}"))
        return trial

    def validation_trials(self) -> Trial:
        trials = self.task.validation_trials()
        keys = jax.vmap(jax.random.fold_in, (None, 0))(seed_key(0), jnp.arange(n_trials(trials)))
        none_then_each = jnp.eye(len(self.plans) + 1, len(self.plans), k=-1, dtype=bool)
        under_plans = jax.vmap(self._with_plans, (0, None, 0))
        return concatenated([under_plans(trials, acts, keys) for acts in none_then_each])

    def _with_plans(self, trial: Trial, acts: Bool[Array, " plan"], key: Key[Array, ""]) -> Trial:
        for index, plan in enumerate(self.plans):
            plan_key = key_stream(key, f"plan of {plan.name}")
            trial = plan.schedule_if(acts[index], trial, batch=LAST_BATCH, key=plan_key)
        return trial


class WithTeacherForcing(AbstractWrapper):
    """A task with the input of a `popsim.networks.TeacherForced`, in place of its input of observations.

    The input holds at each time step the strength of the forcing, and then what was observed. At the first
    step the strength is 1: each trial starts where it was observed. The validation trials have the final
    strength; `dataclasses.replace(task, strength=0.0)` is the task without forcing, for free runs from the
    same starts.

    **Arguments:**

    - `task`: the task, with named inputs.
    - `strength`: of the forcing after the first step, from 0 (none) to 1 (the observed replaces the state):
        a number, a `PerMember`, or a schedule over training batches.
    - `observed`: the name of the input with what was observed before each step, (time, observed).
    - `name`: the name of the new input, before all others in alphabetical order, which is that of the
        network's inputs.
    """

    strength: AbstractBatchSchedule
    observed: str = eqx.field(static=True)
    name: str = eqx.field(static=True)

    def __init__(
        self, task: AbstractTask, strength: Any, *, observed: str = "observed", name: str = "forcing"
    ):
        self.task, self.strength = task, as_batch_schedule(strength)
        self.observed, self.name = observed, name

    def __check_init__(self):
        check_fields(self)
        check_fractions("strength", self.strength)

    def change(self, trial: Trial, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        return self._with_forcing(trial, batch)

    def validation_trials(self) -> Trial:
        return jax.vmap(self._with_forcing, (0, None))(self.task.validation_trials(), LAST_BATCH)

    def _with_forcing(self, trial: Trial, batch: int | Int[Array, ""]) -> Trial:
        inputs = inputs_by_name(trial.inputs)
        if self.observed not in inputs:
            raise ValueError(f"`observed` must be an input of the task, {[*inputs]}, got {self.observed!r}.")
        observed = inputs.pop(self.observed)
        strength = jnp.full_like(observed[:, :1], self.strength(batch)).at[0].set(1)
        inputs[self.name] = jnp.concatenate([strength, observed], axis=1)
        trial = dataclasses.replace(trial, inputs=inputs)
        first, *_ = network_input_names(jax.tree.map(lambda leaf: leaf[None], trial))
        if first != self.name:
            raise ValueError(f"`name` must come before that of the input {first!r}, got {self.name!r}.")
        return trial
