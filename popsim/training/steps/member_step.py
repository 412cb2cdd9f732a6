"""The trials of a training batch, and the training step of one member."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

from popsim._compiled import jit_quickly, map_trials
from popsim.loss import Loss, LossValues
from popsim.model import initial_state, simulate
from popsim.per_member import beside, member_values, with_member_values
from popsim.randomness import as_key, check_draws_from_key, key_stream, trial_keys
from popsim.task import AbstractTask, differs_between_members
from popsim.training.steps.model_updates import AbstractModelUpdate, TrainedBatch, first_carry, update_model
from popsim.training.steps.optimizers import learning_rate_of
from popsim.training.steps.train_state import OWN, TrainState, optimizer_step, parts
from popsim.training.steps.train_step import accumulate_gradients_scan, split_batch
from popsim.trial import Trial

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

    - `task`: the task.
    - `batch_size`: the number of trials.
    - `batch`: the number of the training batch.
    - `member_id`: the member, or None for the trials that all members share.
    - `key`: the key of the batch.
    """
    keys = trial_keys(key, batch_size, member_id=member_id)
    return map_trials(lambda k: task.trial(batch=batch, key=key_stream(k, "specification")), keys)


@jit_quickly
def trials_of_batch(
    task: AbstractTask,
    batch_size: int,
    batch: Int[Array, ""],
    *,
    member_ids: Int[Array, "*member"],
    shared_trials: bool,
    key: PRNGKeyArray,
) -> Trial:
    """Return the trials of one batch, as the compiled loop of a training with `key` draws them.

    **Arguments:**

    - `task`, `batch_size`: the task, and the number of trials.
    - `batch`: the number of the training batch.
    - `member_ids`: the numbers of the members; of a single model, its number.
    - `shared_trials`: whether all members see the same trials.
    - `key`: the `root_rng` of the training.

    **Returns:** the trials, with a leading member axis if `trials_differ`.

    **Raises:** `ValueError` if a `PerMember` of the task does not hold one value per member, or if the task
    draws random numbers from anything but its key.
    """
    batch_key = jax.random.fold_in(as_key(key), batch)

    def drawn_for(member_id, values):
        own = with_member_values(task, values)
        drawn_for = None if shared_trials else member_id
        check_draws_from_key(
            "`trial` of the task", lambda own_key: own.trial(batch=batch, key=own_key), batch_key
        )
        return training_trials(own, batch_size, batch=batch, member_id=drawn_for, key=batch_key)

    if member_ids.ndim == 0:
        return drawn_for(member_ids, None)
    if not trials_differ(task, shared_trials=shared_trials):
        return drawn_for(None, None)
    return jax.vmap(drawn_for)(member_ids, member_values(task, member_ids.shape[0], "task"))


def trials_differ(task: AbstractTask, *, shared_trials: bool) -> bool:
    """Return whether the members of an ensemble see different trials: their own draws, or another task."""
    return not shared_trials or differs_between_members(task)


NOT_FROZEN = -1


class MemberCarry(eqx.Module):
    """The `loss_fn_state` of the trainer.

    - `loss`: the loss after loss updates; None without such updates.
    - `updates`: the state of each model update.
    - `frozen_from`: the batch from which on the member is frozen; -1 if it is not.
    - `stopped_from`: the batch from which on a control has stopped the member; -1 if none has. None for a
        training without controls.
    """

    loss: Loss | None
    updates: tuple[PyTree[Array], ...]
    frozen_from: Int[Array, "*member"]
    stopped_from: Int[Array, "*member"] | None = None

    @property
    def is_held(self) -> Bool[Array, "*member"]:
        """Whether the member stays as it is, because it is frozen or stopped."""
        is_frozen = self.frozen_from != NOT_FROZEN
        return is_frozen if self.stopped_from is None else is_frozen | (self.stopped_from != NOT_FROZEN)

    @property
    def stops(self) -> Int[Array, "*member"]:
        """`stopped_from`, also of a training without controls."""
        return jnp.full_like(self.frozen_from, NOT_FROZEN) if self.stopped_from is None else self.stopped_from


