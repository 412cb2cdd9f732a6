"""Gated networks of the cells of Equinox: GRU and LSTM."""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from popsim._compiled import jit_fast_compile
from popsim._shared.argument_shapes import OneOrEach
from popsim._shared.checks import WholeNumber
from popsim._shared.plain_values import plain_number
from popsim.networks.base import (
    READOUT_AXES,
    Projection,
    as_sizes,
    linear_readout,
    noise_of_units,
    prepare_readout,
)
from popsim.networks.cell import AbstractCellNetwork, readout_projection
from popsim.noise import AbstractNoise
from popsim.randomness import key_stream

__all__ = ["GRUNetwork", "LSTMNetwork"]


@jit_fast_compile
def initial_layers(
    kind: Any, n_inputs: int, n_units: int, n_outputs: int, output_bias: OneOrEach, key: Key[Array, ""]
) -> tuple[Any, eqx.nn.Linear]:
    """Draw a cell of a class of Equinox, and the readout of its units."""
    cell = kind(n_inputs, n_units, key=key_stream(key, "cell"))
    return cell, linear_readout(n_units, n_outputs, output_bias, key=key_stream(key, "readout"))


class _GatedNetwork(AbstractCellNetwork):
    """A network of a cell of Equinox, whose weights stack those of the gates; the candidate comes third."""

    kind: ClassVar[Any]
    cell: Any
    readout: eqx.nn.Linear
    noise: AbstractNoise
    output_fn: Callable[[Array], Array] | None = eqx.field(static=True)
    n_inputs: int = eqx.field(static=True, converter=plain_number)
    n_outputs: int = eqx.field(static=True, converter=plain_number)

    def _set_parts(
        self,
        sizes: tuple[WholeNumber, WholeNumber, WholeNumber],
        noise_std: OneOrEach,
        output_fn: Callable[[Array], Array] | None,
        output_bias: OneOrEach,
        key: Key[Array, ""],
    ) -> None:
        """Set the fields from the arguments of a subclass; sizes are inputs, units and outputs."""
        self.n_inputs, n_units, self.n_outputs = sizes = as_sizes(*sizes)
        self.noise = noise_of_units(noise_std, n_units)
        self.output_fn, output_bias = prepare_readout(output_fn, output_bias, self.n_outputs)
        self.cell, self.readout = initial_layers(self.kind, *sizes, output_bias, key)

    @abc.abstractmethod
    def candidate(self, inputs: Float[Array, " inputs"], hidden: PyTree[Array]) -> Float[Array, " unit"]:
        """Return what the gates let in."""

    def projections(self) -> dict[str, Projection]:
        """Return the recurrent and the input weights of the candidate, and the readout."""
        n_units = self.cell.hidden_size
        of_candidate: dict[str, Any] = {
            "post": lambda network, step: network.candidate(step.received, step.before),
            "rows": slice(2 * n_units, 3 * n_units),
            "where_bias": lambda network: network.cell.bias,
            "bias_rows": slice(2 * n_units, 3 * n_units),
        }
        return {
            "recurrent": Projection(lambda network: network.cell.weight_hh, **of_candidate),
            "input": Projection(
                lambda network: network.cell.weight_ih,
                pre=lambda network, step: step.received,
                **of_candidate,
            ),
            "readout": readout_projection(),
        }


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

    parameter_axes: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "cell.weight_ih": ("gate_unit", "input"),  # reset, update and candidate units
        "cell.weight_hh": ("gate_unit", "presynaptic_unit"),
        "cell.bias": ("gate_unit",),
        "cell.bias_n": ("unit",),
        **READOUT_AXES,
    }
    kind: ClassVar[Any] = eqx.nn.GRUCell
    cell: eqx.nn.GRUCell

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
        self._set_parts((n_inputs, n_units, n_outputs), noise_std, output_fn, output_bias, key)

    def init(self, *, key: Key[Array, ""]) -> Float[Array, " hidden"]:
        return jnp.zeros(self.cell.hidden_size, self.cell.weight_hh.dtype)

    def candidate(
        self, inputs: Float[Array, " inputs"], hidden: Float[Array, " hidden"]
    ) -> Float[Array, " hidden"]:
        """Return the candidate activation, which the update gate mixes with the units before the step.

        n = tanh(W_in u + b + r * (W_hn h + b_n)), with the reset gate r = sigmoid(W_ir u + W_hr h + b_r).

        **Arguments:**

        - `inputs`: u, the inputs at the step.
        - `hidden`: h, the units before the step.
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


class LSTMNetwork(_GatedNetwork):
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
    kind: ClassVar[Any] = eqx.nn.LSTMCell
    cell: eqx.nn.LSTMCell

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
        self._set_parts((n_inputs, n_units, n_outputs), noise_std, output_fn, output_bias, key)

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
        rows = slice(2 * cell.hidden_size, 3 * cell.hidden_size)
        return jnp.tanh(cell.weight_ih[rows] @ inputs + cell.weight_hh[rows] @ hidden[0] + cell.bias[rows])
