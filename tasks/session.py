"""Sessions of trials, through which a network keeps its state."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Int, Key

from popsim._checks import check_positive_int
from popsim.loss import Loss
from popsim.parameters import replace_fields
from popsim.randomness import key_of_seed, key_stream
from popsim.schedules import LAST_BATCH
from popsim.session import CARRIED, check_carry, join_trials
from popsim.task import AbstractTask
from popsim.tasks.wrappers import check_same_trials, common_loss, concatenated
from popsim.trial import Trial

__all__ = ["Session"]


class Session(AbstractTask):
    """Trials that follow one another, through which a network keeps its hidden state.

    A trial of this task is a whole session: the trials are drawn ahead, and joined on one axis of time. So
    nothing in a trial depends on what the network did in an earlier one; what does is an environment, whose
    state continues. The loss is the mean of that of the trials. In a policy gradient what a later trial pays
    is credited to earlier choices, unless nothing is carried, or its terms have `cut_credit`. A body starts
    anew in each trial.

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
