"""One task after the other in the course of a training."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from popsim.batch_schedules import Phases
from popsim.loss import Loss
from popsim.task import AbstractTask
from popsim.tasks.alternatives import check_same_trials, common_loss, validation_trials_of_all
from popsim.trial import Trial, label_trial


class Phased(AbstractTask):
    """One task after the other: trials are of `tasks[i]` from training batch `starts[i]` on.

    Their trials have the same inputs, targets, epochs and conditions. The condition "phase" is the number of
    the task. The validation trials are those of all tasks. A curriculum in one task that changes only its
    numbers is a `Scheduled`.

    **Arguments:**

    - `tasks`: the tasks, in their order.
    - `starts`: the first batch of each; the first of them 0.
    - `loss`: what counts as doing well; by default the loss that all tasks have.

    **Raises:** `ValueError` if trials differ in what they hold, there is not a start for each task, or the
    tasks have different losses and none is given.
    """

    tasks: tuple[AbstractTask, ...]
    phases: Phases
    loss: Loss

    def __init__(self, tasks: Sequence[AbstractTask], starts: Sequence[int], *, loss: Loss | None = None):
        self.tasks = tuple(tasks)
        self.loss = common_loss(self.tasks, loss)
        if len(starts) != len(self.tasks):
            raise ValueError(f"`starts` must be one batch for each of {len(self.tasks)} tasks, got {starts}.")
        self.phases = Phases(tuple(starts), jnp.arange(float(len(starts))))

    def __check_init__(self):
        check_same_trials(self.tasks)

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        phase = self.phases.phase(batch)
        branches = [lambda key, task=task: task.trial(batch=batch, key=key) for task in self.tasks]
        trial = jax.lax.switch(phase, branches, key)
        return label_trial(trial, {"phase": phase})

    def validation_trials(self) -> Trial:
        return validation_trials_of_all(self.tasks, "phase")
