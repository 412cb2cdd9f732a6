"""Losses on the Jacobians of networks, against explicit Jacobians."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from loss_values import sum_of_costs, value_of
from relay import relay_loop

import popsim
from popsim import losses
from popsim.networks import AreaRNN, Areas, GRUNetwork, LeakyRNN, ShortTermPlasticity, Sparse, TrainableStart

DT, TAU, N_STEPS, N_UNITS = 0.01, 0.04, 6, 4
LEAK = DT / TAU
SENSITIVITY, VANISHING = losses.RecurrentSensitivity(), losses.VanishingGradient(losses.OutputError())
EARLY = losses.InWindow(popsim.windows.Between(0.0, 3 * DT))


def make_trial(key):
    inputs = jax.random.normal(key, (N_STEPS, 2))
    counts = jnp.ones(N_STEPS).at[0].set(0.0)
    target = popsim.OutputTarget(jnp.tile(jnp.array([0.5, -0.5]), (N_STEPS, 1)), counts)
    return popsim.Trial((), inputs, target, popsim.Timeline(DT, N_STEPS))


def leaky(key):
    return LeakyRNN(2, N_UNITS, 2, tau=TAU, dt=DT, noise_std=0.1, key=key)


@functools.cache
def run_of_leaky():
    return simulated(TrainableStart(leaky(jax.random.key(0))), jax.random.key(1))


@pytest.fixture
def leaky_run(float64):
    """A leaky network within another, whose terms are its own."""
    return run_of_leaky()


def simulated(network, key):
    model = popsim.NetworkModel(network, dt=DT)
    trial = make_trial(popsim.key_stream(key, "trial"))
    return popsim.simulate(model, trial, key=key), trial, model


def leaky_recurrences(weights, hidden):
    """W diag(f'(x)) at all states but the last."""
    return weights * (1 - jnp.tanh(hidden[:-1]) ** 2)[:, None, :]


def test_sensitivity_of_a_leaky_network_is_that_of_its_recurrent_input(leaky_run):
    states, trial, model = leaky_run
    jacobians = leaky_recurrences(model.network.network.recurrent_weights, states.network.hidden)
    squares = np.sum(np.asarray(jacobians) ** 2, axis=(1, 2))
    np.testing.assert_allclose(value_of(SENSITIVITY, *leaky_run), squares.sum(), rtol=1e-12)
    early = losses.RecurrentSensitivity(profile=EARLY)
    np.testing.assert_allclose(value_of(early, *leaky_run), squares[:2].sum(), rtol=1e-12)
    assert sum_of_costs(early, *leaky_run) is None


def test_sensitivity_leaves_delays_aside(float64, getkey):
    areas = Areas({"a": 3, "b": 1}, connections={("a", "b"): Sparse()}, delays={("a", "b"): 2 * DT})
    delayed = AreaRNN(areas, {"inputs": 2}, 2, tau=TAU, dt=DT, key=getkey())
    states, trial, model = run = simulated(TrainableStart(delayed), getkey())
    jacobians = leaky_recurrences(delayed.recurrent_weights, states.network.hidden.activation)
    np.testing.assert_allclose(value_of(SENSITIVITY, *run), jnp.sum(jacobians**2), rtol=1e-12)


def test_terms_of_other_networks_are_those_of_a_time_step(float64, getkey):
    states, trial, model = run = simulated(GRUNetwork(2, N_UNITS, 2, key=getkey()), getkey())

    def jacobian(hidden, received):
        return jax.jacrev(lambda h: model.network.step(received, h, key=jax.random.key(0)))(hidden)

    jacobians = jax.jit(jax.vmap(jacobian))(states.network.hidden[:-1], trial.inputs[1:])
    np.testing.assert_allclose(value_of(SENSITIVITY, *run), jnp.sum(jacobians**2), rtol=1e-10)
    found = value_of(VANISHING, *run)
    np.testing.assert_allclose(found, omega(jacobians, error_gradients(*run)), rtol=1e-9)


def test_random_directions_estimate_the_sensitivity(leaky_run):
    exact = value_of(SENSITIVITY, *leaky_run)
    estimate = value_of(losses.RecurrentSensitivity(n_directions=1000), *leaky_run)
    np.testing.assert_allclose(estimate, exact, rtol=0.05)
    assert value_of(losses.RecurrentSensitivity(n_directions=1), *leaky_run) != exact


@eqx.filter_jit
def error_gradients(states, trial, model):
    """The gradient of the error by a small change of each hidden state, with the noise of the states kept."""
    network, hidden = popsim.without_noise(model.network), states.network.hidden

    def run(changes):
        rows = [hidden[0] + changes[0]]
        for t in range(1, N_STEPS):
            given = network.step(trial.inputs[t], hidden[t - 1], key=jax.random.key(0))
            moved = network.step(trial.inputs[t], rows[-1], key=jax.random.key(0))
            rows.append(hidden[t] + moved - given + changes[t])
        outputs = jax.vmap(network.read_out)(jnp.stack(rows))
        moved = eqx.tree_at(lambda s: s.network.output, states, outputs)
        return losses.OutputError()(moved, trial, model)

    return jax.grad(run)(jnp.zeros_like(hidden))


def omega(jacobians, gradients):
    pulled = jnp.einsum("ti,tij->tj", gradients[1:], jacobians)
    return jnp.mean((jnp.sum(pulled**2, axis=1) / jnp.sum(gradients[1:] ** 2, axis=1) - 1) ** 2)


def leaky_steps(weights, hidden):
    return (1 - LEAK) * jnp.eye(N_UNITS) + LEAK * leaky_recurrences(weights, hidden)


def test_the_vanishing_gradient_is_that_of_explicit_jacobians(leaky_run):
    states, trial, model = leaky_run
    gradients, hidden = error_gradients(*leaky_run), states.network.hidden

    def closed_form(weights):
        return omega(leaky_steps(weights, hidden), gradients)

    weights = model.network.network.recurrent_weights
    np.testing.assert_allclose(value_of(VANISHING, *leaky_run), closed_form(weights), rtol=1e-9)
    assert closed_form(weights) > 1e-3
    found = eqx.filter_jit(eqx.filter_grad(lambda model: VANISHING(states, trial, model)))(model)
    np.testing.assert_allclose(
        found.network.network.recurrent_weights, jax.jit(jax.grad(closed_form))(weights), rtol=1e-7
    )
    by_states = eqx.filter_jit(eqx.filter_grad(lambda states: VANISHING(states, trial, model)))(states)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(by_states))


