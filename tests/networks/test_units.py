"""Units that are held, silenced and driven, with a body and without."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_intervention import MODELS, N_UNITS
from relay import DT, reach

import popsim
from popsim import networks
from popsim.interventions import (
    ClampUnits,
    ClampUnitsParameters,
    InterventionSchedule,
    SilenceUnits,
    StimulateUnits,
    UnitInput,
)

ALL = (ClampUnits(), SilenceUnits(), StimulateUnits(), UnitInput())
MASK = jnp.array([1.0, 0.0, 0.0, 1.0])
VALUES = jnp.array([0.5, 9.0, 9.0, -0.3])
HELD = ClampUnitsParameters(MASK, VALUES)
IDLE = {"clamp units": HELD, "silence units": MASK, "stimulate units": VALUES, "unit input": VALUES}
LATE = np.arange(12) >= 5


@functools.cache
def model_of(kind):
    return popsim.without_noise(MODELS[kind][0](ALL))


def run(kind, name, parameters, active=LATE):
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
    "name, parameters, values", [("clamp units", HELD, VALUES), ("silence units", MASK, 0 * VALUES)]
)
def test_chosen_units_stay_where_they_are_held(kind, name, parameters, values):
    """And the others hear of it one step later."""
    _, changed, free = run(kind, name, parameters)
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
    model, changed, free = run(kind, "unit input", current)
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
    _, changed, _ = run("loop", "unit input", jnp.ones(N_UNITS), np.arange(12) == 3)
    np.testing.assert_array_equal(np.any(changed.unit_input, axis=1), np.arange(12) == 3)


@pytest.mark.parametrize("held", ALL, ids=[own.name for own in ALL])
def test_parameters_of_another_shape_are_refused_by_name(held, as_users_run):
    bad = ClampUnitsParameters(MASK, jnp.ones(3)) if held.name == "clamp units" else jnp.ones(3)
    with pytest.raises(ValueError, match=rf"'{held.name}.*' must have shape \(4,\), got \(3,\)"):
        run("network model", held.name, bad)
