"""Networks of a cell, plain ones, those of low rank, and a start that is learned."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import DT

import popsim
from popsim.networks import (
    CellNetwork,
    GRUNetwork,
    LeakyRNN,
    LowRankRNN,
    LSTMNetwork,
    TrainableStart,
    VanillaRNN,
)

KEY = jax.random.key(3)
SIZES = (3, 5, 2)


def with_weights_of(network, target):
    """Return `target` with the weights of a network."""
    names = ("recurrent_weights", "input_weights", "bias", "readout")
    weights = [getattr(network, name) for name in names]
    return eqx.tree_at(lambda target: [getattr(target, name) for name in names], target, weights)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def drawn(*shapes):
    return [
        jax.random.normal(key, shape)
        for key, shape in zip(jax.random.split(KEY, len(shapes)), shapes, strict=True)
    ]


def test_a_step_of_an_lstm_is_the_equation(float64):
    network = LSTMNetwork(*SIZES, key=KEY)
    x, h, c = drawn((3,), (5,), (5,))
    after = network.step(x, (h, c), key=KEY)
    cell = network.cell
    drive = np.asarray(cell.weight_ih) @ x + np.asarray(cell.weight_hh) @ h + np.asarray(cell.bias)
    into, keep, candidate, out = drive.reshape(4, 5)
    memory = sigmoid(keep) * c + sigmoid(into) * np.tanh(candidate)
    np.testing.assert_allclose(after[1], memory, rtol=1e-13)
    np.testing.assert_allclose(after[0], sigmoid(out) * np.tanh(memory), rtol=1e-13)
    np.testing.assert_allclose(network.candidate(x, (h, c)), np.tanh(candidate), rtol=1e-13)
    readout = np.asarray(network.readout.weight) @ after[0] + np.asarray(network.readout.bias)
    np.testing.assert_allclose(network.read_out(after), readout, rtol=1e-13)


def test_a_step_of_a_gru_is_the_equation(float64, getkey):
    network = GRUNetwork(3, 5, 2, key=getkey())
    x, h = jax.random.normal(getkey(), (3,)), jax.random.normal(getkey(), (5,))
    hidden = network.step(x, h, key=getkey())

    cell, h = network.cell, np.asarray(h)
    of_input = np.asarray(cell.weight_ih) @ np.asarray(x) + np.asarray(cell.bias)
    of_hidden = np.asarray(cell.weight_hh) @ h
    (x_reset, x_update, x_new), (h_reset, h_update, h_new) = of_input.reshape(3, 5), of_hidden.reshape(3, 5)
    reset, update = sigmoid(x_reset + h_reset), sigmoid(x_update + h_update)
    candidate = np.tanh(x_new + reset * (h_new + np.asarray(cell.bias_n)))
    expected = candidate + update * (h - candidate)
    np.testing.assert_allclose(hidden, expected, rtol=1e-13)
    readout = np.asarray(network.readout.weight) @ expected + np.asarray(network.readout.bias)
    np.testing.assert_allclose(network.read_out(hidden), readout, rtol=1e-13)


def test_a_step_of_a_vanilla_network_is_the_equation_and_that_of_a_leaky_one_whose_dt_is_tau(float64):
    network = VanillaRNN(*SIZES, gain=1.3, key=KEY)
    x, h = drawn((3,), (5,))
    weights, received = np.asarray(network.recurrent_weights), np.asarray(network.input_weights)
    drive = weights @ h + received @ x
    np.testing.assert_allclose(network.step(x, h, key=KEY), np.tanh(drive), rtol=1e-13)
    leaky = with_weights_of(network, LeakyRNN(*SIZES, tau=DT, dt=DT, key=KEY))
    argument = leaky.step(x, h, key=KEY)
    np.testing.assert_allclose(
        leaky.read_out(argument), network.read_out(network.step(x, jnp.tanh(h), key=KEY)), rtol=1e-12
    )


@pytest.mark.parametrize("random_gain", [0.0, 0.8])
def test_a_network_of_low_rank_is_a_leaky_one_with_its_weights(float64, random_gain):
    network = LowRankRNN(*SIZES, rank=2, random_gain=random_gain, tau=0.05, noise_std=0.1, key=KEY)
    full = with_weights_of(network, LeakyRNN(*SIZES, tau=0.05, noise_std=0.1, key=KEY))
    x, h = drawn((3,), (5,))
    np.testing.assert_allclose(network.step(x, h, key=KEY), full.step(x, h, key=KEY), rtol=1e-12)
    structured = np.asarray(network.left @ network.right.T) / 5
    assert np.linalg.matrix_rank(structured) == 2
    rest = np.asarray(network.recurrent_weights) - structured
    assert np.any(np.abs(rest) > 1e-12) == bool(random_gain)
    moved, expected = network.with_dt(0.005), full.with_dt(0.005)
    np.testing.assert_allclose(moved.step(x, h, key=KEY), expected.step(x, h, key=KEY), rtol=1e-12)
    learned = popsim.is_parameter(network)
    assert learned.left and learned.right and not learned.tau and not learned.random_weights


def test_the_random_part_has_its_gain():
    network = LowRankRNN(3, 400, 2, random_gain=0.8, key=KEY)
    assert abs(np.std(network.random_weights) * 20 / 0.8 - 1) < 0.01


def test_a_network_of_a_cell_is_that_of_the_same_cell():
    gru, lstm = GRUNetwork(*SIZES, key=KEY), LSTMNetwork(*SIZES, noise_std=0.1, key=KEY)
    x, h, c = drawn((3,), (5,), (5,))
    for network, hidden, noise in ((gru, h, 0.0), (lstm, (h, c), 0.1)):
        same = CellNetwork(network.cell, 2, noise_std=noise, key=KEY)
        assert jax.tree.structure(same.init(key=KEY)) == jax.tree.structure(hidden)
        found, expected = (each.step(x, hidden, key=KEY) for each in (same, network))
        jax.tree.map(np.testing.assert_array_equal, found, expected)
        assert same.read_out(found).shape == (2,) and same.n_inputs == 3


class Odd(eqx.Module):
    """A cell that forgets what it got."""

    input_size: int = 3
    hidden_size: int = 5

    def __call__(self, inputs, hidden):
        return inputs


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: CellNetwork(Odd(), 2, key=KEY), r"`cell` must return .*an array or a pair .*got an array"),
        (lambda: VanillaRNN(*SIZES, gain=-1.0, key=KEY), "`gain`"),
        (
            lambda: TrainableStart(LSTMNetwork(*SIZES, key=KEY), jnp.zeros(5)),
            r"`initial_hidden` must be of the structure .* \(\(5,\), \(5,\)\), got \(5,\)",
        ),
        (
            lambda: TrainableStart(VanillaRNN(*SIZES, key=KEY), jnp.full(5, jnp.nan)),
            "`initial_hidden` must be finite, got nan",
        ),
    ],
)
def test_what_cannot_be_built_is_refused(build, message, as_users_run):
    with pytest.raises(ValueError, match=message):
        build()
