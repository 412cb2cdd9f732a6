"""The compiled loop over training batches."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from popsim.loss import LossValues
from popsim.training.build_train_step import TrainStep
from popsim.training.optimizers import learning_rate_of
from popsim.training.train_state import TrainState


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
    - `n_kept`: of how many of these steps the trainable arrays can be kept.
    """

    train_step: TrainStep
    member_ids: Int[Array, " member"] | None
    capacity: int = eqx.field(static=True)
    n_kept: int = eqx.field(static=True, default=0)

    def __call__(
        self, state: TrainState, n_steps: int, trainable_rows: Int[Array, " capacity"] | None = None
    ) -> tuple[TrainState, LoopBuffers]:
        """Make `n_steps` train steps.

        **Arguments:**

        - `state`: the state before them; its arrays are donated and cannot be used afterwards.
        - `n_steps`: how many, up to `capacity`.
        - `trainable_rows`: for each of them the row in which its trainables are kept, or `n_kept` where
            they are not; by default nowhere.

        **Returns:** the state after them and the filled buffers; rows past `n_steps` hold NaN.
        """
        if n_steps > self.capacity:
            raise ValueError(f"`n_steps` must be at most the capacity {self.capacity}, got {n_steps}.")
        if trainable_rows is None:
            trainable_rows = jnp.full(self.capacity, self.n_kept)
        return _run(self, (state, jnp.asarray(n_steps), trainable_rows))

    def step(self, state: TrainState) -> tuple[TrainState, BatchRecord]:
        """One step of all members."""
        if self.member_ids is None:
            next_state, loss = self.train_step(state, batch=state.step, member_id=jnp.asarray(0))
            return next_state, BatchRecord(loss, learning_rate_of(next_state.opt_state))
        return self._step_ensemble(state)

    def _step_ensemble(self, state: TrainState) -> tuple[TrainState, BatchRecord]:
        """Every array of the state but `step` and `root_rng` leads with the member axis."""
        arrays, static = eqx.partition(_parts_of_members(state), eqx.is_array)

        def one_member(arrays, member_id):
            own = dataclasses.replace(state, **eqx.combine(arrays, static))
            own, loss = self.train_step(own, batch=state.step, member_id=member_id)
            record = BatchRecord(loss, learning_rate_of(own.opt_state))
            return eqx.filter(_parts_of_members(own), eqx.is_array), record

        arrays, record = jax.vmap(one_member)(arrays, self.member_ids)
        parts = eqx.combine(arrays, static)
        return dataclasses.replace(state, step=state.step + 1, **parts), record


def _parts_of_members(state: TrainState) -> dict[str, PyTree]:
    """What each member has of its own: all of the state but `step`, `root_rng` and the optimizer."""
    names = ("params", "model_without_params", "opt_state", "loss_fn_state")
    return {name: getattr(state, name) for name in names}


@eqx.filter_jit(donate="all-except-first")
def _run(
    loop: BatchLoop, donated: tuple[TrainState, Int[Array, ""], Int[Array, " capacity"]]
) -> tuple[TrainState, LoopBuffers]:
    state, n_steps, trainable_rows = donated
    arrays, static = eqx.partition(state, eqx.is_array)
    record = jax.eval_shape(lambda a: loop.step(eqx.combine(a, static))[1], arrays)
    kept = arrays.params if loop.n_kept else None
    buffers = LoopBuffers(_rows_like(record, loop.capacity), _rows_like(kept, loop.n_kept + 1))

    def body(i, carry):
        arrays, buffers = carry
        state, record = loop.step(eqx.combine(arrays, static))
        arrays = eqx.filter(state, eqx.is_array)
        kept = arrays.params if loop.n_kept else None
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
