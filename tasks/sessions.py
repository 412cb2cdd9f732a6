"""Sessions: trials that follow one another."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Int, Key

from popsim._shared.checks import as_parts, check_positive_int
from popsim._shared.plain_values import plain_number
from popsim.loss import Loss
from popsim.randomness import key_of_seed, key_stream
from popsim.schedules import LAST_BATCH
from popsim.session import CARRIED, check_carry, join_trials
from popsim.task import AbstractTask, check_draws_trials
from popsim.tasks.mixtures import check_same_trials, common_loss, concatenated
from popsim.trial import Trial

__all__ = ["Session"]


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

    - `tasks`: the task of each trial; or of each block, see `in_blocks`.
    - `n_trials`: the number of trials in a session, or in each block.
    - `carry`: what continues from one trial to the next, some of "hidden" and "environment".
    - `cut_gradient`: whether derivatives end where a trial begins; else they flow through the session. It
        does not cut the credit of a policy gradient.
    - `n_validation`: the number of sessions that validate, which are drawn as in training.
    - `loss`: the loss to train with; by default the one that all tasks share.
    """

    tasks: tuple[AbstractTask, ...]
    n_trials: tuple[int, ...] = eqx.field(static=True)
    carry: tuple[str, ...] = eqx.field(static=True)
    cut_gradient: bool = eqx.field(static=True)
    n_validation: int = eqx.field(static=True)
    loss: Loss

    def __init__(
        self,
        tasks: AbstractTask | Sequence[AbstractTask],
        n_trials: int | Sequence[int],
        *,
        carry: Sequence[str] = CARRIED,
        cut_gradient: bool = False,
        n_validation: int = 8,
        loss: Loss | None = None,
    ):
        is_one = isinstance(tasks, AbstractTask)
        self.tasks = (tasks,) if is_one else as_parts("tasks", tasks, AbstractTask, "tasks")
        counts = n_trials if isinstance(n_trials, Sequence) else [n_trials] * len(self.tasks)
        self.n_trials = tuple(plain_number(count) for count in counts)
        self.carry, self.cut_gradient = check_carry(carry), cut_gradient
        self.n_validation, self.loss = plain_number(n_validation), common_loss(self.tasks, loss)

    def __check_init__(self):
        for count in self.n_trials:
            check_positive_int("n_trials", count)
        if len(self.n_trials) != len(self.tasks):
            raise ValueError(f"`n_trials` must be those of {len(self.tasks)} blocks, got {self.n_trials}.")
        check_positive_int("n_validation", self.n_validation)
        check_draws_trials(*self.tasks)
        if len(self.tasks) > 1:
            check_same_trials(self.tasks)

    @classmethod
    def in_blocks(cls, blocks: Sequence[tuple[AbstractTask, int]], **options: Any) -> "Session":
        """Return a session of several blocks, such as a force field that comes and goes.

        `Session.in_blocks([(reaches, 20), (with_field, 40), (reaches, 20)])`.

        **Arguments:**

        - `blocks`: the task of each block, all with trials of the same form, and its number of trials.
        - `options`: those of `Session`.
        """
        tasks, counts = zip(*blocks, strict=True) if blocks else ((), ())
        return cls(tasks, counts, **options)

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
