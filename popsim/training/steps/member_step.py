"""The trials of a training batch, and the training step of one member."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

from popsim._compiled import as_array, jit_fast_compile
from popsim._shared.checks import explain_traced_code
from popsim._shared.other_draws import guard_tracing, refuse_other_draws
from popsim.loss import Loss, LossValues
from popsim.per_member import aligned_mask, member_values, with_member_values
from popsim.randomness import as_key, key_stream, trial_keys
from popsim.task import AbstractTask, differs_between_members
from popsim.training.steps.batch_runs import BatchRun
from popsim.training.steps.gradients import AbstractGradient, BackpropThroughTime
from popsim.training.steps.model_updates import AbstractModelUpdate, first_carry, update_model
from popsim.training.steps.optimizers import learning_rate_of
from popsim.training.steps.train_state import OWN, TrainState, optimizer_step, state_parts
from popsim.trial import Trial, n_trials

__all__ = ["training_trials", "NonfiniteError"]


def training_trials(
    task: AbstractTask,
    batch_size: int,
    *,
    batch: int | Int[Array, ""],
    member_id: int | Int[Array, ""] | None,
    key: PRNGKeyArray,
) -> Trial:
    """Return the stacked trials of one training batch of one member.

    **Arguments:**

    - `batch`, `key`: the number of the training batch, and its key.
    - `member_id`: the member, or None for the trials that all members share.
    """
    member_key = as_key(key) if member_id is None else jax.random.fold_in(as_key(key), member_id)
    trials = task.trials(batch=batch, n=batch_size, key=member_key)
    if (n := n_trials(trials)) != batch_size:
        raise ValueError(f"`trials` of `task` must return the {batch_size} trials of a batch, got {n}.")
    return trials


@jit_fast_compile
def trials_of_batch(
    task: AbstractTask,
    batch_size: int,
    batch: Int[Array, ""],
    *,
    member_ids: Int[Array, "*member"],
    shared_trials: bool,
    key: PRNGKeyArray,
) -> Trial:
    """Return the trials of one batch, as the compiled loop of a training with `key` draws them."""
    batch_key = jax.random.fold_in(as_key(key), batch)

    def trials_of(member_id, values):
        member_task = with_member_values(task, values)
        draws_of = None if shared_trials else member_id
        name = "`trial` of the task"
        with explain_traced_code(name), refuse_other_draws(name, task.trial, task.trials):
            return training_trials(member_task, batch_size, batch=batch, member_id=draws_of, key=batch_key)

    if member_ids.ndim == 0:
        return trials_of(member_ids, None)
    if not trials_differ(task, shared_trials=shared_trials):
        return trials_of(None, None)
    return jax.vmap(trials_of)(member_ids, member_values(task, member_ids.shape[0], "task"))


def trials_differ(task: AbstractTask, *, shared_trials: bool) -> bool:
    """Return whether the members of an ensemble see different trials: their own draws, or another task."""
    return not shared_trials or differs_between_members(task)


NOT_FROZEN = -1


class MemberCarry(eqx.Module):
    """The `loss_fn_state` of the trainer; the batches are -1 for a member that trains."""

    loss: Loss | None  # after loss updates; None without them
    updates: tuple[PyTree[Array], ...]  # the state of each model update
    frozen_from: Int[Array, "*member"]
    stopped_from: Int[Array, "*member"] | None = None  # by a population update; None where none may stop
    gradient: PyTree[Array] = None  # what it carries from batch to batch

    @property
    def is_inactive(self) -> Bool[Array, "*member"]:
        """Whether the member stays as it is, because it is frozen or stopped."""
        is_frozen = self.frozen_from != NOT_FROZEN
        return is_frozen if self.stopped_from is None else is_frozen | (self.stopped_from != NOT_FROZEN)

    @property
    def stops(self) -> Int[Array, "*member"]:
        """`stopped_from`, also of a training in which no member may be stopped."""
        if self.stopped_from is not None:
            return self.stopped_from
        return as_array(np.full(self.frozen_from.shape, NOT_FROZEN), self.frozen_from.dtype)


class NonfiniteError(ArithmeticError):
    """A member's loss, parameters or optimizer state are not finite, and `nonfinite` is "raise"."""


