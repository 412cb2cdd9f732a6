import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from trained_batch import MODEL_NAMES, MODELS, LinearUnits, bare_model, random_trials, train_batch

import popsim
from popsim.model import initial_state
from popsim.networks import GRUNetwork, LeakyRNN, TrainableStart
from popsim.session import join_trials
from popsim.training.rules import (
    Synapses,
    TrialActivity,
    input_synapses,
    network_steps,
    readout_synapses,
    recurrent_synapses,
)

pytestmark = pytest.mark.slow

SYNAPSES = {"recurrent": recurrent_synapses, "input": input_synapses, "readout": readout_synapses}


@pytest.fixture(params=MODEL_NAMES)
def batch(request, float64, getkey):
    """A batch of a GRU and of a leaky network, by themselves and in a loop."""
    build, network = MODELS[request.param]
    model, trials = build(network, getkey())
    return train_batch(model, trials, key=getkey())


def expected_weights(network, name):
    if name == "readout":
        return network.readout.weight
    if isinstance(network, LeakyRNN):
        return {"recurrent": network.recurrent_weights, "input": network.input_weights}[name]
    return {"recurrent": network.cell.weight_hh, "input": network.cell.weight_ih}[name][10:]


def received_by_hand(batch, i, t):
    """What the network of trial i received at step t, from the documented order and scaling."""
    parts = [np.asarray(batch.trials.inputs[name][i, t]) for name in sorted(batch.trials.inputs)]
    if isinstance(batch.model, popsim.SensorimotorLoop):
        parts.append((np.asarray(batch.states.feedback["vision"][i, t]) - 0.05) / 0.1)
    return np.concatenate(parts)


def test_post_is_what_units_did_with_the_current_that_a_trial_gave_them(float64, getkey):
    """The update gate, from weights alone, mixes the candidate that is read with the units before."""
    model, trials = bare_model(GRUNetwork, getkey())
    model = dataclasses.replace(model, interventions=(popsim.interventions.UnitInput(),))
    current = [2.0, 0.0, -1.0, 0.0, 0.5]
    batch = train_batch(
        model, popsim.interventions.schedule_intervention(trials, "unit input", current), key=getkey()
    )
    post, cell = recurrent_synapses().post_activity(batch), model.network.cell
    hidden = np.asarray(batch.states.network.hidden[2])
    before, received = hidden[3], batch.trials.inputs["stimulus"][2, 4]
    gate = jax.nn.sigmoid((cell.weight_ih @ received + cell.bias + cell.weight_hh @ before)[5:10])
    np.testing.assert_allclose(post[2, 4] + gate * (before - post[2, 4]), hidden[4], rtol=1e-9)


@pytest.mark.parametrize("name", SYNAPSES)
def test_weights_and_activity_are_those_of_the_network(batch, name):
    synapses, network = SYNAPSES[name](), batch.model.network
    np.testing.assert_array_equal(synapses.weights(batch.model), expected_weights(network, name))
    pre, post = synapses.pre_activity(batch), synapses.post_activity(batch)
    hidden = np.concatenate([np.zeros((6, 1, 5)), np.asarray(batch.states.network.hidden)], axis=1)
    rates = np.tanh(hidden) if isinstance(network, LeakyRNN) else hidden
    for i in range(6):
        for t in range(7):
            received = received_by_hand(batch, i, t)
            on_units = (
                rates[i, t + 1]
                if isinstance(network, LeakyRNN)
                else network.candidate(jnp.asarray(received), jnp.asarray(hidden[i, t]))
            )
            expected = {
                "recurrent": (rates[i, t], on_units),
                "input": (received, on_units),
                "readout": (rates[i, t + 1], batch.states.network.output[i, t]),
            }[name]
            np.testing.assert_allclose(pre[i, t], expected[0], rtol=1e-10)
            np.testing.assert_allclose(post[i, t], expected[1], rtol=1e-10)


def test_the_diagonal_stays_where_that_is_asked_for():
    model = LinearUnits(jnp.zeros((3, 3)), jnp.zeros(3))
    synapses = Synapses(lambda m: m.weights, zero_diagonal=True)
    np.testing.assert_array_equal(synapses.update(model, jnp.ones((3, 3))).weights, 1 - np.eye(3))
    assert recurrent_synapses(zero_diagonal=True).zero_diagonal and not recurrent_synapses().zero_diagonal


def test_synapses_that_do_not_fit_are_refused_by_name(as_users_run, getkey):
    bare = LinearUnits(jnp.zeros((2, 3)), jnp.zeros(2))
    batch = train_batch(bare, random_trials(4, 3, key=getkey()), lambda *_: jnp.zeros(()), key=getkey())
    synapses, square = Synapses(lambda m: m.weights), Synapses(lambda m: m.weights, zero_diagonal=True)
    part = Synapses(lambda m: m.weights[:1], pre=lambda activity: activity.states)
    for message, call in {
        "`where`": lambda: Synapses(lambda m: m.bias).weights(bare),
        "`where` of Synapses must pick parts of the LinearUnits": lambda: part.update(bare, jnp.ones((1, 3))),
        r"`zero_diagonal` of Synapses needs square.*\(2, 3\)": lambda: square.update(bare, jnp.ones((2, 3))),
        "`post` of Synapses must be given": lambda: synapses.post_activity(batch),
        "`where_bias` of Synapses must be given": lambda: synapses.with_input(bare, jnp.zeros(2)),
        r"`pre` of Synapses.*\(7, 3\).*\(7, 2\)": lambda: part.pre_activity(batch),
    }.items():
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("carry", [(), ("hidden",)], ids=["nothing", "hidden"])
def test_each_trial_of_a_session_starts_from_what_it_carries(carry):
    key = jax.random.key(0)
    network = TrainableStart(LeakyRNN(1, 4, 1, key=key), jnp.full(4, 0.5))
    model = popsim.NetworkModel(network, dt=0.01)
    inputs = jax.random.normal(key, (3, 5, 1))
    trials = jax.vmap(lambda x: popsim.Trial((), x, (), popsim.Timeline(0.01, 5)))(inputs)
    session = join_trials(trials, carry=carry)
    states = popsim.simulate(model, session, key=key)
    start = initial_state(model, session, key=key)
    steps = network_steps(TrialActivity(model, session, start, states))
    after = jax.vmap(lambda received, before: network.step(received, before, key=key))
    np.testing.assert_allclose(after(steps.received, steps.before), states.network.hidden, atol=1e-6)
    assert np.all(steps.before[5] == (steps.after[4] if carry else 0.5))
