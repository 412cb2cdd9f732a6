"""How the members of an ensemble lie on the devices."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from popsim.training.train_state import OWN, SHARED, TrainState, parts


@dataclasses.dataclass(frozen=True)
class MemberLayout:
    """Divides the member axis over devices, each with equally many members.

    Where the members do not divide, the last one is repeated; what is gathered leaves the copies out.

    - `n_members`: how many members there are.
    - `mesh`: the devices; None to leave everything where it is.
    """

    n_members: int
    mesh: jax.sharding.Mesh | None

    @classmethod
    def over(cls, devices: Sequence[jax.Device] | None, n_members: int) -> "MemberLayout":  # pyright: ignore[reportInvalidTypeForm]
        """The layout over devices; more devices than members are not used."""
        if devices is None:
            return cls(n_members, None)
        used = np.asarray(devices[:n_members])
        mesh = jax.sharding.Mesh(used, ("member",), axis_types=(jax.sharding.AxisType.Auto,))
        return cls(n_members, mesh)

    def spread(self, tree: PyTree) -> PyTree:
        """Arrays with a leading member axis, padded and laid out."""
        if self.mesh is None:
            return tree
        n_extra = -self.n_members % self.mesh.size
        sharding = jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec("member"))

        def laid_out(leaf: Any) -> Any:
            if not eqx.is_array(leaf):
                return leaf
            last = jnp.broadcast_to(leaf[-1:], (n_extra, *leaf.shape[1:]))
            return jax.device_put(jnp.concatenate([leaf, last]) if n_extra else leaf, sharding)

        return jax.tree.map(laid_out, tree)

    def repeat(self, tree: PyTree) -> PyTree:
        """Arrays that all members share, on every device."""
        if self.mesh is None:
            return tree
        sharding = jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec())
        return jax.tree.map(lambda leaf: jax.device_put(leaf, sharding) if eqx.is_array(leaf) else leaf, tree)

    def spread_state(self, state: TrainState) -> TrainState:
        """A train state with the members of all its parts laid out."""
        laid_out = self.spread(parts(state, OWN)) | self.repeat(parts(state, SHARED))
        return dataclasses.replace(state, **laid_out)

    def gather(self, tree: PyTree) -> PyTree:
        """The members of laid out arrays, without copies, on one device."""
        if self.mesh is None:
            return tree
        device = self.mesh.devices.flat[0]

        def gathered(leaf: Any) -> Any:
            if not eqx.is_array(leaf):
                return leaf
            whole = jax.device_put(leaf, device)
            return whole[: self.n_members]

        return jax.tree.map(gathered, tree)

    def gather_state(self, state: TrainState) -> TrainState:
        """A train state with the members of all its parts gathered."""
        return dataclasses.replace(state, **self.gather(parts(state, OWN)))


def check_devices(devices: Sequence[Any]) -> None:
    """Raise `ValueError` unless `devices` are one or more different JAX devices."""
    are_devices = len(devices) > 0 and all(isinstance(device, jax.Device) for device in devices)
    if not are_devices or len(set(devices)) < len(devices):
        raise ValueError(
            f"`devices` must be different JAX devices, such as jax.local_devices(), got {devices}."
        )
