"""What asks for the activity of units gets it from the network, whatever its hidden state is."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import DT, reach
from short_form import every_nth

import popsim
from popsim import interventions, losses
from popsim.networks import GRUNetwork, LSTMNetwork
from popsim.networks.activity import defines_activity
from popsim.policies import Categorical
from popsim.tasks.library import COGNITIVE_TASKS, TASKS

KEY = jax.random.key(5)
N_UNITS, N_STEPS = 4, 6
HELD = (
    interventions.ConstantForce(),
    interventions.CurlField(),
    interventions.ForceChannel(),
    interventions.CursorRotation(),
)


def model_for(task, *, key):
    """A small LSTM that does a task, with a point mass in the workspace of motor tasks."""
    trials = jax.eval_shape(task.validation_trials)
    dt = trials.timeline.dt
    if isinstance(trials.init, popsim.HandState):
        plant = popsim.plants.PointMass()
        n_inputs = popsim.n_network_inputs(trials, plant, {})
        return popsim.SensorimotorLoop(
            LSTMNetwork(n_inputs, 3, 2, key=key), plant, {}, interventions=HELD, dt=dt
        )
    n_inputs = popsim.n_network_inputs(trials)
    if trials.environment is not None:
        policy = Categorical(trials.environment.actions.n, critic=True)
        return popsim.NetworkModel(LSTMNetwork(n_inputs, 3, policy.n_outputs, key=key), policy=policy, dt=dt)
    return popsim.NetworkModel(LSTMNetwork(n_inputs, 3, trials.targets.values.shape[-1], key=key), dt=dt)


@pytest.mark.parametrize("name", every_nth(TASKS, 20))
def test_every_default_loss_takes_a_network_with_several_states(name):
    """The gradient of a batch, traced and not compiled."""
    task = TASKS[name]()
    model = model_for(task, key=KEY)
    trainable, rest = eqx.partition(model, popsim.is_parameter(model))

    def mean_loss(trainable, keys):
        def one_trial(key):
            trial, held = task.trial(batch=0, key=key), eqx.combine(trainable, rest)
            return task.loss(popsim.simulate(held, trial, key=key), trial, held).total

        return jnp.mean(jax.vmap(one_trial)(keys))

    gradients = eqx.filter_eval_shape(eqx.filter_grad(mean_loss), trainable, jax.random.split(KEY, 2))
    shapes = [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(trainable)]
    assert [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(gradients)] == shapes


class Silent(LSTMNetwork):
    """An LSTM that does not say what its activity is."""

    activity = popsim.networks.AbstractNetwork.activity
    with_activity = popsim.networks.AbstractNetwork.with_activity

    def step(self, inputs, hidden, *, key):
        return self.cell(inputs, hidden)

    def read_out(self, hidden):
        return self.readout(hidden[0])


def silent_model(*held):
    return popsim.NetworkModel(Silent(2, N_UNITS, 2, key=KEY), held, dt=DT)


def scheduled(name, parameters):
    schedule = interventions.InterventionSchedule(parameters, jnp.ones(N_STEPS, bool))
    return dataclasses.replace(reach(N_STEPS), interventions={name: schedule})


def test_a_network_without_activity_is_named_with_the_method():
    model, trial = silent_model(interventions.SilenceUnits()), reach(N_STEPS)
    states = popsim.simulate(model, trial, key=KEY)
    with pytest.raises(ValueError, match="`activity` of Silent must be implemented"):
        losses.HiddenActivity()(states, trial, model)
    with pytest.raises(ValueError, match="`activity` of Silent must be implemented"):
        popsim.simulate(model, scheduled("silence units", jnp.ones(N_UNITS)), key=KEY)
    hidden = model.network.init(key=KEY)
    with pytest.raises(ValueError, match="`with_activity` of Silent must be implemented"):
        model.network.with_activity(hidden, jnp.zeros(N_UNITS))


def test_figures_of_a_network_without_activity_leave_it_out():
    def of_one(model):
        states = popsim.simulate(model, reach(N_STEPS), key=KEY)
        ensemble = jax.tree.map(lambda leaf: leaf[None] if eqx.is_array(leaf) else leaf, model)
        return ensemble, jax.tree.map(lambda leaf: leaf[None, None], states)

    assert not defines_activity(*of_one(silent_model()))
    assert defines_activity(*of_one(popsim.NetworkModel(LSTMNetwork(2, N_UNITS, 2, key=KEY), dt=DT)))


class BothArrays(Silent):
    def activity(self, hidden):
        return jnp.stack(hidden)


class OneArray(Silent):
    activity = LSTMNetwork.activity

    def with_activity(self, hidden, rates):
        return rates


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (BothArrays, r"`activity` of BothArrays must return one array of shape \(unit,\)"),
        (OneArray, "`with_activity` of OneArray must return what is like the hidden state"),
    ],
)
def test_methods_that_do_not_fit_are_named(network, message):
    built = network(2, N_UNITS, 2, key=KEY)
    task = COGNITIVE_TASKS["flip-flop"](n_bits=2)
    with pytest.raises(ValueError, match=message):
        popsim.NetworkModel(built, dt=DT).check(task.validation_trials())


AREA = slice(1, 3)
SELECTORS = {
    "gru": (
        lambda: GRUNetwork(2, N_UNITS, 2, key=KEY),
        lambda hidden: hidden[AREA],
        lambda hidden: hidden[:, AREA],
    ),
    "lstm": (
        lambda: LSTMNetwork(2, N_UNITS, 2, key=KEY),
        lambda hidden: hidden[0][AREA],
        lambda hidden: hidden[0][:, AREA],
    ),
}


@pytest.mark.parametrize("kind", SELECTORS)
def test_a_selector_of_an_area_has_the_same_axes_in_losses_and_interventions(kind):
    build, area, over_time = SELECTORS[kind]
    held = (interventions.StimulateUnits(units=area), interventions.UnitNoise(units=area))
    model, trial = popsim.NetworkModel(build(), held, dt=DT), scheduled("stimulate units", jnp.ones(2))
    states = jax.jit(jax.vmap(lambda key: popsim.simulate(model, trial, key=key)))(KEY[None])
    states = jax.tree.map(lambda leaf: leaf[0], states)
    free = popsim.simulate(model, reach(N_STEPS), key=KEY)
    first, without = (jax.tree.map(lambda leaf: leaf[0], own.network.hidden) for own in (states, free))
    np.testing.assert_allclose(area(first), area(without) + 1, rtol=1e-6)
    if kind == "lstm":
        np.testing.assert_allclose(first[1], without[1], rtol=1e-6)
    rest = jax.tree.leaves(without)[0]
    np.testing.assert_allclose(
        jax.tree.leaves(first)[0][jnp.array([0, 3])], rest[jnp.array([0, 3])], rtol=1e-6
    )
    cost = losses.HiddenActivity(units=area)(states, trial, model)
    np.testing.assert_allclose(cost, np.sum(np.asarray(over_time(states.network.hidden)) ** 2), rtol=1e-5)


@pytest.mark.parametrize(
    ("units", "message"),
    [
        (lambda hidden: 2 * hidden[:1], "each once and unchanged"),
        (lambda hidden: hidden[jnp.array([0, 0])], "each once and unchanged"),
        (lambda hidden: (hidden, hidden), "must select one array"),
    ],
)
def test_a_selector_that_is_no_part_is_refused(units, message):
    held = interventions.UnitNoise(units=units)
    model = popsim.NetworkModel(GRUNetwork(2, N_UNITS, 2, key=KEY), (held,), dt=DT)
    with pytest.raises(ValueError, match=f"`units` of 'unit noise' .*{message}"):
        popsim.simulate(model, scheduled("unit noise", jnp.array(0.1)), key=KEY)