class NonfiniteError(ArithmeticError):
    """A member's loss, parameters or optimizer state are not finite, and `nonfinite` is "raise"."""


def starts_finite(opt_state: PyTree) -> PyTree[bool]:
    """Return which leaves of a fresh optimizer state are finite; some optimizers start from infinity."""
    return jax.tree.map(
        lambda leaf: bool(np.all(np.isfinite(leaf))) if eqx.is_inexact_array(leaf) else False, opt_state
    )


def all_finite(tree: PyTree) -> Bool[Array, ""]:
    """Return whether all floating-point arrays of a PyTree are finite."""
    leaves = [leaf for leaf in jax.tree.leaves(tree) if eqx.is_inexact_array(leaf)]
    if not leaves:
        return jnp.asarray(True)
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))


def freeze_nonfinite(before: TrainState, after: TrainState, is_finite: Bool[Array, ""]) -> TrainState:
    """Return the state after a batch, or before it if the member is held or `is_finite` is False."""
    was_held = before.loss_fn_state.is_held
    is_held = was_held | ~is_finite

    def held(old: Any, new: Any) -> Any:
        return jnp.where(is_held, old, new) if eqx.is_array(new) and new is not old else new

    own = jax.tree.map(held, parts(before, OWN), parts(after, OWN))
    frozen_from = jnp.where(is_held & ~was_held, before.step, before.loss_fn_state.frozen_from)
    own["loss_fn_state"] = eqx.tree_at(lambda carry: carry.frozen_from, own["loss_fn_state"], frozen_from)
    return dataclasses.replace(after, **own)


def checked_opt_state(opt_state: PyTree, fresh: PyTree) -> PyTree:
    """Return the state; raise `ValueError` unless it has the structure, shapes and dtypes of a fresh one."""
    given, expected = jax.tree.structure(opt_state), jax.tree.structure(fresh)
    if given != expected:
        raise ValueError(f"`opt_state` must be of this optimizer and model, {expected}, got {given}.")
    pairs = zip(jax.tree.leaves_with_path(opt_state), jax.tree.leaves(fresh), strict=True)
    for (path, leaf), own in pairs:
        if eqx.is_array(own) and (np.shape(leaf), jnp.asarray(leaf).dtype) != (own.shape, own.dtype):
            raise ValueError(
                f"`opt_state{jax.tree_util.keystr(path)}` must be {own.dtype} of shape {own.shape}, "
                f"got {jnp.asarray(leaf).dtype} of shape {np.shape(leaf)}."
            )
    return jax.tree.map(jnp.asarray, opt_state)


