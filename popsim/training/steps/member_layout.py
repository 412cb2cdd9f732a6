"""Placement of the members of an ensemble on devices."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from popsim._compiled import to_numpy
from popsim.training.steps.train_state import OWN, SHARED, TrainState, state_parts

__all__ = ["MemberLayout", "check_devices"]


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
        """Return a train state with the members laid out."""
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
        """Return a train state with the members gathered."""
        return dataclasses.replace(state, **self.gather(state_parts(state, OWN)))


def check_devices(devices: Any) -> None:
    """Raise `ValueError` unless `devices` are one or more different JAX devices."""
    is_listed = isinstance(devices, Sequence | np.ndarray) and len(devices) > 0
    are_devices = is_listed and all(isinstance(device, jax.Device) for device in devices)
    if not are_devices or len(set(devices)) < len(devices):
        raise ValueError(
            f"`devices` must be different JAX devices, such as jax.local_devices(), got {devices}."
        )