def starts_finite(fresh: PyTree) -> PyTree[bool]:
    """Return which arrays of a fresh state are finite; some optimizers start from infinity."""
    return jax.tree.map(
        lambda leaf: bool(np.all(np.isfinite(leaf))) if eqx.is_inexact_array(leaf) else False, fresh
    )


def all_finite(tree: PyTree) -> Bool[Array, ""]:
    """Return whether all floating-point arrays of a PyTree are finite."""
    leaves = [leaf for leaf in jax.tree.leaves(tree) if eqx.is_inexact_array(leaf)]
    if not leaves:
        return jnp.asarray(True)
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))


def freeze_nonfinite(before: TrainState, after: TrainState, is_finite: Bool[Array, ""]) -> TrainState:
    """Return the state after a batch, or before it if the member is inactive or `is_finite` is False."""
    was_inactive = before.loss_fn_state.is_inactive
    is_inactive = was_inactive | ~is_finite

    def keep_if_inactive(old: Any, new: Any) -> Any:
        # Leaves that the step returned as they were need no selection.
        return jnp.where(is_inactive, old, new) if eqx.is_array(new) and new is not old else new

    # Under `jax.vmap` there is no branch that one member could skip: the step of an inactive member is
    # computed, and discarded here. Its numbers may be NaN, which `jnp.where`, unlike a product with a mask,
    # keeps out.
    frozen_parts = jax.tree.map(keep_if_inactive, state_parts(before, OWN), state_parts(after, OWN))
    frozen_from = jnp.where(is_inactive & ~was_inactive, before.step, before.loss_fn_state.frozen_from)
    frozen_parts["loss_fn_state"] = eqx.tree_at(
        lambda carry: carry.frozen_from, frozen_parts["loss_fn_state"], frozen_from
    )
    return dataclasses.replace(after, **frozen_parts)


def with_fresh_optimizer(state: TrainState, fresh: PyTree) -> TrainState:
    """Return the state with a reset optimizer state; a frozen or stopped member keeps its own."""
    is_inactive = state.loss_fn_state.is_inactive

    def reset(new: Any, old: Any) -> Any:
        if not eqx.is_array(new):
            return new
        return jnp.where(aligned_mask(is_inactive, new), old, new)

    return dataclasses.replace(state, opt_state=jax.tree.map(reset, fresh, state.opt_state))


LossUpdateFn = Callable[[Loss, LossValues, PyTree], Loss]


class BatchRecord(eqx.Module):
    """The record of a batch: leaves have axes (batch,) and, for an ensemble, (batch, member).

    NaN for a frozen or stopped member; `loss_weights` is None unless they are updated.
    """

    loss: LossValues
    learning_rate: Float[Array | np.ndarray, "*axes"]
    loss_weights: Mapping[str, Float[Array | np.ndarray, "*axes"]] | None


