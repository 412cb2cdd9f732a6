"""Networks of a cell and a readout: GRU, LSTM, and any cell with the methods of those of Equinox."""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from popsim._compiled import jit_fast_compile
from popsim._shared.argument_shapes import OneOrEach
from popsim._shared.checks import WholeNumber, check_like, explain_errors
from popsim.networks import building
from popsim.networks.base import Hidden, Inputs, Projection, Units
from popsim.networks.registry import register_network
from popsim.noise import AbstractNoise
from popsim.randomness import key_stream

__all__ = ["AbstractCellNetwork", "CellNetwork", "GRUNetwork", "LSTMNetwork"]


class AbstractCellNetwork(building.AbstractNoisyNetwork):
    """Base class of networks whose step is a cell, with noise on the units, and a readout of the units.

    The hidden state is one array, the units, or a tuple of arrays of which the first are the units, such as
    the pair (h, c) of an LSTM, which `has_pair` says. A trial starts with zeros.
    """

    cell: Any
    readout: eqx.nn.Linear
    noise: AbstractNoise
    has_pair: bool = eqx.field(static=True, default=False, kw_only=True)

    def init(self, *, key: Key[Array, ""]) -> Hidden:
        zeros = jnp.zeros(self.cell.hidden_size, self.readout.weight.dtype)
        return (zeros, zeros) if self.has_pair else zeros

    def step(self, inputs: Inputs, hidden: Hidden, *, key: Key[Array, ""]) -> Hidden:
        hidden = self.cell(inputs, hidden)
        return self.with_activity(hidden, self.noise(self.activity(hidden), key=key))

    def activity(self, hidden: Hidden) -> Units:
        """Return the units: the hidden state, or the first of its arrays."""
        return hidden[0] if isinstance(hidden, tuple) else hidden

    def with_activity(self, hidden: Hidden, rates: Units) -> Hidden:
        return (rates, *hidden[1:]) if isinstance(hidden, tuple) else rates


class CellNetwork(AbstractCellNetwork):
    """A layer of any cell with the methods of those of Equinox, and a readout.

    ```python
    cell = equinox.nn.LSTMCell(n_inputs, 64, key=key)
    network = popsim.networks.CellNetwork(cell, n_outputs, key=key)
    ```

    A trial starts with zeros. Learning rules of recurrent and input weights need a network that has these
    among its projections, such as `GRUNetwork`.

    **Arguments:**

    - `cell`: a module with `input_size` and `hidden_size`. `cell(inputs, hidden)` returns the hidden state
        after a step: an array of shape (hidden_size,), or a pair (h, c) of such arrays, of which h is read
        out.
    - `n_outputs`: the number of outputs.
    - `noise_std`, `output_fn`, `output_bias`: as of a `GRUNetwork`.
    - `key`: for the initial weights of the readout.
    """

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
        self.cell, self.has_pair = cell, _has_pair(cell)
        sizes = building.as_sizes(cell.input_size, cell.hidden_size, n_outputs)
        self._set_units(sizes, noise_std, output_fn, output_bias, key)


def _has_pair(cell: Any) -> bool:
    """Return whether the hidden state of a cell is a pair of arrays, not one array."""
    inputs, units = (jax.ShapeDtypeStruct((size,), float) for size in (cell.input_size, cell.hidden_size))
    try:
        if eqx.filter_eval_shape(cell, inputs, units).shape == units.shape:
            return False
    except Exception:  # of the user's code, which takes another hidden state
        pass
    with explain_errors("`cell`", "inputs and a pair (h, c) of arrays"):
        hidden = eqx.filter_eval_shape(cell, inputs, (units, units))
    check_like("`cell`", "its hidden state, an array or a pair (h, c) of them", (units, units), hidden)
    return True


@jit_fast_compile
def _draw_cell(kind: Any, n_inputs: int, n_units: int, key: Key[Array, ""]) -> Any:
    return kind(n_inputs, n_units, key=key_stream(key, "cell"))


