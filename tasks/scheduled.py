"""A task one of whose numbers follows a schedule over training batches."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Int, Key

from popsim.batch_schedules import LAST_BATCH, AbstractBatchSchedule
from popsim.loss import Loss
from popsim.per_member import without_member_axes
from popsim.task import AbstractTask
from popsim.trial import Trial


class Scheduled(AbstractTask):
    """A task whose array `where(task)` follows a schedule over training batches: a curriculum.

    `Scheduled(task, lambda task: task.catch_probability, Ramp(0.0, 0.2, last_batch=500))`. Several
    numbers are scheduled by wrapping again, with `lambda task: task.task.…`. The validation trials are those
    of the task with the value that the schedule ends with.

    **Arguments:**

    - `task`: the task.
    - `where`: picks one array of it, such as a bound of a distribution.
    - `schedule`: its value in each training batch, of the same shape.

    **Raises:** `ValueError` if `where` does not pick a floating-point array, or the schedule gives another
    shape.
    """

    task: AbstractTask
    where: Callable[[Any], Any] = eqx.field(static=True)
    schedule: AbstractBatchSchedule

    def __init__(self, task: AbstractTask, where: Callable[[Any], Any], schedule: AbstractBatchSchedule):
        self.task, self.where, self.schedule = task, where, schedule

    def __check_init__(self):
        picked = self.where(self.task)
        if not eqx.is_inexact_array(picked):
            raise ValueError(f"`where` must pick a floating-point array of the task, got {picked!r}.")
        given = jax.eval_shape(lambda: without_member_axes(self.schedule)(0)).shape
        if given != picked.shape:
            raise ValueError(
                f"`schedule` must give the shape that `where` picks, {picked.shape}, got {given}."
            )

    @property
    def loss(self) -> Loss:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The loss of the task."""
        return self.task.loss

    def at_batch(self, batch: int | Int[Array, ""]) -> AbstractTask:
        """The task as it is in a training batch."""
        return eqx.tree_at(self.where, self.task, self.schedule(batch))

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        return self.at_batch(batch).trial(batch=batch, key=key)

    def validation_trials(self) -> Trial:
        return self.at_batch(LAST_BATCH).validation_trials()
