"""Networks of a cell, plain ones, those of low rank; layers, encoders, and initial weights."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import DT

import popsim
from popsim.networks import (
    CellNetwork,
    EncodedNetwork,
    GRUNetwork,
    LeakyRNN,
    LowRankRNN,
    LSTMNetwork,
    NetworkStep,
    StackedNetwork,
    TrainableStart,
    VanillaRNN,
    draw_weights,
    identity_weights,
    per_gate,
    spectral_weights,
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


KEY = jax.random.key(3)


def test_layers_receive_the_output_of_the_layer_before(float64):
    layers = [LSTMNetwork(3, 5, 4, key=KEY), TrainableStart(GRUNetwork(4, 6, 2, noise_std=0.1, key=KEY))]
    network = StackedNetwork(layers)
    x = jax.random.normal(KEY, (3,))
    hidden = network.init(key=KEY)
    for _ in range(2):
        after = network.step(x, hidden, key=KEY)
        first = layers[0].step(x, hidden[0], key=KEY)
        key = popsim.key_stream(KEY, "layer 1")
        second = layers[1].step(layers[0].read_out(first), hidden[1], key=key)
        jax.tree.map(np.testing.assert_array_equal, after, (first, second))
        hidden = after
    np.testing.assert_array_equal(network.read_out(hidden), layers[1].read_out(second))
    np.testing.assert_array_equal(network.activity(hidden), jnp.concatenate([first[0], second]))
    changed = network.with_activity(hidden, jnp.arange(11.0))
    np.testing.assert_array_equal(network.activity(changed), np.arange(11.0))
    np.testing.assert_array_equal(changed[0][1], first[1])
    assert network.unit_groups()["layer 1"].tolist() == [*range(5, 11)]
    with pytest.raises(ValueError, match="the dt at which it was trained"):
        network.with_dt(0.005)
    leaky = StackedNetwork([LeakyRNN(3, 5, 4, dt=DT, key=KEY), LeakyRNN(4, 5, 2, dt=DT, key=KEY)])
    assert [layer.dt for layer in leaky.with_dt(0.005).layers] == [0.005, 0.005]
    with pytest.raises(ValueError, match="To move the network there"):
        leaky.check_dt(0.005)
    ensemble = popsim.make_ensemble(lambda key: popsim.NetworkModel(leaky, dt=DT), 2, key=KEY)
    moved = ensemble.with_dt(0.005).network
    assert moved.n_units == (5, 5) and moved.unit_groups()["layer 1"].tolist() == [*range(5, 10)]


def test_an_encoder_comes_before_and_a_readout_after_a_network(float64):
    within = GRUNetwork(4, 6, 5, key=KEY)
    encoder, readout = (eqx.nn.MLP(*sizes, 8, 1, key=KEY) for sizes in ((3, 4), (5, 2)))
    network = EncodedNetwork(within, encoder, readout, n_inputs=3)
    assert (network.n_inputs, network.n_outputs) == (3, 2)
    x = jax.random.normal(KEY, (3,))
    hidden = network.step(x, network.init(key=KEY), key=KEY)
    expected = within.step(encoder(x), within.init(key=KEY), key=KEY)
    np.testing.assert_array_equal(hidden, expected)
    np.testing.assert_array_equal(network.read_out(hidden), readout(within.read_out(expected)))
    assert [*network.projections()] == [*within.projections()]
    assert np.all(network.projections()["recurrent"].where(network) == within.cell.weight_hh)
    is_learned = popsim.is_parameter(network)
    assert is_learned.encoder.layers[0].weight and is_learned.readout.layers[0].weight


@pytest.mark.parametrize("kind", [GRUNetwork, LeakyRNN])
def test_projections_see_what_the_encoder_returns(float64, kind):
    within = kind(3, 6, 2, key=KEY)
    network = TrainableStart(EncodedNetwork(within, jnp.sin, n_inputs=3))
    x, before = jax.random.normal(KEY, (3,)), jax.random.normal(KEY, (6,))
    after = network.step(x, before, key=KEY)
    encoded = NetworkStep(jnp.sin(x), before, after)
    for name, projection in network.projections().items():
        inner = within.projections()[name]
        for read in ("pre", "post"):
            found = getattr(projection, read)(network, NetworkStep(x, before, after))
            np.testing.assert_array_equal(found, getattr(inner, read)(within, encoded))


def test_initial_weights_are_those_of_the_initializer(float64):
    gru, plain = GRUNetwork(3, 5, 2, key=KEY), VanillaRNN(3, 40, 2, key=KEY)
    orthogonal = per_gate(jax.nn.initializers.orthogonal())
    drawn = draw_weights(gru, lambda network: network.cell.weight_hh, orthogonal, key=KEY)
    gates = np.asarray(drawn.cell.weight_hh).reshape(3, 5, 5)
    np.testing.assert_allclose(
        gates @ gates.swapaxes(1, 2), np.broadcast_to(np.eye(5), (3, 5, 5)), atol=1e-12
    )
    assert not np.allclose(gates[0], gates[1])
    np.testing.assert_array_equal(drawn.cell.weight_ih, gru.cell.weight_ih)

    def recurrent(initializer):
        return np.asarray(
            draw_weights(plain, lambda n: n.recurrent_weights, initializer, key=KEY).recurrent_weights
        )

    np.testing.assert_array_equal(recurrent(identity_weights(0.5)), 0.5 * np.eye(40))
    weights = recurrent(spectral_weights(1.3))
    assert np.max(np.abs(np.linalg.eigvals(weights))) == pytest.approx(1.3, rel=1e-10)
    assert np.min(weights) < 0 < np.max(weights)
    given = np.arange(1600.0).reshape(40, 40)
    np.testing.assert_array_equal(recurrent(lambda key, shape, dtype: jnp.asarray(given, dtype)), given)