class _GatedNetwork(AbstractCellNetwork):
    """A network of a cell of Equinox, whose weights stack those of the gates; the candidate comes third."""

    parameter_axes: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "cell.weight_ih": ("gate_unit", "input"),
        "cell.weight_hh": ("gate_unit", "presynaptic_unit"),
        "cell.bias": ("gate_unit",),
        **building.READOUT_AXES,
    }

    @abc.abstractmethod
    def candidate(self, inputs: Inputs, hidden: Hidden) -> Units:
        """Return what the gates let in at inputs u and the hidden state before the step."""

    def projections(self) -> dict[str, Projection]:
        """Return the recurrent and the input weights of the candidate, and the readout."""
        rows = slice(2 * self.cell.hidden_size, 3 * self.cell.hidden_size)
        received = Projection(
            lambda network: network.cell.weight_ih,
            pre=lambda network, step: step.received,
            post=lambda network, step: network.candidate(step.received, step.before),
            rows=rows,
            where_bias=lambda network: network.cell.bias,
            bias_rows=rows,
        )
        recurrent = dataclasses.replace(
            received,
            where=lambda network: network.cell.weight_hh,
            pre=lambda network, step: network.rates(step.before),
        )
        return {"recurrent": recurrent, "input": received, **super().projections()}


@register_network("gru")
class GRUNetwork(_GatedNetwork):
    """A layer of gated recurrent units with a readout.

    The units are `equinox.nn.GRUCell`: Cho et al. 2014, arXiv 1406.1078, with the reset gate applied after
    the recurrent product. A trial starts with all units at zero.

    **Arguments:**

    - `n_inputs`, `n_units`, `n_outputs`: the sizes.
    - `noise_std`: the standard deviation of noise on the units after each step, one for all units or one per
        unit; 0 draws no random numbers.
    - `output_fn`: applied to the linear readout, such as `jax.nn.sigmoid` for muscle excitations, or None.
    - `output_bias`: added to the initial bias of the readout, one number or one per output: with a sigmoid,
        -3 gives an untrained network that hardly excites any muscle.
    - `key`: for the initial weights, drawn uniformly within 1 / sqrt(n_units).
    """

    # The gate units are those of reset, update and candidate.
    parameter_axes: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **_GatedNetwork.parameter_axes,
        "cell.bias_n": ("unit",),
    }

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
        sizes = building.as_sizes(n_inputs, n_units, n_outputs)
        self._set_units(sizes, noise_std, output_fn, output_bias, key)
        self.cell, self.has_pair = _draw_cell(eqx.nn.GRUCell, *sizes[:2], key), False

    def candidate(self, inputs: Inputs, hidden: Float[Array, " hidden"]) -> Float[Array, " hidden"]:
        """Return the candidate activation, which the update gate mixes with the units before the step.

        n = tanh(W_in u + b + r * (W_hn h + b_n)), with the reset gate r = sigmoid(W_ir u + W_hr h + b_r).
        """
        # Repeats what Equinox's cell computes, which returns only the mixture.
        cell: Any = self.cell
        reset_input, _, candidate_input = jnp.split(cell.weight_ih @ inputs + cell.bias, 3)
        reset_hidden, _, candidate_hidden = jnp.split(cell.weight_hh @ hidden, 3)
        reset = jax.nn.sigmoid(reset_input + reset_hidden)
        return jnp.tanh(candidate_input + reset * (candidate_hidden + cell.bias_n))

    def projections(self) -> dict[str, Projection]:
        """Return the recurrent and the input weights of the candidate activation, and the readout.

        The bias of the recurrent weights is inside the reset gate, like the recurrent product.
        """
        projections = super().projections()
        within_reset = {"where_bias": lambda network: network.cell.bias_n, "bias_rows": slice(None)}
        return projections | {"recurrent": dataclasses.replace(projections["recurrent"], **within_reset)}


@register_network("lstm")
class LSTMNetwork(_GatedNetwork):
    """A layer of long short-term memory units with a readout.

    The units are `equinox.nn.LSTMCell`: Hochreiter & Schmidhuber 1997, Neural Comput 9:1735-1780, with the
    forget gate of Gers, Schmidhuber & Cummins 2000, Neural Comput 12:2451-2471. Tests compare a step with the
    equations written out. The hidden state is the pair (h, c) of the units' activity and their memory. A
    trial starts with zeros.

    **Arguments:** as of a `GRUNetwork`; the noise is on h.
    """

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
        sizes = building.as_sizes(n_inputs, n_units, n_outputs)
        self._set_units(sizes, noise_std, output_fn, output_bias, key)
        self.cell, self.has_pair = _draw_cell(eqx.nn.LSTMCell, *sizes[:2], key), True

    def candidate(self, inputs: Inputs, hidden: Hidden) -> Units:
        """Return the candidate g = tanh(W_ig u + W_hg h + b_g), which the input gate adds to the memory."""
        # Repeats what Equinox's cell computes, which returns only the state after the step.
        cell: Any = self.cell
        rows = slice(2 * cell.hidden_size, 3 * cell.hidden_size)
        return jnp.tanh(cell.weight_ih[rows] @ inputs + cell.weight_hh[rows] @ hidden[0] + cell.bias[rows])
