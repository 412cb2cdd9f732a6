"""One network, many tasks: an input tells which one a trial is of."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from popsim.batch_schedules import AbstractBatchSchedule, as_batch_schedule
from popsim.loss import Loss
from popsim.randomness import key_stream
from popsim.task import AbstractTask
from popsim.tasks.alternatives import check_shares, common_loss
from popsim.tasks.trial_layout import TrialLayout
from popsim.trial import Trial

TASK = "task"


class MultiTask(AbstractTask):
    """Each trial is of one of several tasks for networks without a body.

    As in Yang, Joglekar, Song, Newsome & Wang 2019, Nat Neurosci 22:297 (cited from memory), an input holds
    the rule: which task it is.

    - Inputs: "task" (one for each task), one-hot throughout, in the order of `names`; those of the tasks,
        where inputs of one name share their channels.
    - Targets: as many outputs as the task with most of them; those that a task lacks should be zero.
    - Epochs and events: those of all tasks. An epoch that a task lacks is empty, an event never comes.
    - Conditions: "task", the number of the task; those of all tasks, -1 or NaN where a task lacks them.

    What counts in each task are its targets; the loss is that of the mixture. Trials are as long as those
    of the longest task; in a shorter one nothing counts after its end. The validation trials are those
    of all tasks. Where some tasks ask for choices and others do not, `choice_accuracy` refuses the mixture.

    **Arguments:**

    - `tasks`: by name.
    - `shares`: how often each comes, in the order of `tasks`, in proportion: an array, or a schedule over
        training batches, such as `Phases((0, 500), [[1.0, 0.0], [1.0, 1.0]])`; one number for all alike.
    - `loss`: what counts as doing well; by default the loss that all tasks have.

    **Raises:** `ValueError` if there is no task, one needs a body or has interventions, an input or condition
    is called "task", time steps differ, one output stands for a choice beside tasks with more outputs,
    `shares` are negative, all zero, or not one for each task, or the tasks have different losses and none is
    given.
    """

    tasks: tuple[AbstractTask, ...]
    shares: AbstractBatchSchedule
    loss: Loss
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, tasks: Mapping[str, AbstractTask], *, shares: Any = None, loss: Loss | None = None):
        self.names = tuple(tasks)
        self.tasks = tuple(tasks.values())
        self.shares = as_batch_schedule(jnp.ones(len(self.tasks)) if shares is None else shares)
        self.loss = common_loss(self.tasks, loss)

    def __check_init__(self):
        check_shares(self.shares, len(self.tasks))

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        drawn = {
            name: task.trial(batch=batch, key=key_stream(key, f"task {name}"))
            for name, task in zip(self.names, self.tasks, strict=True)
        }
        layout = TrialLayout.of(drawn)
        fitted = [self._told(layout.fit(trial), index) for index, trial in enumerate(drawn.values())]
        log_shares = jnp.log(self.shares(batch))
        index = jax.random.categorical(key_stream(key, "which task"), log_shares)
        return jax.tree.map(lambda *leaves: jnp.stack(leaves)[index], *fitted)

    def validation_trials(self) -> Trial:
        stacked = [task.validation_trials() for task in self.tasks]
        firsts = [jax.tree.map(lambda leaf: leaf[0], trials) for trials in stacked]
        layout = TrialLayout.of(dict(zip(self.names, firsts, strict=True)))
        fitted = [
            jax.vmap(lambda trial, index=index: self._told(layout.fit(trial), index))(trials)
            for index, trials in enumerate(stacked)
        ]
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *fitted)

    def _told(self, trial: Trial, index: int) -> Trial:
        """The trial with the input and the condition that tell which task it is of."""
        for kind, named in (("an input", trial.inputs), ("a condition", trial.conditions)):
            if TASK in named:
                raise ValueError(f"`tasks` must not have {kind} of the name {TASK!r}, got {sorted(named)}.")
        one_hot = jax.nn.one_hot(index, len(self.tasks))
        told = jnp.broadcast_to(one_hot, (trial.timeline.n_steps, len(self.tasks)))
        return Trial(
            trial.init,
            trial.inputs | {TASK: told},
            trial.targets,
            trial.timeline,
            trial.interventions,
            trial.conditions | {TASK: jnp.asarray(index)},
        )