def test_an_orthogonal_linear_network_loses_no_gradient(float64, getkey):
    network = LeakyRNN(2, N_UNITS, 2, tau=DT, dt=DT, nonlinearity=lambda x: x, key=getkey())
    turned, _ = jnp.linalg.qr(jax.random.normal(getkey(), (N_UNITS, N_UNITS)))
    for scale, expected in ((1.0, 0.0), (0.5**0.5, 0.25)):
        scaled = eqx.tree_at(lambda n: n.recurrent_weights, network, scale * turned)
        np.testing.assert_allclose(value_of(VANISHING, *simulated(scaled, getkey())), expected, atol=1e-12)


def test_steps_without_a_gradient_do_not_count(leaky_run):
    states, trial, model = leaky_run
    first = losses.Effort(profile=losses.InWindow(popsim.windows.Between(0.0, 2 * DT)))
    nothing = losses.Effort(profile=losses.InWindow(popsim.windows.Between(0.0, DT)))
    for error, is_zero in ((first, False), (nothing, True)):
        term = losses.VanishingGradient(error)
        value, gradient = eqx.filter_jit(
            eqx.filter_value_and_grad(lambda m, term=term: term(states, trial, m))
        )(model)
        assert (value == 0) == is_zero and np.isfinite(value)
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradient))


def test_plastic_synapses_are_no_part_of_the_sensitivity_and_must_be_recorded_for_the_other(float64, getkey):
    kept, dropped = (
        simulated(plastic(is_recorded, key), key) for key in [getkey()] for is_recorded in (True, False)
    )
    weights, hidden = kept[2].network.recurrent_weights, kept[0].network.hidden.activation
    squares = np.sum(np.asarray(leaky_recurrences(weights, hidden)) ** 2)
    for run in (kept, dropped):
        np.testing.assert_allclose(value_of(SENSITIVITY, *run), squares, rtol=1e-12)
    assert value_of(VANISHING, *kept) > 0
    with pytest.raises(ValueError, match="records all of its hidden state for the term 'vanishing gradient'"):
        VANISHING(*dropped)


def plastic(is_recorded, key):
    plasticity = ShortTermPlasticity.alternating(N_UNITS, is_recorded=is_recorded)
    return LeakyRNN(2, N_UNITS, 2, tau=TAU, dt=DT, plasticity=plasticity, key=key)


def test_bodies_are_refused(as_users_run, leaky_run):
    states, trial, model = leaky_run
    loop = eqx.tree_at(lambda m: m.network, relay_loop({}), model.network)
    term = losses.VanishingGradient(losses.Effort())
    with pytest.raises(ValueError, match="`model` must have no body for the term 'vanishing gradient'"):
        term(states, trial, loop)