class MemberStep(eqx.Module):
    """The training step of one member. A step with numbers that are not finite changes nothing.

    Order: trials, gradient, optimizer, model updates, post-step functions, loss update.
    """

    task: AbstractTask
    batch_size: int = eqx.field(static=True)
    n_minibatches: int = eqx.field(static=True, default=1)
    shared_trials: bool = eqx.field(static=True, default=False)
    remat: bool = eqx.field(static=True, default=False)
    updates: tuple[AbstractModelUpdate, ...] = ()
    post_step_fns: tuple[Callable[[Any], Any], ...] = ()
    loss_update_func: LossUpdateFn | None = eqx.field(static=True, default=None)
    trained: PyTree[bool] | None = None  # which parameters; None for all
    starts_finite: PyTree[bool] | None = None  # what of optimizer's state and gradient's carry is checked
    gradient: AbstractGradient = BackpropThroughTime()

    def initial_carry(self, model: Any, params: PyTree, *, key: Key[Array, ""]) -> MemberCarry:
        loss = None if self.loss_update_func is None else self.task.loss
        updates = tuple(first_carry(update, model) for update in self.updates)
        with guard_tracing("`init` of `gradient`", "(params, model, *, key)", self.gradient):
            first = self.gradient.init(params, model, key=key_stream(key, "start of the gradient"))
        gradient = jax.tree.map(jnp.asarray, first)
        return MemberCarry(loss, updates, jnp.asarray(NOT_FROZEN), gradient=gradient)

    def __call__(
        self,
        state: TrainState,
        *,
        batch: Int[Array, ""],
        member_id: Int[Array, ""],
        enabled: Bool[Array, " update"] | None = None,
    ) -> tuple[TrainState, BatchRecord]:
        """Return the next state of a member, and the record of the batch."""
        carry = state.loss_fn_state
        # Folded from the root at each step, not split and carried: batch 1000 has the same draws in a
        # training that was resumed, or cut into other calls.
        key = jax.random.fold_in(jax.random.fold_in(state.root_rng, state.step), member_id)
        run = self.batch_run(state, batch=batch, member_id=member_id)
        gradients, trained_batch, gradient_carry = self.gradient(
            run, self.trained_params(state.params), carry.gradient, key=key_stream(key, "gradient")
        )
        if self.trained is not None:  # the optimizer takes a gradient of all parameters
            gradients = eqx.combine(gradients, jax.tree.map(jnp.zeros_like, state.params))
        loss = trained_batch.mean_losses
        after = self.apply_gradients(state, gradients, trained_batch.mean_loss, run)
        model, update_carries = update_model(
            self.updates, after.model, trained_batch, carry.updates, enabled, key=key
        )
        for post_step in self.post_step_fns:
            model = post_step(model)
        next_loss = carry.loss
        if self.loss_update_func is not None:
            next_loss = self.loss_update_func(trained_batch.loss, loss, gradients)
        carry = dataclasses.replace(carry, loss=next_loss, updates=update_carries, gradient=gradient_carry)
        after = dataclasses.replace(after, step=state.step + 1, loss_fn_state=carry).with_model(model)
        checked = (after.opt_state, gradient_carry)
        if self.starts_finite is not None:
            checked = eqx.filter(checked, self.starts_finite)
        # Only what the step replaced is looked at: constants may be infinite.
        replaced = jax.tree.map(lambda old, new: None if new is old else new, state.model, model)
        is_finite = all_finite((loss, next_loss, checked, replaced))
        # The record is of the state before freezing: the batch that fails shows the loss with which it
        # failed.
        return freeze_nonfinite(state, after, is_finite), self._record(state, after, loss)

    def batch_run(
        self,
        state: TrainState,
        *,
        batch: Int[Array, ""],
        member_id: Int[Array, ""],
        trials: Trial | None = None,
    ) -> BatchRun:
        """Return the trials of a batch, drawn if they are not given, ready to be run."""
        rng = jax.random.fold_in(state.root_rng, state.step)
        if trials is None:
            draws_of = None if self.shared_trials else member_id
            trials = training_trials(self.task, self.batch_size, batch=batch, member_id=draws_of, key=rng)
        # An updated loss is part of the carry, so that it survives a checkpoint.
        loss = self.task.loss if self.loss_update_func is None else state.loss_fn_state.loss
        return BatchRun(
            model=state.model,
            trials=trials,
            keys=trial_keys(rng, self.batch_size, member_id=member_id),
            loss=loss.at_batch(batch),
            number=batch,
            n_minibatches=self.n_minibatches,
            remat=self.remat,
            keeps_states=bool(self.updates),
        )

    def apply_gradients(
        self, state: TrainState, gradients: PyTree, loss: Float[Array, ""], run: BatchRun
    ) -> TrainState:
        """Return the state after the optimizer's step on a batch."""

        def loss_of(params: PyTree) -> Float[Array, ""]:
            if not self.gradient.serves_line_search:
                raise ValueError(
                    "it evaluates the loss at other parameters, which needs a `gradient` that serves line "
                    f"searches: {type(self.gradient).__name__} does not. Use an optimizer such as adam."
                )
            return run.mean_loss(self.trained_params(params))

        return optimizer_step(state, gradients, loss, loss_of, self.trained)

    def trained_params(self, params: PyTree) -> PyTree:
        """Return the parameters that are trained now, with None for the others."""
        return params if self.trained is None else eqx.filter(params, self.trained)

    def _record(self, before: TrainState, after: TrainState, loss: LossValues) -> BatchRecord:
        weights = before.loss_fn_state.loss.weights if self.loss_update_func is not None else None
        record = BatchRecord(loss, learning_rate_of(after.opt_state), weights)
        is_inactive = before.loss_fn_state.is_inactive
        return jax.tree.map(lambda value: jnp.where(is_inactive, jnp.nan, value), record)
