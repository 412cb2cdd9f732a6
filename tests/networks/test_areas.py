"""Networks of several areas: what is connected, with which signs and delays, and that training keeps it."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import DT

import popsim
from popsim import interventions, losses
from popsim.networks import AreaRNN, Areas, LeakyRNN, Sparse, TrainableStart

KEY = jax.random.key(3)
SIZES = {"PMd": 10, "M1": 8}
FORWARD, BACK = ("PMd", "M1"), ("M1", "PMd")
CONNECTIONS = {FORWARD: Sparse(0.3), BACK: Sparse(0.2, from_excitatory=True)}
INPUTS = {"target": 2, "proprioception": 3}
PMD, M1 = slice(0, 10), slice(10, 18)


def plan(**changes):
    options = {
        "connections": CONNECTIONS,
        "excitatory": 0.8,
        "inputs": {"PMd": ["target"], "M1": ["proprioception"]},
        "outputs": "M1",
    }
    return Areas(SIZES, **(options | changes))


def build(areas, inputs=INPUTS, **options):
    return AreaRNN(areas, inputs, 2, tau=0.05, dt=DT, key=KEY, **options)


@functools.cache
def planned():
    """One network for all tests that take the plan as it is."""
    return build(plan(), noise_std=0.1)


def test_connections_are_those_of_the_plan():
    network = planned()
    weights = np.asarray(network.recurrent_weights)
    assert np.all((weights[M1, PMD] != 0).sum(axis=1) == 3)  # .3 of 10
    assert np.all((weights[PMD, M1] != 0).sum(axis=1) == 2)  # .2 of 6 excitatory ones, rounded up
    assert np.all(weights[PMD, M1][:, 6:] == 0)
    signs = np.repeat([1, -1, 1, -1], [8, 2, 6, 2])
    assert np.all(weights * signs >= 0)
    np.testing.assert_allclose(weights.sum(axis=1), 0, atol=1e-5)
    assert np.max(np.abs(np.linalg.eigvals(weights))) == pytest.approx(0.9, rel=1e-4)
    received = np.asarray(network.input_weights) != 0
    assert np.all(received[PMD] == [1, 1, 0, 0, 0])
    assert np.all(received[M1] == [0, 0, 1, 1, 1])
    groups = network.unit_groups()
    assert groups["M1 excitatory"].tolist() == [*range(10, 16)]
    assert [*groups] == [f"{area}{kind}" for area in SIZES for kind in ("", " excitatory", " inhibitory")]
    changed = jax.random.normal(KEY, network.strengths.shape)  # whatever training makes of them
    after = np.asarray(eqx.tree_at(lambda own: own.strengths, network, changed).recurrent_weights)
    assert np.array_equal(after != 0, weights != 0) and np.all(after * signs >= 0)


def test_weights_without_a_loop_or_of_one_sign_are_drawn_too():
    ring = np.roll(np.eye(10, dtype=bool), 1, axis=0)
    chain = ring & (np.arange(10) != 9)  # the last unit sends to none
    forward = {FORWARD: Sparse(), ("M1", "M1"): np.zeros((8, 8), bool)}
    with pytest.warns(UserWarning, match="without any input"):
        weights = np.asarray(build(plan(connections={**forward, ("PMd", "PMd"): chain})).recurrent_weights)
    assert np.all(weights[M1, PMD] != 0) and np.all((weights[PMD, PMD] != 0) == chain)
    np.testing.assert_allclose(weights[M1].sum(axis=1), 0, atol=1e-5)
    assert 0.5 < np.mean(np.sum(np.where(weights[M1] > 0, weights[M1], 0) ** 2, axis=1)) < 0.9
    with pytest.warns(UserWarning, match="without any input"):
        weights = np.asarray(build(plan(connections={**forward, ("PMd", "PMd"): ring})).recurrent_weights)
    assert np.max(np.abs(np.linalg.eigvals(weights))) == pytest.approx(0.9, rel=1e-4)
    # An area of inhibitory units that receives from itself alone.
    inhibitory = plan(connections={BACK: Sparse()}, excitatory={"PMd": 0.8, "M1": 0.0})
    assert np.all(np.asarray(build(inhibitory).recurrent_weights)[M1, M1] < 0)


def test_areas_that_get_nothing_are_warned_of():
    with pytest.warns(UserWarning, match="leaves units of 'M1' without any input from 'PMd'"):
        build(plan(connections={FORWARD: np.zeros((8, 10), bool)}))
    with pytest.warns(UserWarning, match="leaves the inputs proprioception without an area"):
        build(plan(inputs={"PMd": ["target"]}))


def test_a_step_is_that_of_a_leaky_network_with_the_weights_of_the_areas():
    network = planned()
    leaky = LeakyRNN(5, 18, 2, tau=0.05, dt=DT, noise_std=0.1, key=KEY)
    names = ("recurrent_weights", "input_weights", "bias", "readout")
    leaky = eqx.tree_at(lambda n: [getattr(n, x) for x in names], leaky, [getattr(network, x) for x in names])
    leaky = eqx.tree_at(lambda n: n.readout.weight, leaky, replace_fn=lambda w: w.at[:, :10].set(0))
    inputs, hidden = jax.random.normal(KEY, (5,)), jax.random.normal(KEY, (18,))
    stepped = eqx.filter_jit(lambda own: (after := own.step(inputs, hidden, key=KEY), own.read_out(after)))
    for found, expected in zip(stepped(network), stepped(leaky), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_what_an_area_sends_arrives_after_its_delay():
    delays = {FORWARD: 0.03, BACK: 0.01, ("M1", "M1"): 0.02}
    network = build(plan(delays=delays))
    weights, received = np.asarray(network.recurrent_weights), np.asarray(network.input_weights)
    inputs = np.asarray(jax.random.normal(KEY, (12, 5)))
    hidden, activations = network.init(key=KEY), [np.zeros(18)]
    step = eqx.filter_jit(lambda row, hidden: network.step(row, hidden, key=KEY))
    back = {FORWARD: 3, BACK: 1, ("M1", "M1"): 2, ("PMd", "PMd"): 0}
    units = {"PMd": PMD, "M1": M1}
    for t, row in enumerate(inputs):
        hidden = step(row, hidden)
        drive = received @ row - activations[t]
        for (source, target), steps in back.items():
            sent = np.tanh(activations[max(0, t - steps)])
            drive[units[target]] += weights[units[target], units[source]] @ sent[units[source]]
        activations.append(activations[t] + DT / 0.05 * drive)
        np.testing.assert_allclose(network.activity(hidden), activations[-1], rtol=1e-3, atol=1e-5)
    assert [*network.projections()] == ["input", "readout"]
    unsigned = {"connections": {FORWARD: Sparse()}, "excitatory": None}
    assert "recurrent" in build(plan(**unsigned)).projections()
    assert "recurrent" not in build(plan(**unsigned, delays={FORWARD: 0.01})).projections()
    moved = network.with_dt(0.005)
    assert moved.init(key=KEY).synapses.values.shape == (6, 18)
    with pytest.raises(ValueError, match="must be a multiple of the time step dt = 0.004 s.*got 0.03 s"):
        network.with_dt(0.004)
    with pytest.raises(ValueError, match="must have no delays for its learned start"):
        TrainableStart(network).with_dt(0.005)


def test_names_select_units_of_losses_and_interventions():
    network = planned()
    silenced, stimulated = interventions.SilenceUnits(units="PMd"), interventions.UnitInput(units="M1")
    model = popsim.NetworkModel(network, (silenced, stimulated), dt=DT)
    trial = popsim.Trial(
        init=(),
        inputs={"proprioception": jnp.ones((6, 3)), "target": jnp.ones((6, 2))},
        targets=(),
        timeline=popsim.Timeline(dt=DT, n_steps=6),
        interventions={
            "silence units": popsim.trial.InterventionSchedule(jnp.ones(10), jnp.ones(6, bool)),
            "unit input": popsim.trial.InterventionSchedule(5 * jnp.ones(8), jnp.ones(6, bool)),
        },
    )
    states = popsim.simulate(model, trial, key=KEY)
    assert np.all(np.asarray(states.network.hidden)[:, PMD] == 0)
    assert np.min(states.network.hidden[-1, M1]) > 0.5
    cost = losses.HiddenActivity(units="M1")(states, trial, model)
    np.testing.assert_allclose(cost, np.sum(np.asarray(states.network.hidden)[:, M1] ** 2), rtol=1e-5)
    wrong = popsim.NetworkModel(network, (interventions.SilenceUnits(units="PMv"),), dt=DT)
    with pytest.raises(ValueError, match="must be the name of a group of units.*Perhaps you meant PMd"):
        popsim.simulate(wrong, trial, key=KEY)


def test_areas_may_have_no_inputs():
    network = AreaRNN(Areas(SIZES, connections=CONNECTIONS, excitatory=0.8), {}, 2, key=KEY)
    assert network.n_inputs == 0 and network.input_weights.shape == (18, 0)
    hidden = network.init(key=KEY)
    assert jnp.array_equal(network.step(jnp.zeros(0), hidden, key=KEY), hidden)
