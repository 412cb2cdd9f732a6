"""A network whose hidden state is a pair of arrays."""

import equinox as eqx
import jax.numpy as jnp

from popsim.networks import AbstractNetwork, Projection


class LSTM(AbstractNetwork):
    """`equinox.nn.LSTMCell`: its hidden state is the pair (h, c); rules act on the candidate g."""

    cell: eqx.nn.LSTMCell
    readout: eqx.nn.Linear
    n_inputs: int = eqx.field(static=True)
    n_outputs: int = eqx.field(static=True)

    def init(self, *, key):
        return jnp.zeros(self.cell.hidden_size), jnp.zeros(self.cell.hidden_size)

    def step(self, inputs, hidden, *, key):
        return self.cell(inputs, hidden)

    def read_out(self, hidden):
        return self.readout(hidden[0])

    def activity(self, hidden):
        return hidden[0]

    def with_activity(self, hidden, rates):
        return rates, hidden[1]

    def candidate(self, step):
        drive = self.cell.weight_ih @ step.received + self.cell.weight_hh @ step.before[0] + self.cell.bias
        return jnp.tanh(drive[self.gate])

    @property
    def gate(self):
        return slice(2 * self.cell.hidden_size, 3 * self.cell.hidden_size)

    def projections(self):
        onto = {
            "post": lambda network, step: network.candidate(step),
            "rows": self.gate,
            "where_bias": lambda network: network.cell.bias,
            "bias_rows": self.gate,
        }
        return {
            "recurrent": Projection(lambda network: network.cell.weight_hh, **onto),
            "input": Projection(
                lambda network: network.cell.weight_ih, pre=lambda network, step: step.received, **onto
            ),
            "readout": Projection(
                lambda network: network.readout.weight,
                pre=lambda network, step: network.activity(step.after),
                post=lambda network, step: network.read_out(step.after),
            ),
        }


def lstm(n_inputs, n_units, n_outputs, *, key):
    cell, readout = eqx.nn.LSTMCell(n_inputs, n_units, key=key), eqx.nn.Linear(n_units, n_outputs, key=key)
    return LSTM(cell, readout, n_inputs, n_outputs)
