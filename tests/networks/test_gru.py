import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from popsim.networks import GRUNetwork, LeakyRNN
from popsim.noise import without_noise


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_a_step_is_the_hand_written_equation(float64, getkey):
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


def test_a_trial_starts_with_all_units_at_zero(getkey):
    np.testing.assert_array_equal(GRUNetwork(3, 5, 2, key=getkey()).init(key=getkey()), jnp.zeros(5))


@pytest.mark.full
@pytest.mark.parametrize("kind", [GRUNetwork, LeakyRNN])
def test_sizes_may_be_numbers_of_numpy(getkey, kind):
    key = getkey()
    given, expected = kind(*np.array([3, 5, 2]), key=key), kind(3, 5, 2, key=key)
    assert eqx.tree_equal(given, expected)


def test_weights_depend_on_the_key(getkey):
    key, other = getkey(), getkey()
    first, again, different = (GRUNetwork(3, 5, 2, key=k) for k in (key, key, other))
    np.testing.assert_array_equal(first.cell.weight_hh, again.cell.weight_hh)
    assert not jnp.any(first.cell.weight_hh == different.cell.weight_hh)
    assert not jnp.any(first.readout.weight == different.readout.weight)


@pytest.mark.parametrize(
    "sizes, name", [((0, 5, 2), "n_inputs"), ((3, -5, 2), "n_units"), ((3, 5, 0), "n_outputs")]
)
def test_bad_sizes_are_refused_by_name(getkey, sizes, name):
    with pytest.raises(ValueError, match=f"`{name}`"):
        GRUNetwork(*sizes, key=getkey())


@pytest.mark.full
def test_the_output_goes_through_a_function_and_starts_where_it_is_told(getkey):
    key = getkey()
    plain = GRUNetwork(3, 5, 6, key=key)
    muscles = GRUNetwork(3, 5, 6, output_fn=jax.nn.sigmoid, output_bias=-3.0, key=key)
    hidden = jax.random.normal(getkey(), (5,))
    expected = sigmoid(np.asarray(plain.read_out(hidden)) - 3)
    np.testing.assert_allclose(muscles.read_out(hidden), expected, rtol=1e-6)
    np.testing.assert_array_equal(muscles.readout.weight, plain.readout.weight)


@pytest.mark.full
def test_units_are_noisy_by_the_given_standard_deviation(getkey):
    key = getkey()
    noisy, quiet = (GRUNetwork(3, 50, 2, noise_std=std, key=key) for std in (0.2, 0.0))
    inputs, hidden = jnp.ones(3), jnp.zeros(50)
    exact = quiet.step(inputs, hidden, key=getkey())
    steps = jax.vmap(lambda key: noisy.step(inputs, hidden, key=key))(jax.random.split(getkey(), 400))
    error = np.asarray(steps - exact)
    assert abs(error.mean()) < 0.01 and abs(error.std() - 0.2) < 0.01
    np.testing.assert_array_equal(without_noise(noisy).step(inputs, hidden, key=getkey()), exact)


def test_negative_noise_is_refused(getkey):
    with pytest.raises(ValueError, match="`noise_std`"):
        GRUNetwork(3, 5, 2, noise_std=-0.1, key=getkey())
