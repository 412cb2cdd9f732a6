"""Every term against numpy, on states and targets drawn at random."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import reach, relay_loop

import popsim
from popsim import losses

N_STEPS = 7


@pytest.fixture
def run(float64, getkey):
    """A trial and states whose every number is random: the hand differs from the cursor."""

    def at_random(tree):
        return jax.tree.map(lambda leaf: jax.random.normal(getkey(), leaf.shape), tree)

    model = relay_loop({"vision": popsim.SensoryChannel(popsim.vision)})
    trial = reach(N_STEPS)
    states = at_random(popsim.simulate(model, trial, key=getkey()))
    return states, dataclasses.replace(trial, targets=at_random(trial.targets)), model


def as_numpy(states, trial):
    """Errors of position and velocity of the cursor."""
    return tuple(
        np.asarray(getattr(states.cursor, name)) - np.asarray(getattr(trial.targets, name))
        for name in ("position", "velocity")
    )


LATE = (np.arange(1, N_STEPS + 1) / N_STEPS) ** 6


@pytest.mark.parametrize(
    "term, weights",
    [
        (losses.PositionError(), LATE),
        (losses.PositionError(profile=losses.PowerProfile(0.0)), np.ones(N_STEPS)),
        (losses.PositionError(profile=losses.PowerProfile(1.0)), np.arange(1, N_STEPS + 1) / N_STEPS),
        (losses.PositionError(profile=losses.FinalStep()), np.eye(N_STEPS)[-1]),
    ],
    ids=["late", "all alike", "linear", "last step"],
)
def test_position_error_is_the_weighted_squared_distance_of_the_cursor(run, term, weights):
    position, _ = as_numpy(*run[:2])
    np.testing.assert_allclose(term(*run), np.sum(weights * np.sum(position**2, axis=1)), rtol=1e-12)


def test_final_velocity_is_the_squared_velocity_error_of_the_last_step(run):
    _, velocity = as_numpy(*run[:2])
    np.testing.assert_allclose(losses.FinalVelocity()(*run), np.sum(velocity[-1] ** 2), rtol=1e-12)


def test_effort_is_the_squared_output_of_the_network_before_motor_noise(run):
    output = np.asarray(run[0].network.output)
    np.testing.assert_allclose(losses.Effort()(*run), np.sum(output**2), rtol=1e-12)


def test_hidden_activity_is_the_squared_activity_of_the_units(run):
    hidden = np.asarray(run[0].network.hidden)
    np.testing.assert_allclose(losses.HiddenActivity()(*run), np.sum(hidden**2), rtol=1e-12)


def test_terms_have_names_of_their_own():
    loss = (
        losses.PositionError()
        + losses.FinalVelocity()
        + losses.Effort()
        + losses.HiddenActivity()
        + losses.PositionError(profile=losses.FinalStep(), name="end point")
    )
    assert len(loss.weights) == 5


@pytest.mark.parametrize("exponent", [-1.0, float("nan")])
def test_a_profile_that_does_not_rise_is_refused(exponent):
    with pytest.raises(ValueError, match="`exponent`"):
        losses.PowerProfile(exponent)


def test_the_usual_reach_loss_weighs_its_terms_in_si_units(run):
    values = popsim.tasks.reach_loss()(*run)
    position, velocity = as_numpy(*run[:2])
    network = jax.tree.map(np.asarray, run[0].network)
    expected = {
        "position error": np.sum(LATE * np.sum(position**2, axis=1)),
        "final velocity": 0.1 * np.sum(velocity[-1] ** 2),
        "effort": 1e-6 * np.sum(network.output**2),
        "hidden activity": 1e-8 * np.sum(network.hidden**2),
    }
    assert values.terms.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(values.terms[name], value, rtol=1e-12)
    assert jnp.isclose(values.total, sum(expected.values()))
