"""The base class of tasks."""

import abc
from typing import Any

import equinox as eqx
from jaxtyping import Array, Int, Key

from popsim._compiled import map_trials
from popsim._shared.argument_shapes import check_fields
from popsim._shared.checks import explain_traced_code, kind_of, short_repr
from popsim._shared.html import Html, preformatted, show_or_print
from popsim._shared.member_values import check_module_of_members
from popsim._shared.other_draws import refuse_unseeded_draws
from popsim.loss import Loss
from popsim.per_member import per_member_nodes, select_member
from popsim.randomness import key_stream, trial_keys
from popsim.schedules import LAST_BATCH
from popsim.task_description import TaskDescription, describe_task
from popsim.trial import Trial, check_trials

__all__ = ["AbstractTask"]


class AbstractTask(eqx.Module):
    """Base class of tasks, which make random training trials and a fixed set of validation trials.

    A task does not depend on the body that performs it, or on plotting, training or storage. Subclasses
    implement `loss`, `trial` and `validation_trials`.

    A task that holds data may name the fields with them in `data_fields`, an attribute of the class: they are
    compared bit by bit when a training is resumed, and other arrays to rounding.

    !!! example

        ```python
        >>> import jax, jax.numpy as jnp, popsim
        >>> class HoldStill(popsim.AbstractTask):
        ...     workspace: popsim.Workspace
        ...     loss: popsim.Loss
        ...     def trial(self, *, batch, key):
        ...         return self.hold_at(self.workspace.sample(key=key))
        ...     def validation_trials(self):
        ...         return jax.vmap(self.hold_at)(jnp.stack([self.workspace.low, self.workspace.high]))
        ...     def hold_at(self, position):
        ...         still = popsim.HandState(position, jnp.zeros(2))
        ...         target = jax.tree.map(lambda x: jnp.broadcast_to(x, (50, 2)), still)
        ...         timeline = popsim.Timeline(dt=0.01, n_steps=50)
        ...         return popsim.Trial(still, {"target": target.position}, target, timeline)
        >>> task = HoldStill(popsim.Workspace.around(jnp.zeros(2), 0.2), 1.0 * popsim.losses.PositionError())
        >>> task.trial(batch=0, key=jax.random.key(0)).inputs["target"].shape
        (50, 2)

        ```
    """

    loss: eqx.AbstractVar[Loss]

    def __check_init__(self):
        check_fields(self)
        check_module_of_members(type(self).__name__, self)

    @abc.abstractmethod
    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        """Return one training trial; called under `jit` and `vmap`.

        **Arguments:**

        - `batch`: the number of the training batch, for curricula and phases.
        - `key`: the random key of the trial.
        """

    def trials(self, *, batch: int | Int[Array, ""], n: int, key: Key[Array, ""]) -> Trial:
        """Return the trials of a training batch, stacked; called under `jit` and `vmap`.

        By default each is drawn by itself, by `trial`. A task may override it where the trials of a batch
        depend on one another, as those of `tasks.StoredTrials` that come in an order.

        **Arguments:**

        - `batch`: as for `trial`.
        - `n`: the number of trials.
        - `key`: the random key of the batch, and of the member unless all members share the trials.
        """
        keys = trial_keys(key, n, member_id=None)
        return map_trials(lambda own: self.trial(batch=batch, key=key_stream(own, "specification")), keys)

    @property
    def draws_trials(self) -> bool:
        """Whether each trial of a batch is drawn by itself, so that `trial` alone gives such trials."""
        return type(self).trials is AbstractTask.trials

    @abc.abstractmethod
    def validation_trials(self) -> Trial:
        """Return the validation trials, stacked on a leading axis; the same at every call."""

    def describe(self, *, batch: int = LAST_BATCH) -> TaskDescription:
        """Describe inputs, targets, epochs, events, conditions and interventions, from 200 drawn trials.

        `print(task.describe())` shows a table.

        **Arguments:**

        - `batch`: the number of the training batch whose trials are drawn; by default one after the end of
            all schedules.
        """
        return describe_task(self, batch=batch)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the description from drawn trials, and the loss."""
        return show_or_print(lambda: _shown_task(self), self)


def _shown_task(task: AbstractTask) -> Html:
    """Describe a task; one that differs between members by the trials of the first."""
    note = "\nOf the first member; its trials differ from those of others." * differs_between_members(task)
    return preformatted(f"{select_member(task, 0).describe()}{note}\n\n{task.loss!r}")


def differs_between_members(task: AbstractTask) -> bool:
    """Return whether anything in a task except its loss differs between members, and thus their trials."""
    in_loss = {id(node) for node in per_member_nodes(task.loss).values()}
    return any(id(node) not in in_loss for node in per_member_nodes(task).values())


def check_task(task: Any) -> None:
    """Raise `ValueError` unless `task` is a task with a `Loss`."""
    if isinstance(task, Trial):
        raise ValueError("`task` must be a task, got a Trial: give it as `trials=`, after the task.")
    if not isinstance(task, AbstractTask):
        raise ValueError(f"`task` must be a task, not its class or name, got {short_repr(task)}.")
    if not isinstance(task.loss, Loss):
        raise ValueError(
            f"`loss` of {type(task).__name__} must be a Loss, such as 1.0 * losses.PositionError(), "
            f"got {kind_of(task.loss)}."
        )


def check_draws_trials(*tasks: AbstractTask) -> None:
    """Raise `ValueError` unless each trial of tasks may be drawn by itself."""
    for task in tasks:
        if not task.draws_trials:
            raise ValueError(
                "`task` must draw each trial by itself where it is mixed with others, joined to sessions or "
                f'drawn again, got {type(task).__name__} with an order of its own: leave it "drawn".'
            )


def build_validation_trials(task: AbstractTask) -> Trial:
    """Return the validation trials of a task."""
    name = "`validation_trials` of `task`"
    with explain_traced_code(f"what {name} calls"), refuse_unseeded_draws(name, task.validation_trials):
        trials = task.validation_trials()
    check_trials("validation_trials", trials)
    return trials
