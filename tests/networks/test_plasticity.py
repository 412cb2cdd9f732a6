"""Plasticity within a trial: against the equations written out, through training, and what is recorded."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import DT
from short_form import every_nth

import popsim
from popsim.networks import DifferentiablePlasticity, FastWeights, LeakyRNN, LeakyState, ShortTermPlasticity

KEY = jax.random.key(3)
N = 6
KINDS = {
    "short-term": lambda **options: ShortTermPlasticity.alternating(N, rate_scale=20.0, **options),
    "fast weights": lambda **options: FastWeights(0.2, 30.0, **options),
    "plain": lambda **options: DifferentiablePlasticity(N, initial_std=0.5, rate=0.2, key=KEY, **options),
    "modulated": lambda **options: DifferentiablePlasticity(
        N, initial_std=0.5, is_modulated=True, key=KEY, **options
    ),
}


def network_of(plasticity, kind=LeakyRNN, **options):
    return kind(3, N, 2, tau=0.05, dt=DT, nonlinearity=jax.nn.relu, plasticity=plasticity, key=KEY, **options)


def rows_of(network, n_steps=12):
    """Inputs of a trial, and the hidden states after each step."""
    inputs = jax.random.normal(KEY, (n_steps, 3))
    hidden, states = network.init(key=KEY), []
    for row in inputs:
        hidden = network.step(row, hidden, key=KEY)
        states.append(hidden)
    return np.asarray(inputs), states


def by_hand(network, kind, inputs):
    """The activations of a network, written out with NumPy."""
    weights, received = np.asarray(network.recurrent_weights), np.asarray(network.input_weights)
    plasticity, x = network.plasticity, np.zeros(N)
    available, released = np.ones(N), np.where(np.arange(N) % 2 == 0, 0.15, 0.45)
    fast, trace, rates_before = np.zeros((N, N)), np.zeros((N, N)), np.zeros(N)
    activations = []
    for row in inputs:
        rates = np.maximum(x, 0)
        if kind == "short-term":
            facilitates, spikes = np.arange(N) % 2 == 0, 20 * rates
            tau_x, tau_u = np.where(facilitates, 0.2, 1.5), np.where(facilitates, 1.5, 0.2)
            base = np.where(facilitates, 0.15, 0.45)
            change = DT * ((1 - available) / tau_x - released * available * spikes)
            released = released + DT * ((base - released) / tau_u + base * (1 - released) * spikes)
            released, available = np.clip(released, 0, 1), np.clip(available + change, 0, 1)
            sent = weights @ (released * available * rates)
        elif kind == "fast weights":
            fast = np.exp(-DT / 0.2) * fast + 30 * DT * np.outer(rates, rates)
            sent = (weights + fast) @ rates
        else:
            change = np.outer(rates, rates_before)
            if kind == "plain":
                trace = 0.8 * trace + 0.2 * change
            else:
                modulator, fan_out = plasticity.modulator, plasticity.fan_out
                level = np.tanh(np.asarray(modulator.weight)[0] @ rates + np.asarray(modulator.bias)[0])
                rate = np.asarray(fan_out.weight)[:, 0] * level + np.asarray(fan_out.bias)
                trace = np.clip(trace + rate[:, None] * change, -2, 2)
            rates_before = rates
            sent = (weights + np.asarray(plasticity.strength) * trace) @ rates
        x = x + DT / 0.05 * (sent + received @ row - x)
        activations.append(x)
    return np.array(activations)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_the_equations(float64, kind):
    network = network_of(KINDS[kind]())
    inputs, states = rows_of(network)
    expected = by_hand(network, kind, inputs)
    np.testing.assert_allclose([network.activity(state) for state in states], expected, rtol=1e-12)
    plain = rows_of(network_of(None))[1]
    assert np.max(np.abs(np.array(plain) - expected)) > 1e-3  # the plasticity does something


def test_short_term_steps_settle_where_the_equations_do_at_any_rate(float64):
    """Against steps of a ten-thousandth: also where an Euler step of the network alternates."""
    synapses = ShortTermPlasticity.alternating(N)
    coarse = fine = synapses.init(N)
    rates, distances = jnp.repeat(jnp.array([40.0, 300.0, 1e5]), 2), []  # dt u r of .006 and .18 to 450
    fine_step = jax.jit(
        lambda state: jax.lax.fori_loop(
            0, 10_000, lambda _, state: synapses.step(state, rates, dt=DT / 1e4), state
        )
    )
    for _ in range(40):
        coarse, fine = synapses.step(coarse, rates, dt=DT), fine_step(fine)
        distances.append([np.max(np.abs(coarse[name] - fine[name])) for name in coarse])
    for name in coarse:  # settled within the time, but at the lowest rate
        np.testing.assert_allclose(coarse[name][2:], fine[name][2:], rtol=1e-3)
    assert np.max(distances) < 0.2 and np.max(distances[10:]) < 0.02


@pytest.mark.parametrize(
    "name, build",
    {
        "tau of LeakyRNN": lambda tau: LeakyRNN(3, N, 2, tau=tau, dt=DT, key=KEY),
        "tau_depression": lambda tau: network_of(ShortTermPlasticity(0.5, 0.2, tau)),
        "tau of FastWeights": lambda tau: network_of(FastWeights(np.min(tau), 30.0)),
        "tau of a network put into a model": lambda tau: popsim.NetworkModel(
            eqx.tree_at(lambda n: n.tau, network_of(None), jnp.asarray(tau)), dt=DT
        ),
        "tau_depression of synapses put into a model": lambda tau: popsim.NetworkModel(
            eqx.tree_at(
                lambda n: n.plasticity.tau_depression, network_of(KINDS["short-term"]()), jnp.asarray(tau)
            ),
            dt=DT,
        ),
        "tau_facilitation after with_dt": lambda tau: network_of(
            ShortTermPlasticity(0.5, 10 * tau, 0.2)
        ).with_dt(10 * DT),
    }.items(),
)
def test_time_constants_below_the_step_are_refused_wherever_a_step_divides_by_them(name, build):
    build(np.full(N, DT, np.float32))  # as long as a step
    with pytest.raises(ValueError, match=f"`dt` must not exceed {name.split()[0]} = .* s, got"):
        build(np.where(np.arange(N) == 1, 0.4 * DT, 0.1))


@pytest.mark.parametrize("kind", every_nth(KINDS, 4))
def test_it_trains_through_or_is_left_alone_and_is_recorded_if_asked(kind):
    trial = popsim.Trial(
        init=(),
        inputs=jax.random.normal(KEY, (12, 3)),
        targets=(),
        timeline=popsim.Timeline(dt=DT, n_steps=12),
    )

    def run(model):
        states = popsim.simulate(model, trial, key=KEY)
        return jnp.sum(states.network.output**2), states.network.hidden

    gradients, hidden = {}, {}
    for is_on in (True, False):
        plasticity = KINDS[kind](is_recorded=is_on, trains_through=is_on)
        model = popsim.NetworkModel(network_of(plasticity), dt=DT)
        gradients[is_on], hidden[is_on] = eqx.filter_grad(run, has_aux=True)(model)
    assert all(isinstance(states, LeakyState) for states in hidden.values())
    assert hidden[False].synapses is None
    assert {len(leaf) for leaf in jax.tree.leaves(hidden[True].synapses)} == {12}
    np.testing.assert_array_equal(hidden[True].activation, hidden[False].activation)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradients))
    through, around = (gradients[is_on].network.input_weights for is_on in (True, False))
    assert np.max(np.abs(through - around)) > 1e-4
