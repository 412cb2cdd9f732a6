"""Layers of networks, encoders and readouts, and ways to draw initial weights."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import DT

import popsim
from popsim.networks import (
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


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: draw_weights(
                LowRankRNN(3, 5, 4, key=KEY), lambda n: n.recurrent_weights, spectral_weights(), key=KEY
            ),
            "`where` must select an array that is stored in the LowRankRNN",
        ),
        (
            lambda: StackedNetwork([GRUNetwork(3, 5, 4, key=KEY), GRUNetwork(3, 5, 4, key=KEY)]),
            r"`layers\[1\]` must have as many inputs as layers\[0\] has outputs, 4, got 3",
        ),
        (
            lambda: EncodedNetwork(GRUNetwork(3, 5, 4, key=KEY), lambda x: x[:2], n_inputs=6),
            "`encoder` must return the 3 inputs of the network, got 2 numbers",
        ),
        (
            lambda: EncodedNetwork(GRUNetwork(3, 5, 4, key=KEY), jnp.zeros((3, 5)).__matmul__, n_inputs=6),
            "`encoder`, called with a vector of 6 numbers, raises TypeError: ",
        ),
        (lambda: EncodedNetwork(GRUNetwork(3, 5, 4, key=KEY), jnp.sin), "`n_inputs` must be given with"),
        (
            lambda: EncodedNetwork(GRUNetwork(3, 5, 4, key=KEY), readout=lambda output: (output, output)),
            "`readout` must return a vector, got a tuple",
        ),
    ],
)
def test_bad_arguments(as_users_run, make, message):
    with pytest.raises(ValueError, match=message):
        make()


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
