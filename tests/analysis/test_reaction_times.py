"""Reaction times and choices of trials made by hand."""

import jax.numpy as jnp
import numpy as np
from sample_trials import trials_with_event

import popsim
from popsim.analysis import behaviour
from popsim.interaction import Interaction

DT = 0.1
N_STEPS = 6


def interaction_of(actions, n_active):
    """The interaction of trials whose last active step is that before `n_active`."""
    actions = jnp.asarray(actions)
    active = jnp.arange(N_STEPS) < jnp.asarray(n_active)[..., None]
    zero = jnp.zeros(active.shape)
    return Interaction({}, actions, zero, zero, None, zero, active, None, None)


def test_the_response_is_the_last_active_action():
    actions = np.full((2, 5, N_STEPS), 2)  # what is done after the end counts nothing
    actions[:, 0, :4] = [0, 0, 0, 1]
    actions[:, 1, :6] = 0
    actions[:, 2, :2] = [0, 2]
    actions[:, 3, :6] = [0, 0, 0, 0, 0, 1]
    actions[:, 4, :4] = [0, 0, 0, 1]
    actions[1, 0, 3] = 2
    interaction = interaction_of(actions, [[4, 6, 2, 6, 4]] * 2)
    trials = trials_with_event([2, 2, 3, 5, popsim.NEVER], name="on")  # that of the last trial never comes
    found = behaviour.environment_responses(interaction, trials, "on")
    np.testing.assert_allclose(found.time, [[0.2, np.nan, -0.1, 0.1, np.nan]] * 2, atol=1e-12)
    np.testing.assert_array_equal(found.choice, [[1, np.nan, 2, 1, np.nan], [2, np.nan, 2, 1, np.nan]])
    last = behaviour.environment_responses(interaction, trials, "on", wait_action=1)
    np.testing.assert_array_equal(last.choice[0], [np.nan, 0, 2, np.nan, np.nan])


def test_the_response_is_the_first_output_at_the_threshold_after_the_event():
    outputs = np.zeros((5, N_STEPS, 2))
    outputs[0, :, 1] = [2, 0, 0, 0, 1, 3]  # what was before the event counts nothing
    outputs[1, 2:, 0], outputs[1, 2:, 1] = 1.5, 2.5  # at once, both
    outputs[2, 3, 0], outputs[2, 4, 1] = 1.0, 9.0
    outputs[3] = 0.99
    outputs[4] = 2.0  # the event never comes
    trials = trials_with_event([1, 2, 2, 0, popsim.NEVER], name="on")
    found = behaviour.threshold_responses(
        np.stack([outputs, outputs[..., ::-1]]), trials, "on", threshold=1.0
    )
    np.testing.assert_allclose(found.time, [[0.4, 0.1, 0.2, np.nan, np.nan]] * 2, atol=1e-12)
    np.testing.assert_array_equal(found.choice[0], [1, 1, 0, np.nan, np.nan])
    np.testing.assert_array_equal(found.choice[1], [0, 0, 1, np.nan, np.nan])


def test_trials_without_a_response_count_nowhere():
    condition = np.array([1.0, 1.0, 1.0, 0.0, 1.0, 0.0])
    times = np.array([0.2, 0.4, 0.6, 0.3, np.nan, np.nan])
    is_correct = np.array([True, True, False, False, True, False])
    curves = behaviour.chronometric_curves_by_outcome(condition, times, is_correct)
    np.testing.assert_allclose(curves.correct.mean, [np.nan, 0.3])
    np.testing.assert_allclose(curves.correct.standard_error, [np.nan, 0.1])
    np.testing.assert_allclose(curves.error.mean, [0.3, 0.6])
    np.testing.assert_allclose(curves.correct.share_decided, [0.0, 0.5])
    np.testing.assert_allclose(curves.error.share_decided, [0.5, 0.25])
    found = behaviour.reaction_time_quantiles(condition, times, is_correct, probabilities=[0.0, 0.25, 1.0])
    np.testing.assert_allclose(found.correct, [[np.nan] * 3, [0.2, 0.25, 0.4]])
    np.testing.assert_allclose(found.error, [[0.3] * 3, [0.6] * 3])
    np.testing.assert_allclose(found.share_correct, [0.0, 2 / 3])


def test_accuracy_is_by_the_times_of_each_member():
    times = np.array([[0.6, 0.1, 0.2, np.nan, 0.5], [0.1, 0.1, 0.1, 0.1, 0.3], [np.nan] * 5])
    is_correct = np.array([[1, 0, 1, 1, 1], [1, 0, 0, 0, 1], [1] * 5], bool)
    found = behaviour.conditional_accuracy(times, is_correct, n_bins=2)
    np.testing.assert_array_equal(found.n_trials, [[2, 2], [4, 1], [0, 0]])  # equal times are not divided
    np.testing.assert_allclose(found.time, [[0.15, 0.55], [0.1, 0.3], [np.nan, np.nan]])
    np.testing.assert_allclose(found.accuracy, [[0.5, 1], [0.25, 1], [np.nan, np.nan]])
    np.testing.assert_allclose(found.standard_error[:2], [[0.125**0.5, 0], [(0.1875 / 4) ** 0.5, 0]])
