"""A mixture of tasks: each trial is one of any of them."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from popsim.batch_schedules import AbstractBatchSchedule, as_batch_schedule
from popsim.loss import Loss
from popsim.randomness import key_stream
from popsim.task import AbstractTask
from popsim.tasks.alternatives import (
    check_same_trials,
    check_shares,
    common_loss,
    validation_trials_of_all,
)
from popsim.trial import Trial, label_trial


class Mixture(AbstractTask):
    """Each trial is of one of several tasks, drawn with given shares.

    Their trials have the same inputs, targets, epochs and conditions; `MultiTask` mixes tasks that differ
    in these. The condition "task" is the number of the task. The validation trials are those of all tasks.

    **Arguments:**

    - `tasks`: the tasks.
    - `shares`: of each task, positive numbers in proportion; or a schedule over training batches of these.
        By default all alike.
    - `loss`: what counts as doing well; by default the loss that all tasks have.

    **Raises:** `ValueError` if trials differ in what they hold, there is not a share for each task, or the
    tasks have different losses and none is given.
    """

    tasks: tuple[AbstractTask, ...]
    shares: AbstractBatchSchedule
    loss: Loss

    def __init__(self, tasks: Sequence[AbstractTask], shares: Any = None, *, loss: Loss | None = None):
        self.tasks = tuple(tasks)
        self.loss = common_loss(self.tasks, loss)
        self.shares = as_batch_schedule(jnp.ones(len(self.tasks)) if shares is None else shares)

    def __check_init__(self):
        check_same_trials(self.tasks)
        check_shares(self.shares, len(self.tasks))

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        log_shares = jnp.log(self.shares(batch))
        index = jax.random.categorical(key_stream(key, "task"), log_shares)
        trials = [task.trial(batch=batch, key=key_stream(key, "trial")) for task in self.tasks]
        drawn = jax.tree.map(lambda *leaves: jnp.stack(leaves)[index], *trials)
        return label_trial(drawn, {"task": index})

    def validation_trials(self) -> Trial:
        return validation_trials_of_all(self.tasks, "task")
