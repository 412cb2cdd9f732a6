"""Networks in layers."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from popsim._shared.checks import as_parts, short_repr
from popsim._shared.plain_values import plain_number
from popsim.networks.base import AbstractNetwork
from popsim.networks.wrapper import AbstractNetworkWrapper, EncodedNetwork
from popsim.randomness import key_stream, seed_key

__all__ = ["StackedNetwork"]


class StackedNetwork(AbstractNetwork):
    """Layers of networks: each receives the output of the one before at the same time step.

    ```python
    first = popsim.networks.GRUNetwork(3, 64, 32, key=key)  # 32 numbers go to the second layer
    network = popsim.networks.StackedNetwork([first, popsim.networks.LeakyRNN(32, 64, 2, key=other_key)])
    ```

    The hidden state is the tuple of those of the layers, and the activity is that of all units, those of the
    first layer first. The groups of units are called "layer 0", "layer 1" and so on. Learning rules need a
    network with projections, and this has none.

    **Arguments:**

    - `layers`: networks, each with as many inputs as the one before has outputs.
    """

    layers: tuple[AbstractNetwork, ...]
    n_inputs: int = eqx.field(static=True, converter=plain_number)
    n_outputs: int = eqx.field(static=True, converter=plain_number)
    n_units: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, layers: Sequence[AbstractNetwork]):
        layers = as_parts("layers", layers, AbstractNetwork, "networks such as GRUNetwork")
        if not layers:
            raise ValueError("`layers` must hold at least one network, got none.")
        for i, (before, after) in enumerate(zip(layers, layers[1:], strict=False)):
            if before.n_outputs != after.n_inputs:
                raise ValueError(
                    f"`layers[{i + 1}]` must have as many inputs as layers[{i}] has outputs, "
                    f"{before.n_outputs}, got {after.n_inputs}."
                )
        self.layers = layers
        self.n_inputs = layers[0].n_inputs
        self.n_outputs = layers[-1].n_outputs
        self.n_units = tuple(eqx.filter_eval_shape(_activity_at_start, layer).size for layer in layers)

    def init(self, *, key: Key[Array, ""]) -> tuple[PyTree[Array], ...]:
        return tuple(layer.init(key=self._key(i, key)) for i, layer in enumerate(self.layers))

    def step(
        self, inputs: Float[Array, " inputs"], hidden: PyTree[Array], *, key: Key[Array, ""]
    ) -> PyTree[Array]:
        after = []
        for i, (layer, before) in enumerate(zip(self.layers, hidden, strict=True)):
            after.append(layer.step(inputs, before, key=self._key(i, key)))
            inputs = layer.read_out(after[-1])
        return tuple(after)

    def _key(self, layer: int, key: Key[Array, ""]) -> Key[Array, ""]:
        return key_stream(key, f"layer {layer}")

    def read_out(self, hidden: PyTree[Array]) -> Float[Array, " output"]:
        return self.layers[-1].read_out(hidden[-1])

    def activity(self, hidden: PyTree[Array]) -> Float[Array, " unit"]:
        pairs = zip(self.layers, hidden, strict=True)
        return jnp.concatenate([layer.activity(of_layer) for layer, of_layer in pairs])

    def with_activity(self, hidden: PyTree[Array], rates: Float[Array, " unit"]) -> PyTree[Array]:
        parts = jnp.split(rates, np.cumsum(self.n_units)[:-1])
        triples = zip(self.layers, hidden, parts, strict=True)
        return tuple(layer.with_activity(of_layer, part) for layer, of_layer, part in triples)

    def unit_groups(self) -> dict[str, Int[np.ndarray, " unit"]]:
        """Return the units of each layer, and the groups that a layer has itself, such as "layer 0 PMd"."""
        groups = {}
        for i, (layer, n_units) in enumerate(zip(self.layers, self.n_units, strict=True)):
            first = sum(self.n_units[:i])
            groups[f"layer {i}"] = first + np.arange(n_units)
            groups |= {f"layer {i} {name}": first + units for name, units in layer.unit_groups().items()}
        return groups

    def with_dt(self, dt: float) -> "StackedNetwork":
        """Return the network for another time step (s), if all layers have one in their equations."""
        # Not through __init__, which counts the units of one member.
        return eqx.tree_at(
            lambda stack: stack.layers, self, tuple(layer.with_dt(dt) for layer in self.layers)
        )

    def check_dt(self, dt: float) -> None:
        for layer in self.layers:
            layer.check_dt(dt)


def _activity_at_start(network: AbstractNetwork) -> Float[Array, " unit"]:
    return network.activity(network.init(key=seed_key(0)))


def check_gives_logits(network: AbstractNetwork, reader: str) -> None:
    """Raise `ValueError` if a network puts out probabilities, where `reader` takes logits."""
    function = _last_function(network)
    if function is None:
        return
    logits = 1e3 * np.where(np.arange(network.n_outputs) % 2, -1.0, 1.0)
    try:
        with jax.ensure_compile_time_eval():
            results = np.stack([function(jnp.asarray(sign * logits, float)) for sign in (1, -1)])
    except jax.errors.TracerArrayConversionError:  # it reads traced arrays
        return
    if np.all((results >= 0) & (results <= 1)):
        raise ValueError(
            f"`output_fn` of the network must be None for {reader}, which reads its outputs as logits and "
            f"makes probabilities of them, got {getattr(function, '__name__', short_repr(function))}, which "
            "returns numbers from 0 to 1."
        )


def _last_function(network: AbstractNetwork) -> Callable[[Array], Array] | None:
    """Return the function of fixed form that a network applies to its outputs at last, if any."""
    if isinstance(network, StackedNetwork):
        return _last_function(network.layers[-1])
    if isinstance(network, EncodedNetwork) and network.readout is not None:
        return _without_arrays(network.readout)
    if isinstance(network, AbstractNetworkWrapper):
        return _last_function(network.network)
    # A field of this name in a network of the user's may be applied to something else.
    of_popsim = [base for base in type(network).__mro__ if base.__module__.startswith("popsim.")]
    has_field = any("output_fn" in vars(base).get("__annotations__", ()) for base in of_popsim)
    return _without_arrays(getattr(network, "output_fn", None)) if has_field else None


def _without_arrays(function: Any) -> Any:
    """Return a function of fixed form; None for one with weights, whose results do not tell its form."""
    return None if jax.tree.leaves(eqx.filter(function, eqx.is_array)) else function
