"""Forces in channels that are a known share of those of a field, and activity before a cue."""

import jax.numpy as jnp
import numpy as np
from sample_trials import trials_with_event

import popsim
from popsim.analysis.behaviour import (
    adaptation_index,
    channel_force,
    ideal_channel_force,
    preparatory_activity,
)

STRENGTH, DT = 5.0, 0.01  # N s/m, s
DIRECTIONS = np.array([0.0, 1.0, -2.5])
UNIT = np.stack([np.cos(DIRECTIONS), np.sin(DIRECTIONS)], axis=1)
LEFT = np.stack([-UNIT[:, 1], UNIT[:, 0]], axis=1)


def channel_trial_hands(n_steps=50):
    """Bell-shaped speeds along the channels, and the start at rest."""
    s = np.arange(1, n_steps + 1) / n_steps
    speed = 30 * 0.1 / (n_steps * DT) * s**2 * (1 - s) ** 2
    velocity = speed[:, None] * UNIT[:, None]
    hand = popsim.HandState(jnp.asarray(DT * np.cumsum(velocity, axis=1)), jnp.asarray(velocity))
    return hand, popsim.HandState(jnp.zeros((3, 2)), jnp.zeros((3, 2))), speed


def test_the_ideal_force_is_the_speed_along_the_channel_times_b():
    hand, init, speed = channel_trial_hands()
    ideal = ideal_channel_force(hand, init, 0.1 * UNIT, popsim.interventions.CurlField(), STRENGTH)
    at_start_of_steps = np.append(0.0, speed[:-1])
    np.testing.assert_allclose(ideal, [STRENGTH * at_start_of_steps] * 3, rtol=1e-5)
    viscous = [[0.0, STRENGTH], [-STRENGTH, 0.0]]
    same = ideal_channel_force(hand, init, 0.1 * UNIT, popsim.interventions.ViscousField(), viscous)
    np.testing.assert_allclose(same, ideal, rtol=1e-6)
    assert ideal.dtype == np.float64 and jnp.zeros(1).dtype == jnp.float32


def test_a_known_share_of_the_ideal_force_is_found_per_member_and_trial():
    hand, init, _ = channel_trial_hands()
    ideal = ideal_channel_force(hand, init, 0.1 * UNIT, popsim.interventions.CurlField(), STRENGTH)
    shares = np.array([[0.0, 0.5, 1.0], [0.8, -0.2, 0.3]])
    pushed = shares[..., None] * ideal + 0.7  # and a steady push to the left
    walls = -pushed[..., None] * LEFT[:, None] + 3.0 * UNIT[:, None]  # what is along the channel is nothing
    measured = channel_force(walls, np.zeros((3, 2)), 0.1 * UNIT)
    np.testing.assert_allclose(measured, pushed, atol=1e-12)
    ideals = np.broadcast_to(ideal, measured.shape)
    np.testing.assert_allclose(adaptation_index(measured, ideals), shares, atol=1e-12)
    some = measured.copy()
    some[..., 30:] = np.nan
    np.testing.assert_allclose(adaptation_index(some, ideals), shares, atol=1e-12)
    assert np.isnan(adaptation_index(measured, 0 * ideals)).all()


def test_preparatory_activity_ends_before_the_cue():
    trials = trials_with_event([2, 5, 1, popsim.NEVER])
    activity = np.arange(6.0)[:, None] + 10 * np.arange(2.0)
    hidden = np.broadcast_to(activity, (3, 4, 6, 2))
    found = preparatory_activity(hidden, trials, "go cue", duration=0.2)
    nan = [np.nan, np.nan]
    np.testing.assert_allclose(found, [[[0.5, 10.5], [3.5, 13.5], nan, nan]] * 3)
