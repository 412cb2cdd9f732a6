"""Networks made of others: with a learned start, with an encoder or a readout, and in layers."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from popsim._shared import checks
from popsim._shared.plain_values import plain_number
from popsim.networks.base import (
    AbstractNetwork,
    Hidden,
    Inputs,
    NetworkStep,
    Output,
    Projection,
    Units,
    check_network,
)
from popsim.networks.building import AbstractReadoutNetwork
from popsim.parameters import LearnedByArgument
from popsim.randomness import key_stream, seed_key
from popsim.trial import Trial

__all__ = ["AbstractNetworkWrapper", "EncodedNetwork", "StackedNetwork", "TrainableStart"]

WrapperType = TypeVar("WrapperType", bound="AbstractNetworkWrapper")


class AbstractNetworkWrapper(AbstractNetwork):
    """Base class of networks around another one, `network`, of which a subclass overrides some methods.

    The hidden state is that of the inner network.
    """

    network: eqx.AbstractVar[AbstractNetwork]

    def init(self, *, key: Key[Array, ""]) -> Hidden:
        return self.network.init(key=key)

    def init_for(self, trial: Trial, *, key: Key[Array, ""]) -> Hidden:
        if type(self).init is AbstractNetworkWrapper.init:
            return self.network.init_for(trial, key=key)
        return self.init(key=key)  # of a subclass that overrides it

    def step(self, inputs: Inputs, hidden: Hidden, *, key: Key[Array, ""]) -> Hidden:
        return self.network.step(inputs, hidden, key=key)

    def read_out(self, hidden: Hidden) -> Output:
        return self.network.read_out(hidden)

    def activity(self, hidden: Hidden) -> Units:
        return self.network.activity(hidden)

    def with_activity(self, hidden: Hidden, rates: Units) -> Hidden:
        return self.network.with_activity(hidden, rates)

    def unit_groups(self) -> dict[str, Int[np.ndarray, " unit"]]:
        return self.network.unit_groups()

    def inner_step(self, step: NetworkStep) -> NetworkStep:
        """Return what is a step of the inner network in a step of this one; by default the step itself."""
        return step

    def with_given_rates(self: WrapperType) -> WrapperType:
        return eqx.tree_at(lambda outer: outer.network, self, self.network.with_given_rates())

    def projections(self) -> dict[str, Projection]:
        return {name: _outer_projection(inner) for name, inner in self.network.projections().items()}

    def with_dt(self: WrapperType, dt: float) -> WrapperType:
        """Return the network for another time step (s); only the inner network changes."""
        return eqx.tree_at(lambda outer: outer.network, self, self.network.with_dt(dt))

    def check_dt(self, dt: float) -> None:
        self.network.check_dt(dt)


def _outer_projection(projection: Projection) -> Projection:
    """Return the projection of a network as one of a network that holds it as `network`."""

    def read_inner(read: Callable) -> Callable[[AbstractNetworkWrapper, NetworkStep], Array]:
        return lambda outer, step: read(outer.network, outer.inner_step(step))

    where, where_bias = projection.where, projection.where_bias
    return dataclasses.replace(
        projection,
        where=lambda outer: where(outer.network),
        pre=read_inner(projection.pre),
        post=read_inner(projection.post),
        where_bias=None if where_bias is None else lambda outer: where_bias(outer.network),
    )


class TrainableStart(AbstractNetworkWrapper):
    """A network whose hidden state at the start of a trial is learned like its weights.

    ```python
    network = popsim.networks.TrainableStart(popsim.networks.LSTMNetwork(3, 64, 1, key=key))
    ```

    The rest is that of the inner network, `network.network`. Each member of an ensemble learns its own start.

    **Arguments:**

    - `network`: any network.
    - `initial_hidden`: the start before training, of the structure of the hidden state; None for that of the
        network.
    """

    learned_by_argument: ClassVar[LearnedByArgument] = {"initial_hidden": "initial_hidden"}
    network: AbstractNetwork
    initial_hidden: Hidden
    n_inputs: int = eqx.field(static=True, converter=plain_number)
    n_outputs: int = eqx.field(static=True, converter=plain_number)

    def __init__(self, network: AbstractNetwork, initial_hidden: Hidden | None = None):
        check_network(network)
        start = network.init(key=seed_key(0))
        if initial_hidden is None:
            initial_hidden = start
        elif _shapes(initial_hidden) != _shapes(start):
            raise ValueError(
                "`initial_hidden` must be of the structure of the hidden state of the network, "
                f"{_shapes(start)}, got {_shapes(initial_hidden)}."
            )
        for leaf, like in zip(jax.tree.leaves(initial_hidden), jax.tree.leaves(start), strict=True):
            checks.check_finite("initial_hidden", leaf)
            checks.check_castable("`initial_hidden`", jnp.result_type(leaf), like.dtype)
        self.network = network
        self.initial_hidden = jax.tree.map(
            lambda value, like: jnp.asarray(value, like.dtype), initial_hidden, start
        )
        self.n_inputs = network.n_inputs
        self.n_outputs = network.n_outputs

    def init(self, *, key: Key[Array, ""]) -> Hidden:
        return self.initial_hidden

    def with_dt(self, dt: float) -> "TrainableStart":
        """Return the network for another time step (s), with the same start.

        A network with delays is refused: what is on its way at the start has a number for each time step.
        """
        moved = super().with_dt(dt)
        shapes, moved_shapes = (_start_shapes(outer.network) for outer in (self, moved))
        if shapes != moved_shapes:
            raise ValueError(
                f"`network` must have no delays for its learned start to be moved to dt = {dt} s, got a "
                f"{type(self.network).__name__} whose hidden state would change its shapes from {shapes} to "
                f"{moved_shapes}."
            )
        return moved


def _shapes(hidden: PyTree[Any]) -> PyTree[Any]:
    return jax.tree.map(jnp.shape, hidden)


def _start_shapes(network: AbstractNetwork) -> PyTree[Any]:
    return _shapes(eqx.filter_eval_shape(lambda network: network.init(key=seed_key(0)), network))


class EncodedNetwork(AbstractNetworkWrapper):
    """A network with an encoder before it, a readout after it, or both.

    ```python
    encoder = equinox.nn.MLP(3, 16, 64, 1, key=key)
    network = EncodedNetwork(LeakyRNN(16, 64, 8, key=key), encoder, n_inputs=3)
    ```

    Both are trained with the network where they hold arrays. The rest is that of the inner network,
    `network.network`.

    **Arguments:**

    - `network`: any network.
    - `encoder`: a function or a module, from the input vector to the inputs of the network; None for none.
    - `readout`: from the output of the network to that of the whole; None for none.
    - `n_inputs`: the number of inputs; needed with an encoder.
    """

    network: AbstractNetwork
    encoder: Callable[[Array], Array] | None
    readout: Callable[[Array], Array] | None
    n_inputs: int = eqx.field(static=True, converter=plain_number)
    n_outputs: int = eqx.field(static=True, converter=plain_number)

    def __init__(
        self,
        network: AbstractNetwork,
        encoder: Callable[[Array], Array] | None = None,
        readout: Callable[[Array], Array] | None = None,
        *,
        n_inputs: checks.WholeNumber | None = None,
    ):
        check_network(network)
        if (encoder is None) != (n_inputs is None):
            raise ValueError("`n_inputs` must be given with `encoder`, and not without it.")
        if n_inputs is not None:
            checks.check_positive_int("n_inputs", n_inputs)
        self.network, self.encoder, self.readout = network, encoder, readout
        self.n_inputs = network.n_inputs if n_inputs is None else int(n_inputs)
        self.n_outputs = network.n_outputs
        if encoder is not None and (n := _n_returned("encoder", encoder, self.n_inputs)) != network.n_inputs:
            raise ValueError(
                f"`encoder` must return the {network.n_inputs} inputs of the network, got {n} numbers."
            )
        if readout is not None:
            self.n_outputs = _n_returned("readout", readout, network.n_outputs)

    def step(self, inputs: Inputs, hidden: Hidden, *, key: Key[Array, ""]) -> Hidden:
        return self.network.step(self._encode(inputs), hidden, key=key)

    def _encode(self, inputs: Inputs) -> Float[Array, " encoded"]:
        return inputs if self.encoder is None else self.encoder(inputs)

    def inner_step(self, step: NetworkStep) -> NetworkStep:
        """Return the step of the inner network, whose inputs are what the encoder returns."""
        return dataclasses.replace(step, received=self._encode(step.received))

    def read_out(self, hidden: Hidden) -> Output:
        output = self.network.read_out(hidden)
        return output if self.readout is None else self.readout(output)


def _n_returned(name: str, function: Callable[[Array], Array], size: int) -> int:
    """Return the size of the vector that a function returns for one of this size."""
    with checks.explain_errors(f"`{name}`", f"a vector of {size} numbers"):
        returned: Any = eqx.filter_eval_shape(function, jax.ShapeDtypeStruct((size,), float))
    if len(shape := getattr(returned, "shape", ())) != 1:
        raise ValueError(f"`{name}` must return a vector, got {checks.kind_of(returned)}.")
    return shape[0]


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
        layers = checks.as_parts("layers", layers, AbstractNetwork, "networks such as GRUNetwork")
        for i, (lower, upper) in enumerate(itertools.pairwise(layers)):
            if lower.n_outputs != upper.n_inputs:
                raise ValueError(
                    f"`layers[{i + 1}]` must have as many inputs as layers[{i}] has outputs, "
                    f"{lower.n_outputs}, got {upper.n_inputs}."
                )
        self.layers = layers
        self.n_inputs = layers[0].n_inputs
        self.n_outputs = layers[-1].n_outputs
        self.n_units = tuple(eqx.filter_eval_shape(_start_activity, layer).size for layer in layers)

    def init(self, *, key: Key[Array, ""]) -> tuple[PyTree[Array], ...]:
        return tuple(layer.init(key=self._key(i, key)) for i, layer in enumerate(self.layers))

    def init_for(self, trial: Trial, *, key: Key[Array, ""]) -> tuple[PyTree[Array], ...]:
        return tuple(layer.init_for(trial, key=self._key(i, key)) for i, layer in enumerate(self.layers))

    def step(self, inputs: Inputs, hidden: Hidden, *, key: Key[Array, ""]) -> Hidden:
        states = []
        for i, (layer, state) in enumerate(zip(self.layers, hidden, strict=True)):
            states.append(layer.step(inputs, state, key=self._key(i, key)))
            inputs = layer.read_out(states[-1])
        return tuple(states)

    def _key(self, layer: int, key: Key[Array, ""]) -> Key[Array, ""]:
        return key_stream(key, f"layer {layer}")

    def read_out(self, hidden: Hidden) -> Output:
        return self.layers[-1].read_out(hidden[-1])

    def activity(self, hidden: Hidden) -> Units:
        pairs = zip(self.layers, hidden, strict=True)
        return jnp.concatenate([layer.activity(state) for layer, state in pairs])

    def with_activity(self, hidden: Hidden, rates: Units) -> Hidden:
        parts = jnp.split(rates, np.cumsum(self.n_units)[:-1])
        triples = zip(self.layers, hidden, parts, strict=True)
        return tuple(layer.with_activity(state, part) for layer, state, part in triples)

    def unit_groups(self) -> dict[str, Int[np.ndarray, " unit"]]:
        """Return the units of each layer, and the groups that a layer has itself, such as "layer 0 PMd"."""
        groups = {}
        for i, (layer, n_units) in enumerate(zip(self.layers, self.n_units, strict=True)):
            offset = sum(self.n_units[:i])
            groups[f"layer {i}"] = offset + np.arange(n_units)
            groups |= {f"layer {i} {name}": offset + units for name, units in layer.unit_groups().items()}
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


def _start_activity(network: AbstractNetwork) -> Units:
    return network.activity(network.init(key=seed_key(0)))


def check_gives_logits(network: AbstractNetwork, reader: str) -> None:
    """Raise `ValueError` if a network puts out probabilities, where `reader` takes logits."""
    function = output_function(network)
    # Results of a function with weights, such as an MLP, do not tell its form.
    if function is None or jax.tree.leaves(eqx.filter(function, eqx.is_array)):
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
            f"makes probabilities of them, got {getattr(function, '__name__', checks.short_repr(function))}, "
            "which returns numbers from 0 to 1."
        )


def output_function(network: AbstractNetwork) -> Callable[[Array], Array] | None:
    """Return the last function through which the outputs of a network pass, if any."""
    if isinstance(network, StackedNetwork):
        return output_function(network.layers[-1])
    if isinstance(network, EncodedNetwork) and network.readout is not None:
        return network.readout
    if isinstance(network, AbstractNetworkWrapper):
        return output_function(network.network)
    # A field of this name in a network of the user's may be applied to something else.
    return network.output_fn if isinstance(network, AbstractReadoutNetwork) else None
