import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from short_form import every_nth, every_nth_row

from popsim import make_ensemble
from popsim.networks import AbstractReadoutNetwork, LeakyRNN, dale_weights
from popsim.training.constraints import dale_signs


class Copy(AbstractReadoutNetwork):
    """A network of a user, with all that its base asks for."""

    readout: eqx.nn.Linear

    def init(self, *, key):
        return jnp.zeros(self.n_inputs)

    def step(self, inputs, hidden, *, key):
        return inputs


def test_a_network_of_a_user_has_the_constructor_of_its_base(getkey):
    readout, inputs = eqx.nn.Linear(3, 2, key=getkey()), jnp.arange(3.0)
    copy = Copy(readout, n_inputs=3, n_outputs=2)
    np.testing.assert_array_equal(copy.read_out(copy.step(inputs, inputs, key=getkey())), readout(inputs))


def test_the_bias_of_the_readout_is_added_to_what_is_drawn(getkey):
    key = getkey()
    drawn, moved = (LeakyRNN(3, 5, 2, output_bias=bias, key=key).readout for bias in (0.0, (-3.0, 0.5)))
    np.testing.assert_array_equal(moved.bias, drawn.bias + jnp.array([-3.0, 0.5]))
    np.testing.assert_array_equal(moved.weight, drawn.weight)


def hidden_over_time(network, start, n_steps, key):
    def step(hidden, key):
        hidden = network.step(jnp.zeros(network.n_inputs), hidden, key=key)
        return hidden, hidden

    return jax.lax.scan(step, start, jax.random.split(key, n_steps))[1]


def with_field(network, name, value):
    return eqx.tree_at(lambda network: getattr(network, name), network, value)


def test_a_step_is_the_hand_written_equation(float64, getkey):
    network = LeakyRNN(3, 5, 2, tau=0.04, dt=0.01, key=getkey())
    network = with_field(network, "bias", jax.random.normal(getkey(), (5,)))
    inputs, x = jax.random.normal(getkey(), (3,)), jax.random.normal(getkey(), (5,))
    hidden = network.step(inputs, x, key=getkey())

    w_rec, w_in, b = (np.asarray(w) for w in (network.recurrent_weights, network.input_weights, network.bias))
    x = np.asarray(x)
    expected = x + 0.01 / 0.04 * (-x + w_rec @ np.tanh(x) + w_in @ np.asarray(inputs) + b)
    np.testing.assert_allclose(hidden, expected, rtol=1e-14)
    readout = np.asarray(network.readout.weight) @ np.tanh(expected) + np.asarray(network.readout.bias)
    np.testing.assert_allclose(network.read_out(hidden), readout, rtol=1e-14)


@pytest.mark.parametrize("dt, tau", every_nth_row([(0.02, 0.05), (0.001, 0.05)], 2))
def test_an_uncoupled_unit_fluctuates_by_noise_std_at_any_dt_and_tau(getkey, dt, tau):
    """Exactly: an autoregression of coefficient 1 - a with noise variance 2 a noise_std², a = dt / tau."""
    network = LeakyRNN(1, 400, 1, tau=0.1, dt=dt, noise_std=0.3, gain=0.0, key=getkey())
    network = with_field(network, "tau", jnp.full(400, tau))  # also where tau has been changed
    steps = round(10 * tau / dt)
    stationary = hidden_over_time(network, jnp.zeros(400), 2 * steps, getkey())[steps:]
    a = dt / tau
    expected = 0.3 * np.sqrt(2 * a / (1 - (1 - a) ** 2))
    np.testing.assert_allclose(stationary.std(), expected, rtol=0.05)
    np.testing.assert_allclose(expected, 0.3, rtol=0.12)
    units = np.corrcoef(stationary[:, :30].T)[np.triu_indices(30, 1)]
    assert abs(units.mean()) < 0.05


def drawn(n_units, n_seeds, gain=0.95, **options):
    """Networks with Dale's law, stacked."""
    signs = dale_signs(n_units)
    build = lambda key: LeakyRNN(1, n_units, 1, gain=gain, signs=signs, key=key, **options)  # noqa: E731
    return make_ensemble(build, n_seeds, key=jax.random.key(0))


@pytest.mark.parametrize("density", [1.0, 0.2])
def test_with_signs_weights_obey_dales_law_in_balance_at_the_spectral_radius(density):
    weights = np.asarray(drawn(50, 4, density=density).recurrent_weights, float)
    assert np.all(weights * dale_signs(50) >= 0)
    assert np.all(np.sum(weights > 0, axis=2) == 40 * density)
    assert np.all(np.sum(weights < 0, axis=2) == 10 * density)
    np.testing.assert_allclose(np.sum(weights, axis=2), 0, atol=1e-6)
    np.testing.assert_allclose(np.abs(np.linalg.eigvals(weights)).max(axis=1), 0.95, rtol=0.01)
    assert not np.array_equal(weights[0], weights[1])


@pytest.mark.parametrize("n_units, n_seeds, tolerance", every_nth_row([(100, 8, 0.15), (400, 20, 0.1)], 2))
def test_balanced_weights_follow_the_circle_law_without_an_outlier(n_units, n_seeds, tolerance):
    draw = jax.jit(lambda key: dale_weights(dale_signs(n_units), 1.0, key=key))
    radii = []  # of the largest |eigenvalue|, an outlier if there is one, by that of the circle
    for key in jax.random.split(jax.random.key(1), n_seeds):
        of_circle = np.sqrt(np.sum(np.var(np.asarray(draw(key), float), axis=0)))
        radii.append(1 / of_circle)
    np.testing.assert_allclose(np.median(radii), 1, atol=tolerance)


@pytest.mark.parametrize("signs", every_nth([(1, -1, -1, -1), (1, 1, 1, -1), (1, 1, -1, -1)], 3))
def test_balanced_weights_of_few_units_are_bounded(signs):
    draws = jax.jit(jax.vmap(lambda key: dale_weights(signs, 0.9, key=key)))
    largest = np.abs(draws(jax.random.split(jax.random.key(4), 4000))).max()
    assert 0.9 < largest < 30 * 0.9


def test_balanced_networks_stay_bounded_without_input():
    networks = drawn(50, 4, nonlinearity=jax.nn.relu)
    starts = jax.random.normal(jax.random.key(2), (4, 50))
    over_10_s = lambda network, start: hidden_over_time(network, start, 1000, jax.random.key(0))  # noqa: E731
    largest = np.abs(eqx.filter_jit(eqx.filter_vmap(over_10_s))(networks, starts)).max(axis=2)
    assert np.all(largest < 6) and np.all(largest[:, -1] < 1e-2)
