"""The compiled loop over training batches."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from popsim.loss import LossValues
from popsim.training.optimizers import learning_rate_of
from popsim.training.train_state import TrainState
from popsim.training.train_step import TrainStep


class BatchRecord(eqx.Module):
    """What training records of a batch: leaves lead with (batch,) and, for an ensemble, (member,)."""

    loss: LossValues
    learning_rate: Float[Array, "*axes"]


class LoopBuffers(eqx.Module):
    """Where the loop writes: one row for each batch, and one for each recording of the trainables.

    `trainables` has one row more than can be asked for: batches that are not to be kept write there.
    """

    records: BatchRecord
    trainables: PyTree[Array]


class BatchLoop(eqx.Module):
    """Up to `capacity` train steps in one compiled program, whatever their number.

    **Arguments:**

    - `train_step`: the step of one member.
    - `member_ids`: the members of the ensemble; None for a single model.
    - `capacity`: the most steps that one call makes.
    - `keeps_trainables`: whether trainable arrays are recorded.
    """

    train_step: TrainStep
    member_ids: Int[Array, " member"] | None
    capacity: int = eqx.field(static=True)
    keeps_trainables: bool = eqx.field(static=True)

    def __call__(
        self, state: TrainState, n_steps: int, trainable_rows: Int[Array, " capacity"] | None = None
    ) -> tuple[TrainState, LoopBuffers]:
        """Make `n_steps` train steps.

        **Arguments:**

        - `state`: the state before them; its arrays are donated and cannot be used afterwards.
        - `n_steps`: how many, up to `capacity`.
        - `trainable_rows`: for each of them the row in which its trainables are kept, or `capacity` where
            they are not; by default nowhere.

        **Returns:** the state after them and the filled buffers; rows past `n_steps` hold NaN.
        """
        if trainable_rows is None:
            trainable_rows = jnp.full(self.capacity, self.capacity)
        return _run(self, (state, jnp.asarray(n_steps), trainable_rows))

    def step(self, state: TrainState) -> tuple[TrainState, BatchRecord]:
        """One step of all members."""
        if self.member_ids is None:
            next_state, loss = self.train_step(state, batch=state.step, member_id=jnp.asarray(0))
            return next_state, BatchRecord(loss, learning_rate_of(next_state.opt_state))
        return self._step_ensemble(state)

    def _step_ensemble(self, state: TrainState) -> tuple[TrainState, BatchRecord]:
        fixed_arrays, static = eqx.partition(state.model_without_params, eqx.is_array)

        def one_member(params, fixed, opt_state, member_id):
            own = dataclasses.replace(
                state,
                params=params,
                model_without_params=eqx.combine(fixed, static),
                opt_state=opt_state,
            )
            own, loss = self.train_step(own, batch=state.step, member_id=member_id)
            return own.params, own.opt_state, BatchRecord(loss, learning_rate_of(own.opt_state))

        params, opt_state, record = jax.vmap(one_member)(
            state.params, fixed_arrays, state.opt_state, self.member_ids
        )
        return dataclasses.replace(state, step=state.step + 1, params=params, opt_state=opt_state), record


@eqx.filter_jit(donate="all-except-first")
def _run(
    loop: BatchLoop, donated: tuple[TrainState, Int[Array, ""], Int[Array, " capacity"]]
) -> tuple[TrainState, LoopBuffers]:
    state, n_steps, trainable_rows = donated
    arrays, static = eqx.partition(state, eqx.is_array)
    record = jax.eval_shape(lambda a: loop.step(eqx.combine(a, static))[1], arrays)
    kept = arrays.params if loop.keeps_trainables else None
    buffers = LoopBuffers(_rows_like(record, loop.capacity), _rows_like(kept, loop.capacity + 1))

    def body(i, carry):
        arrays, buffers = carry
        state, record = loop.step(eqx.combine(arrays, static))
        arrays = eqx.filter(state, eqx.is_array)
        kept = arrays.params if loop.keeps_trainables else None
        buffers = LoopBuffers(
            _write_row(buffers.records, record, i),
            _write_row(buffers.trainables, kept, trainable_rows[i]),
        )
        return arrays, buffers

    arrays, buffers = jax.lax.fori_loop(0, n_steps, body, (arrays, buffers))
    return eqx.combine(arrays, static), buffers


def _rows_like(tree: PyTree, n_rows: int) -> PyTree[Array]:
    return jax.tree.map(lambda leaf: jnp.full((n_rows, *leaf.shape), jnp.nan, leaf.dtype), tree)


def _write_row(rows: PyTree[Array], row: PyTree[Array], index: Int[Array, ""]) -> PyTree[Array]:
    return jax.tree.map(
        lambda buffer, value: jax.lax.dynamic_update_index_in_dim(buffer, value, index, 0), rows, row
    )
