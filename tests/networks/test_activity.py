"""What asks for the activity of units gets it, whatever the hidden state; units that are held and driven."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_intervention import MODELS
from relay import DT, reach
from short_form import every_nth

import popsim
from popsim import interventions, losses, networks
from popsim.interventions import (
    ClampUnits,
    ClampUnitsParameters,
    InterventionSchedule,
    SilenceUnits,
    StimulateUnits,
    UnitInput,
)
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
    speaks = popsim.NetworkModel(LSTMNetwork(2, N_UNITS, 2, key=KEY), dt=DT)
    for own, is_defined in ((silent_model(), False), (speaks, True)):  # figures leave out what is not
        ensemble = jax.tree.map(lambda leaf: leaf[None] if eqx.is_array(leaf) else leaf, own)
        recorded = jax.tree.map(lambda leaf: leaf[None, None], states)
        assert defines_activity(ensemble, recorded) == is_defined


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


def area(hidden):
    return hidden[0][..., 1:3]


def test_a_selector_of_an_area_has_the_same_axes_in_losses_and_interventions():
    held = (interventions.StimulateUnits(units=area), interventions.UnitNoise(units=area))
    model = popsim.NetworkModel(LSTMNetwork(2, N_UNITS, 2, key=KEY), held, dt=DT)
    trial = scheduled("stimulate units", jnp.ones(2))
    states = jax.jit(lambda: popsim.simulate(model, trial, key=KEY))()
    free = popsim.simulate(model, reach(N_STEPS), key=KEY)
    first, without = (jax.tree.map(lambda leaf: leaf[0], own.network.hidden) for own in (states, free))
    np.testing.assert_allclose(first[0], without[0] + jnp.array([0.0, 1, 1, 0]), rtol=1e-6)
    np.testing.assert_allclose(first[1], without[1], rtol=1e-6)
    cost = losses.HiddenActivity(units=area)(states, trial, model)
    np.testing.assert_allclose(cost, np.sum(np.asarray(area(states.network.hidden)) ** 2), rtol=1e-5)


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


OF_UNITS = (ClampUnits(), SilenceUnits(), StimulateUnits(), UnitInput())
MASK = jnp.array([1.0, 0.0, 0.0, 1.0])
VALUES = jnp.array([0.5, 9.0, 9.0, -0.3])
CLAMPED = ClampUnitsParameters(MASK, VALUES)
IDLE = {"clamp units": CLAMPED, "silence units": MASK, "stimulate units": VALUES, "unit input": VALUES}
LATE = np.arange(12) >= 5


@functools.cache
def model_of(kind):
    return popsim.without_noise(MODELS[kind][0](OF_UNITS))


def units_run(kind, name, parameters, active=LATE):
    """A run of a model that holds all, and the same without the intervention: one program for all tests."""
    model = model_of(kind)

    def simulated(acting):
        given = IDLE | {name: parameters}
        schedules = {
            held: InterventionSchedule(values, jnp.asarray(active & (held == acting)))
            for held, values in given.items()
        }
        return popsim.simulate(model, reach(interventions=schedules), key=jax.random.key(0))

    return model, simulated(name), simulated(None)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(
    "name, parameters, values", [("clamp units", CLAMPED, VALUES), ("silence units", MASK, 0 * VALUES)]
)
def test_chosen_units_stay_where_they_are_held(kind, name, parameters, values):
    """And the others hear of it one step later."""
    _, changed, free = units_run(kind, name, parameters)
    chosen, others = [0, 3], [1, 2]
    hidden = np.asarray(changed.network.hidden)
    np.testing.assert_array_equal(hidden[5:, chosen], np.tile(values[jnp.array(chosen)], (7, 1)))
    np.testing.assert_array_equal(hidden[:5], free.network.hidden[:5])
    np.testing.assert_array_equal(hidden[5, others], free.network.hidden[5, others])
    assert np.all(hidden[6:, others] != free.network.hidden[6:, others])


@pytest.mark.parametrize("kind", MODELS)
def test_a_current_enters_before_the_nonlinearity(kind):
    """The first step with it, against the equations of the units written by hand."""
    current = jnp.array([3.0, 0.0, -1.0, 0.0])
    model, changed, free = units_run(kind, "unit input", current)
    before, hidden = free.network.hidden[4], changed.network.hidden
    received = model.network_inputs(changed, reach())[5]
    network = model.network
    if isinstance(network, networks.LeakyRNN):
        drive = network.recurrent_weights @ jnp.tanh(before) + network.input_weights @ received + network.bias
        expected = before + DT / network.tau * (drive + current - before)
    else:
        cell = network.cell
        to_reset, to_update, to_new = jnp.split(cell.weight_ih @ received + cell.bias, 3)
        from_reset, from_update, from_new = jnp.split(cell.weight_hh @ before, 3)
        reset, update = jax.nn.sigmoid(to_reset + from_reset), jax.nn.sigmoid(to_update + from_update)
        new = jnp.tanh(to_new + current + reset * (from_new + cell.bias_n))
        expected = new + update * (before - new)
    np.testing.assert_allclose(hidden[5], expected, rtol=1e-5, atol=1e-6)
    assert abs(hidden[5, 0] - free.network.hidden[5, 0]) > 0.1
    np.testing.assert_array_equal(hidden[:5], free.network.hidden[:5])
    np.testing.assert_array_equal(changed.unit_input, LATE[:, None] * np.asarray(current))


def test_a_current_is_over_when_it_is_switched_off(getkey):
    """Not carried on from the last step in which it was on."""
    _, changed, _ = units_run("loop", "unit input", jnp.ones(N_UNITS), np.arange(12) == 3)
    np.testing.assert_array_equal(np.any(changed.unit_input, axis=1), np.arange(12) == 3)


@pytest.mark.parametrize("held", OF_UNITS, ids=[own.name for own in OF_UNITS])
def test_parameters_of_another_shape_are_refused_by_name(held, as_users_run):
    bad = ClampUnitsParameters(MASK, jnp.ones(3)) if held.name == "clamp units" else jnp.ones(3)
    with pytest.raises(ValueError, match=rf"'{held.name}.*' must have shape \(4,\), got \(3,\)"):
        units_run("network model", held.name, bad)