def with_fresh_optimizer(state: TrainState, fresh: PyTree) -> TrainState:
    """Return the state with a reset optimizer state; a frozen or stopped member keeps its own."""
    held = state.loss_fn_state.is_held

    def renewed(new: Any, old: Any) -> Any:
        if not eqx.is_array(new):
            return new
        return jnp.where(beside(held, new), old, new)

    return dataclasses.replace(state, opt_state=jax.tree.map(renewed, fresh, state.opt_state))


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

    **Arguments:**

    - `task`: the task.
    - `batch_size`: the number of trials in a batch.
    - `n_minibatches`: the number of parts of a batch, one of which is in memory at a time.
    - `shared_trials`: whether all members see the same trials.
    - `remat`: whether gradients recompute each time step.
    - `updates`: the model updates.
    - `post_step_fns`: functions from model to model, applied last.
    - `loss_update_func`: from the loss, its mean values and the gradients to the loss of the next batch.
    - `trained`: which parameters are trained; None for all.
    - `checked`: which leaves of the optimizer state must be finite.
    """

    task: AbstractTask
    batch_size: int = eqx.field(static=True)
    n_minibatches: int = eqx.field(static=True, default=1)
    shared_trials: bool = eqx.field(static=True, default=False)
    remat: bool = eqx.field(static=True, default=False)
    updates: tuple[AbstractModelUpdate, ...] = ()
    post_step_fns: tuple[Callable[[Any], Any], ...] = ()
    loss_update_func: LossUpdateFn | None = eqx.field(static=True, default=None)
    trained: PyTree[bool] | None = None
    checked: PyTree[bool] | None = None

    def initial_carry(self, model: Any) -> MemberCarry:
        """Return the carry of a member before its first batch."""
        loss = None if self.loss_update_func is None else self.task.loss
        return MemberCarry(
            loss, tuple(first_carry(update, model) for update in self.updates), jnp.asarray(NOT_FROZEN)
        )

    def __call__(
        self,
        state: TrainState,
        *,
        batch: Int[Array, ""],
        member_id: Int[Array, ""],
        enabled: Bool[Array, " update"] | None = None,
    ) -> tuple[TrainState, BatchRecord]:
        """Return the next state of a member, and the record of the batch.

        **Arguments:**

        - `state`: the state; its `loss_fn_state` is a `MemberCarry`.
        - `batch`: the number of the batch.
        - `member_id`: the number that its draws depend on.
        - `enabled`: which model updates are applied; None for all.
        """
        rng = jax.random.fold_in(state.root_rng, state.step)
        gradients, trained_batch = self.gradients(state, batch=batch, member_id=member_id)
        loss = jax.tree.map(jnp.mean, trained_batch.losses)
        after = self.optimized(state, gradients, trained_batch)
        model, carried = update_model(
            self.updates,
            after.model,
            trained_batch,
            state.loss_fn_state.updates,
            enabled,
            key=jax.random.fold_in(rng, member_id),
        )
        for post_step in self.post_step_fns:
            model = post_step(model)
        next_loss = state.loss_fn_state.loss
        if self.loss_update_func is not None:
            next_loss = self.loss_update_func(trained_batch.loss, loss, gradients)
        carry = dataclasses.replace(state.loss_fn_state, loss=next_loss, updates=carried)
        after = _with_model(dataclasses.replace(after, step=state.step + 1, loss_fn_state=carry), model)
        checked = after.opt_state if self.checked is None else eqx.filter(after.opt_state, self.checked)
        is_finite = all_finite((loss, next_loss, checked, _changed(state.model, model)))
        return freeze_nonfinite(state, after, is_finite), self._record(state, after, loss)

    def gradients(
        self, state: TrainState, *, batch: Int[Array, ""], member_id: Int[Array, ""]
    ) -> tuple[PyTree, TrainedBatch]:
        """Return the gradients of the mean loss over a batch, zero where not trained, and the batch."""
        rng, trials, keys, loss = self._drawn(state, batch, member_id)
        trained = jax.tree.map(lambda _: True, state.params) if self.trained is None else self.trained
        params, fixed = eqx.partition(state.params, trained)

        def run(params, part, rng):
            model = eqx.combine(params, fixed, state.model_without_params)
            states, losses = self._run(model, loss, *part)
            return jax.tree.map(jnp.mean, losses).total, ((), (states, losses))

        if self.n_minibatches == 1:
            gradients, (_, (states, losses)) = jax.grad(run, has_aux=True)(params, (trials, keys), rng)
        else:
            part_state = dataclasses.replace(state, params=params)
            gradients, _, parts = accumulate_gradients_scan(
                part_state, (trials, keys), rng, self.n_minibatches, run
            )
            states, losses = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), parts)
        gradients = eqx.combine(gradients, jax.tree.map(jnp.zeros_like, fixed))
        return gradients, _trained_batch(state.model, trials, keys, states, losses, loss, batch)

    def forward(self, state: TrainState, *, batch: Int[Array, ""], member_id: Int[Array, ""]) -> TrainedBatch:
        """Return the batch that `gradients` returns, which is traced sooner than with them."""
        _, trials, keys, loss = self._drawn(state, batch, member_id)
        states, losses = self._run(state.model, loss, trials, keys)
        return _trained_batch(state.model, trials, keys, states, losses, loss, batch)

    def _drawn(
        self, state: TrainState, batch: Int[Array, ""], member_id: Int[Array, ""]
    ) -> tuple[Key[Array, ""], Trial, Key[Array, " trial"], Loss]:
        """Return the key of a batch, its trials, their keys, and its loss."""
        rng = jax.random.fold_in(state.root_rng, state.step)
        drawn_for = None if self.shared_trials else member_id
        trials = training_trials(self.task, self.batch_size, batch=batch, member_id=drawn_for, key=rng)
        keys = trial_keys(rng, self.batch_size, member_id=member_id)
        scheduled = self.task.loss if self.loss_update_func is None else state.loss_fn_state.loss
        return rng, trials, keys, scheduled.at_batch(batch)

    def optimized(self, state: TrainState, gradients: PyTree, batch: TrainedBatch) -> TrainState:
        """Return the state after the optimizer's step on a batch."""
        loss = jax.tree.map(jnp.mean, batch.losses).total
        return optimizer_step(
            state, gradients, loss, lambda params: self._mean_loss(params, state, batch), self.trained
        )

    def _mean_loss(self, params: PyTree, state: TrainState, batch: TrainedBatch) -> Float[Array, ""]:
        """Return the mean loss over a batch for other trained parameters, one part in memory at a time."""
        own = params if self.trained is None else eqx.combine(eqx.filter(params, self.trained), state.params)
        model = eqx.combine(own, state.model_without_params)

        def of_part(trials, keys):
            return jax.tree.map(jnp.mean, self._run(model, batch.loss, trials, keys)[1]).total

        whole = (batch.trials, batch.keys)
        if self.n_minibatches == 1:
            return of_part(*whole)
        parts = split_batch(whole, self.n_minibatches)
        return jnp.mean(jax.lax.map(jax.checkpoint(lambda part: of_part(*part)), parts))

    def _run(
        self, model: Any, loss: Loss, trials: Trial, keys: Key[Array, " trial"]
    ) -> tuple[PyTree[Array], LossValues]:
        """Return the states, if a model update needs them, and the losses of all trials."""

        def one_trial(trial, key):
            states = simulate(model, trial, remat=self.remat, key=key)
            return states if self.updates else None, loss(states, trial, model)

        return map_trials(one_trial, trials, keys)

    def _record(self, before: TrainState, after: TrainState, loss: LossValues) -> BatchRecord:
        weights = before.loss_fn_state.loss.weights if self.loss_update_func is not None else None
        record = BatchRecord(loss, learning_rate_of(after.opt_state), weights)
        is_held = before.loss_fn_state.is_held
        return jax.tree.map(lambda value: jnp.where(is_held, jnp.nan, value), record)


def _trained_batch(
    model: Any,
    trials: Trial,
    keys: Key[Array, " trial"],
    states: PyTree[Array],
    losses: LossValues,
    loss: Loss,
    batch: Int[Array, ""],
) -> TrainedBatch:
    start = jax.vmap(lambda trial, key: initial_state(model, trial, key=key))(trials, keys)
    return TrainedBatch(model, trials, keys, start, states, losses, loss, batch)


def _changed(before: Any, after: Any) -> Any:
    """Return the leaves that were replaced."""
    return jax.tree.map(lambda old, new: None if new is old else new, before, after)


def _with_model(state: TrainState, model: Any) -> TrainState:
    """Return the state with another model, partitioned as before."""
    params, rest = eqx.partition(model, state.is_param)
    return dataclasses.replace(state, params=params, model_without_params=rest)
