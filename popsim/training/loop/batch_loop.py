"""The compiled loop over training batches, and the placement of members on devices."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from popsim._compiled import jit_low_memory, to_numpy, trace_function
from popsim.ensemble import map_members
from popsim.per_member import with_member_values
from popsim.training.steps.train_state import OWN, SHARED, TrainState, state_parts

__all__ = ["BatchLoop", "CallPlan", "MemberLayout", "STORED_PER_STATE", "members_at_a_time"]

CACHE_BYTES = 2**20
STORED_PER_STATE = 6  # numbers that a gradient stores for each number of the state, with gated units


class LoopBuffers(eqx.Module):
    """Output rows of the loop: one per batch, and one per recording of the trainables.

    `trainables` has one extra row, to which batches that are not kept write.
    """

    records: PyTree[Array]
    trainables: PyTree[Array]


class CallPlan(eqx.Module):
    """The plan of one call of the loop."""

    n_steps: Int[Array, ""]
    trainable_rows: Int[Array, " capacity"]
    enabled: Bool[Array, "capacity update"] | None


class BatchLoop(eqx.Module):
    """A compiled loop of up to `capacity` train steps, one program for any number."""

    member_step: Callable[..., tuple[TrainState, PyTree[Array]]]
    member_ids: Int[Array, "*member"]  # on which their draws depend
    member_values: PyTree[Array] = None  # of each `PerMember` in `member_step`
    recorded: PyTree[bool] = None  # which leaves are kept as trainables; None for the parameters
    ensembled: bool = eqx.field(static=True, default=True)
    capacity: int = eqx.field(static=True, default=64)
    n_kept: int = eqx.field(static=True, default=0)  # the most steps of a call whose trainables are kept
    member_batch_size: int | None = eqx.field(static=True, default=None)  # trained at a time; None for all
    skips_inactive: bool = eqx.field(static=True, default=False)  # once they fill a block
    mesh: jax.sharding.Mesh | None = eqx.field(static=True, default=None)

    def __call__(
        self,
        state: TrainState,
        n_steps: int,
        trainable_rows: Int[Array, " capacity"] | None = None,
        enabled: Bool[Array, "capacity update"] | None = None,
    ) -> tuple[TrainState, LoopBuffers]:
        """Make `n_steps` train steps, up to `capacity`; the arrays of the state are donated.

        Rows of the buffers past `n_steps` are zero; trainables of row `n_kept` are not kept.
        """
        if trainable_rows is None:
            trainable_rows = jnp.full(self.capacity, self.n_kept)
        return _compiled_run(self, (state, CallPlan(jnp.asarray(n_steps), trainable_rows, enabled)))

    def step(
        self, state: TrainState, enabled: Bool[Array, " update"] | None
    ) -> tuple[TrainState, PyTree[Array]]:
        """Make one step of all members."""
        if not self.ensembled:
            return self.member_step(state, batch=state.step, member_id=self.member_ids, enabled=enabled)
        arrays, static = eqx.partition(state_parts(state, OWN), eqx.is_array)

        def one_member(member):
            arrays, member_id, values = member
            member_state = dataclasses.replace(state, **eqx.combine(arrays, static))
            if member_state.hyperparameters is not None:
                # Where population updates change hyperparameters, the state has the present ones, and
                # `member_values` those of the start.
                values = member_state.hyperparameters
            step_of_member = with_member_values(self.member_step, values)
            member_state, record = step_of_member(
                member_state, batch=state.step, member_id=member_id, enabled=enabled
            )
            return eqx.filter(state_parts(member_state, OWN), eqx.is_array), record

        members = (arrays, self.member_ids, self.member_values)
        block = self.member_batch_size
        if self.skips_inactive and block is not None and block < self.member_ids.shape[0]:
            is_inactive = state.loss_fn_state.is_inactive
            arrays, record = _map_blocks_with_active(one_member, members, is_inactive, block)
        else:
            arrays, record = map_members(one_member, members, block)
        return dataclasses.replace(state, step=state.step + 1, **eqx.combine(arrays, static)), record

    def run(self, state: TrainState, plan: CallPlan) -> tuple[TrainState, LoopBuffers]:
        """Make the steps of a call on one device."""
        arrays, static = eqx.partition(state, eqx.is_array)

        def trainables_of(arrays: Any) -> PyTree[Array]:
            if not self.n_kept:
                return None
            state = eqx.combine(arrays, static)
            return state.params if self.recorded is None else eqx.filter(state.model, self.recorded)

        def step_of(arrays: Any, enabled: Any) -> tuple[Any, PyTree[Array]]:
            state, record = self.step(eqx.combine(arrays, static), enabled)
            return eqx.filter(state, eqx.is_array), record

        first_enabled = None if plan.enabled is None else plan.enabled[0]
        # The buffers need the shapes of a record before the loop is built. This gives them and the body at
        # once; `jax.eval_shape` would trace the step a second time.
        step, (_, record) = trace_function(step_of, arrays, first_enabled)
        trainables = jax.eval_shape(trainables_of, arrays)
        buffers = LoopBuffers(_rows_like(record, self.capacity), _rows_like(trainables, self.n_kept + 1))

        def body(i, carry):
            arrays, buffers = carry
            enabled = None if plan.enabled is None else plan.enabled[i]
            arrays, record = step(arrays, enabled)
            buffers = LoopBuffers(
                _write_row(buffers.records, record, i),
                _write_row(buffers.trainables, trainables_of(arrays), plan.trainable_rows[i]),
            )
            return arrays, buffers

        # The number of steps is an argument of the program, not a constant in it: one program makes any
        # number of them. Such a loop has no reverse mode, which is needed only within a step.
        arrays, buffers = jax.lax.fori_loop(0, plan.n_steps, body, (arrays, buffers))
        return eqx.combine(arrays, static), buffers


def _map_blocks_with_active(
    one_member: Callable[[PyTree[Array]], tuple[PyTree[Array], PyTree[Array]]],
    members: tuple[PyTree[Array], ...],
    is_inactive: Bool[Array, " member"],
    block: int,
) -> tuple[PyTree[Array], PyTree[Array]]:
    """Return what `jax.lax.map(one_member, members, batch_size=block)` does, skipping inactive members.

    The active members come first, in order, and fill ceil(n_active / block) blocks. Those in no
    block keep their arrays, and their records are NaN.
    """
    n_members = is_inactive.shape[0]
    # XLA has no arrays of variable length: the members that train are sorted to the front, and the loop runs
    # over as many blocks as they fill. Within a block, `jax.vmap` makes all steps whether needed or not.
    order = jnp.argsort(is_inactive, stable=True)
    places = jnp.pad(order, (0, -n_members % block), constant_values=n_members)  # which are dropped below
    n_blocks = (jnp.sum(~is_inactive) + block - 1) // block
    arrays, *constants = members

    def members_at(block_places: Int[Array, " block"], arrays: PyTree[Array]) -> tuple[PyTree[Array], ...]:
        # Padding reads the last member ("clip"), and what is computed from it is not written ("drop").
        return jax.tree.map(lambda leaf: leaf.at[block_places].get(mode="clip"), (arrays, *constants))

    block_shapes = jax.eval_shape(members_at, order[:block], arrays)
    program, (_, record) = trace_function(jax.vmap(one_member), block_shapes)

    def empty_record(leaf):
        value = jnp.nan if jnp.issubdtype(leaf.dtype, jnp.inexact) else 0
        return jnp.full((n_members, *leaf.shape[1:]), value, leaf.dtype)

    records = jax.tree.map(empty_record, record)

    def one_block(number, carry):
        block_places = jax.lax.dynamic_slice_in_dim(places, number * block, block)
        updated = program(members_at(block_places, carry[0]))
        return jax.tree.map(lambda leaf, new: leaf.at[block_places].set(new, mode="drop"), carry, updated)

    return jax.lax.fori_loop(0, n_blocks, one_block, (arrays, records))


def members_at_a_time(n_members: int, weight_bytes: int, state_bytes: int) -> int:
    """Return how many members to train at a time on a core of a CPU.

    The weights, their gradients and all that a time step reads and writes should take about 1 MB, which the
    caches of cores hold; up to half as much again, if that makes one block of all.
    A last block that is smaller is avoided where it can be, as it is compiled besides.
    """
    most = max(1, CACHE_BYTES // (weight_bytes + STORED_PER_STATE * state_bytes))
    if 2 * n_members <= 3 * most:
        return n_members
    # A divisor of the number of members leaves no smaller last block; it is taken unless it is less than half
    # of what the caches hold.
    even = max(size for size in range(1, most + 1) if n_members % size == 0)
    return even if 2 * even >= most else most


@dataclasses.dataclass(frozen=True)
class MemberLayout:
    """A division of the member axis over devices, with equally many members on each.

    If the members do not divide evenly, the last one is repeated; gathering drops the copies.
    """

    n_members: int
    mesh: jax.sharding.Mesh | None

    @classmethod
    def over(cls, devices: Sequence[jax.Device] | None, n_members: int) -> "MemberLayout":  # pyright: ignore[reportInvalidTypeForm]
        """Return the layout over devices; devices in excess of the members are not used."""
        if devices is None:
            return cls(n_members, None)
        used = np.asarray(devices[:n_members])
        mesh = jax.sharding.Mesh(used, ("member",), axis_types=(jax.sharding.AxisType.Auto,))
        return cls(n_members, mesh)

    @property
    def platform(self) -> str:
        """The kind of the devices: "cpu", "gpu" or "tpu"."""
        return jax.default_backend() if self.mesh is None else self.mesh.devices.flat[0].platform

    @property
    def n_on_device(self) -> int:
        """The number of members on each device."""
        return self.n_members if self.mesh is None else -(-self.n_members // self.mesh.size)

    def spread(self, tree: PyTree) -> PyTree:
        """Return arrays with a leading member axis, padded and laid out."""
        if self.mesh is None:
            return tree
        # JAX divides an axis over devices only evenly. A copy of a member does nothing that the member does
        # not do itself.
        n_extra = -self.n_members % self.mesh.size
        # XLA returns arrays on a single device as replicated. They must arrive so as well, since a program
        # for another layout would be compiled again by the second call.
        axes = ("member",) if self.mesh.size > 1 else ()
        sharding = jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec(*axes))

        def lay_out(leaf: Any) -> Any:
            if not eqx.is_array(leaf):
                return leaf
            array = to_numpy(leaf)
            numbers = jnp if isinstance(array, jax.Array) else np
            padded = numbers.concatenate([array, *[array[-1:]] * n_extra]) if n_extra else array
            return jax.device_put(padded, sharding)

        return jax.tree.map(lay_out, tree)

    def repeat(self, tree: PyTree) -> PyTree:
        """Return arrays that all members share, copied to every device."""
        if self.mesh is None:
            return tree
        sharding = jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec())
        return jax.tree.map(lambda leaf: jax.device_put(leaf, sharding) if eqx.is_array(leaf) else leaf, tree)

    def spread_state(self, state: TrainState) -> TrainState:
        laid_out = self.spread(state_parts(state, OWN)) | self.repeat(state_parts(state, SHARED))
        return dataclasses.replace(state, **laid_out)

    def gather(self, tree: PyTree) -> PyTree:
        """Return laid out arrays on one device, without padding."""
        if self.mesh is None:
            return tree
        device = self.mesh.devices.flat[0]
        place = None if device == jax.local_devices()[0] else device  # None: programs are shared with others

        def gather(leaf: Any) -> Any:
            if not eqx.is_array(leaf):
                return leaf
            array = to_numpy(leaf)
            if isinstance(array, jax.Array):
                return jax.device_put(leaf, device)[: self.n_members]
            return jax.device_put(array[: self.n_members].copy(), place)

        return jax.tree.map(gather, tree)

    def gather_state(self, state: TrainState) -> TrainState:
        return dataclasses.replace(state, **self.gather(state_parts(state, OWN)))


@functools.partial(jit_low_memory, donate="all-except-first")
def _compiled_run(loop: BatchLoop, donated: tuple[TrainState, CallPlan]) -> tuple[TrainState, LoopBuffers]:
    state, plan = donated
    if loop.mesh is None:
        return loop.run(state, plan)
    member_arrays, static = eqx.partition(state_parts(state, OWN), eqx.is_array)

    def on_one_device(member_arrays, member_ids, member_values, shared, plan):
        local = dataclasses.replace(loop, member_ids=member_ids, member_values=member_values)
        after, buffers = local.run(
            dataclasses.replace(state, **shared, **eqx.combine(member_arrays, static)), plan
        )
        return eqx.filter(state_parts(after, OWN), eqx.is_array), state_parts(after, SHARED), buffers

    spec = jax.sharding.PartitionSpec
    by_member, replicated, rows_by_member = spec("member"), spec(), spec(None, "member")
    member_arrays, shared, buffers = jax.shard_map(
        _trace_outside_meshes(on_one_device),
        mesh=loop.mesh,
        in_specs=(by_member, by_member, by_member, replicated, replicated),
        out_specs=(by_member, replicated, rows_by_member),
        check_vma=False,
    )(member_arrays, loop.member_ids, loop.member_values, state_parts(state, SHARED), plan)
    return dataclasses.replace(state, **shared, **eqx.combine(member_arrays, static)), buffers


def _trace_outside_meshes(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Trace the function as if on a single device: diffrax's loops cannot be differentiated in a mesh."""

    def call(*arguments):
        with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ())):
            traced, _ = trace_function(function, *arguments)
        return traced(*arguments)

    return call


def _rows_like(tree: PyTree, n_rows: int) -> PyTree[Array]:
    """Return rows of zeros, not NaN, which `jax_debug_nans` would report."""
    return jax.tree.map(lambda leaf: jnp.zeros((n_rows, *leaf.shape), leaf.dtype), tree)


def _write_row(rows: PyTree[Array], row: PyTree[Array], index: Int[Array, ""]) -> PyTree[Array]:
    return jax.tree.map(
        lambda buffer, value: jax.lax.dynamic_update_index_in_dim(buffer, value, index, 0), rows, row
    )
