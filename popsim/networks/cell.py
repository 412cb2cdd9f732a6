"""Networks of any cell with the methods of those of Equinox, and a readout."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from popsim._shared.argument_shapes import OneOrEach
from popsim._shared.checks import WholeNumber, check_positive_int, kind_of
from popsim._shared.plain_values import plain_number
from popsim.networks.base import AbstractNetwork, Projection, linear_readout, noise_of_units, prepare_readout
from popsim.noise import AbstractNoise
from popsim.randomness import key_stream

__all__ = ["AbstractCellNetwork", "CellNetwork"]


class AbstractCellNetwork(AbstractNetwork):
    """Base class of networks whose step is a cell, with noise on the units, and a readout of the units.

    The hidden state is one array, the units, or a tuple of arrays of which the first are the units, such as
    the pair (h, c) of an LSTM.
    """

    cell: eqx.AbstractVar[Any]
    readout: eqx.AbstractVar[eqx.nn.Linear]
    noise: eqx.AbstractVar[AbstractNoise]
    output_fn: eqx.AbstractVar[Callable[[Array], Array] | None]

    def step(
        self, inputs: Float[Array, " inputs"], hidden: PyTree[Array], *, key: Key[Array, ""]
    ) -> PyTree[Array]:
        after = self.cell(inputs, hidden)
        return self.with_activity(after, self.noise(self.activity(after), key=key))

    def read_out(self, hidden: PyTree[Array]) -> Float[Array, " output"]:
        output = self.readout(self.activity(hidden))
        return output if self.output_fn is None else self.output_fn(output)

    def activity(self, hidden: PyTree[Array]) -> Float[Array, " unit"]:
        """Return the units: the hidden state, or the first of its arrays."""
        return hidden[0] if isinstance(hidden, tuple) else hidden

    def with_activity(self, hidden: PyTree[Array], rates: Float[Array, " unit"]) -> PyTree[Array]:
        return (rates, *hidden[1:]) if isinstance(hidden, tuple) else rates


def readout_projection() -> Projection:
    """Return the projection from the units of an `AbstractCellNetwork` to its output."""
    return Projection(
        where=lambda network: network.readout.weight,
        pre=lambda network, step: network.activity(step.after),
        post=lambda network, step: network.read_out(step.after),
        where_bias=lambda network: network.readout.bias,
    )


class CellNetwork(AbstractCellNetwork):
    """A layer of any cell with the methods of those of Equinox, and a readout.

    ```python
    cell = equinox.nn.LSTMCell(n_inputs, 64, key=key)
    network = popsim.networks.CellNetwork(cell, n_outputs, key=key)
    ```

    A trial starts with zeros. Learning rules need a network with projections, such as `GRUNetwork`.

    **Arguments:**

    - `cell`: a module with `input_size` and `hidden_size`. `cell(inputs, hidden)` returns the hidden state
        after a step: an array of shape (hidden_size,), or a pair (h, c) of such arrays, of which h is read
        out.
    - `n_outputs`: the number of outputs.
    - `noise_std`, `output_fn`, `output_bias`: as of a `GRUNetwork`.
    - `key`: for the initial weights of the readout.
    """

    cell: Any
    readout: eqx.nn.Linear
    noise: AbstractNoise
    output_fn: Callable[[Array], Array] | None = eqx.field(static=True)
    has_pair: bool = eqx.field(static=True)
    n_inputs: int = eqx.field(static=True, converter=plain_number)
    n_outputs: int = eqx.field(static=True, converter=plain_number)

    def __init__(
        self,
        cell: Any,
        n_outputs: WholeNumber,
        *,
        noise_std: OneOrEach = 0.0,
        output_fn: Callable[[Array], Array] | None = None,
        output_bias: OneOrEach = 0.0,
        key: Key[Array, ""],
    ):
        check_positive_int("n_outputs", n_outputs)
        n_outputs = int(n_outputs)
        self.cell, self.has_pair = cell, _has_pair(cell)
        self.noise = noise_of_units(noise_std, cell.hidden_size)
        self.output_fn, output_bias = prepare_readout(output_fn, output_bias, n_outputs)
        self.readout = linear_readout(
            cell.hidden_size, n_outputs, output_bias, key=key_stream(key, "readout")
        )
        self.n_inputs = cell.input_size
        self.n_outputs = n_outputs

    def init(self, *, key: Key[Array, ""]) -> PyTree[Array]:
        zeros = jnp.zeros(self.cell.hidden_size, self.readout.weight.dtype)
        return (zeros, zeros) if self.has_pair else zeros


def _has_pair(cell: Any) -> bool:
    """Return whether the hidden state of a cell is a pair of arrays, not one array."""
    sizes = (getattr(cell, "input_size", None), getattr(cell, "hidden_size", None))
    if not (callable(cell) and all(isinstance(size, int) for size in sizes)):
        raise ValueError(
            "`cell` must be a module with `input_size` and `hidden_size` that is called as "
            f"cell(inputs, hidden), such as equinox.nn.LSTMCell, got {kind_of(cell)}."
        )
    inputs, units = (jax.ShapeDtypeStruct((size,), float) for size in sizes)
    reasons = []
    for hidden in (units, (units, units)):
        try:
            after = eqx.filter_eval_shape(cell, inputs, hidden)
        except Exception as error:  # of the user's code, which takes the other hidden state
            reasons.append(f"{type(error).__name__}: {error}")
            continue
        if jax.tree.map(jnp.shape, after) == jax.tree.map(jnp.shape, hidden):
            return isinstance(hidden, tuple)
        reasons.append(f"it returned {kind_of(after)}")
    raise ValueError(
        f"`cell` must take and return an array of shape ({sizes[1]},), its `hidden_size`, or a pair of them. "
        f"With an array: {reasons[0]}. With a pair: {reasons[1]}."
    )
