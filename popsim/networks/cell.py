"""Networks of a cell of Equinox, or of one with the same methods, and a readout."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from popsim._argument_shapes import OneOrEach, check_one_or_each
from popsim._checks import WholeNumber, check_non_negative, check_positive_int, is_traced, kind_of
from popsim._compiled import jit_fast_compile
from popsim._plain_values import plain_number
from popsim.networks.base import (
    READOUT_AXES,
    AbstractNetwork,
    Projection,
    as_sizes,
    linear_readout,
    prepare_readout,
)
from popsim.noise import AbstractNoise, GaussianNoise, NoNoise
from popsim.randomness import key_stream

__all__ = ["AbstractCellNetwork", "CellNetwork", "LSTMNetwork"]


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


def noise_of_units(noise_std: OneOrEach, n_units: int) -> AbstractNoise:
    """Check the standard deviation of noise on units, and return the noise; none for 0."""
    return _gaussian_noise("noise_std", noise_std, n_units, "units")


def noise_of_inputs(input_noise_std: OneOrEach, n_inputs: int) -> AbstractNoise:
    """Check the standard deviation of noise on inputs, and return the noise; none for 0."""
    return _gaussian_noise("input_noise_std", input_noise_std, n_inputs, "inputs")


def _gaussian_noise(name: str, std: OneOrEach, size: int, plural: str) -> AbstractNoise:
    check_one_or_each(name, std, size, plural)
    check_non_negative(name, std)
    return GaussianNoise(std) if is_traced(std) or np.any(std) else NoNoise()


@jit_fast_compile
def initial_layers(
    kind: Any, n_inputs: int, n_units: int, n_outputs: int, output_bias: OneOrEach, key: Key[Array, ""]
) -> tuple[Any, eqx.nn.Linear]:
    """Draw a cell of a class of Equinox, and the readout of its units."""
    cell = kind(n_inputs, n_units, key=key_stream(key, "cell"))
    return cell, linear_readout(n_units, n_outputs, output_bias, key=key_stream(key, "readout"))


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


class LSTMNetwork(AbstractCellNetwork):
    """A layer of long short-term memory units with a readout.

    The units are `equinox.nn.LSTMCell`: Hochreiter & Schmidhuber 1997, Neural Comput 9:1735-1780, with the
    forget gate of Gers, Schmidhuber & Cummins 2000, Neural Comput 12:2451-2471. Tests compare a step with the
    equations written out. The hidden state is the pair (h, c) of the units' activity and their memory. A
    trial starts with zeros.

    **Arguments:** as of a `GRUNetwork`; the noise is on h.
    """

    parameter_axes: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "cell.weight_ih": ("gate_unit", "input"),  # input, forget, candidate and output units
        "cell.weight_hh": ("gate_unit", "presynaptic_unit"),
        "cell.bias": ("gate_unit",),
        **READOUT_AXES,
    }
    cell: eqx.nn.LSTMCell
    readout: eqx.nn.Linear
    noise: AbstractNoise
    output_fn: Callable[[Array], Array] | None = eqx.field(static=True)
    n_inputs: int = eqx.field(static=True, converter=plain_number)
    n_outputs: int = eqx.field(static=True, converter=plain_number)

    def __init__(
        self,
        n_inputs: WholeNumber,
        n_units: WholeNumber,
        n_outputs: WholeNumber,
        *,
        noise_std: OneOrEach = 0.0,
        output_fn: Callable[[Array], Array] | None = None,
        output_bias: OneOrEach = 0.0,
        key: Key[Array, ""],
    ):
        n_inputs, n_units, n_outputs = as_sizes(n_inputs, n_units, n_outputs)
        self.noise = noise_of_units(noise_std, n_units)
        self.output_fn, output_bias = prepare_readout(output_fn, output_bias, n_outputs)
        sizes = (n_inputs, n_units, n_outputs)
        self.cell, self.readout = initial_layers(eqx.nn.LSTMCell, *sizes, output_bias, key)
        self.n_inputs = n_inputs
        self.n_outputs = n_outputs

    def init(self, *, key: Key[Array, ""]) -> tuple[Float[Array, " unit"], Float[Array, " unit"]]:
        zeros = jnp.zeros(self.cell.hidden_size, self.cell.weight_hh.dtype)
        return zeros, zeros

    def candidate(self, inputs: Float[Array, " inputs"], hidden: PyTree[Array]) -> Float[Array, " unit"]:
        """Return the candidate g = tanh(W_ig u + W_hg h + b_g), which the input gate adds to the memory.

        **Arguments:**

        - `inputs`: u, the inputs at the step.
        - `hidden`: the pair (h, c) before the step.
        """
        # Repeats what Equinox's cell computes, which returns only the state after the step.
        cell: Any = self.cell
        rows = self._candidate_rows()
        return jnp.tanh(cell.weight_ih[rows] @ inputs + cell.weight_hh[rows] @ hidden[0] + cell.bias[rows])

    def _candidate_rows(self) -> slice:
        # Equinox stacks the weights of input gate, forget gate, candidate and output gate in this order.
        return slice(2 * self.cell.hidden_size, 3 * self.cell.hidden_size)

    def projections(self) -> dict[str, Projection]:
        """Return the recurrent and the input weights of the candidate, and the readout."""
        rows = self._candidate_rows()
        recurrent = Projection(
            where=lambda network: network.cell.weight_hh,
            post=lambda network, step: network.candidate(step.received, step.before),
            rows=rows,
            where_bias=lambda network: network.cell.bias,
            bias_rows=rows,
        )
        received = Projection(
            where=lambda network: network.cell.weight_ih,
            pre=lambda network, step: step.received,
            post=lambda network, step: network.candidate(step.received, step.before),
            rows=rows,
            where_bias=lambda network: network.cell.bias,
            bias_rows=rows,
        )
        return {"recurrent": recurrent, "input": received, "readout": readout_projection()}
