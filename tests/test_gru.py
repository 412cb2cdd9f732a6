import jax
import jax.numpy as jnp
import numpy as np
import pytest

from popsim.networks import GRUNetwork


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
