"""What tasks share: noise, units on a ring, responses after a go cue, directions and nominal values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim import tasks
from popsim.distributions import Choice, Normal, Uniform
from popsim.tasks.trial_parts import direction_of, nominal_values, ring_activity, with_noise, wrap_angle


@pytest.mark.parametrize("dt", [0.005, 0.02])
def test_what_noise_hides_does_not_depend_on_the_time_step(dt):
    """The mean over half a second has sigma / 0.5^0.5; nothing is seen while it is not shown."""
    n_steps = round(1 / dt)
    shown = jnp.arange(n_steps) < n_steps // 2

    def seen(key):
        return with_noise(jnp.full((n_steps, 2), 0.3), jnp.asarray(0.1), shown, dt=dt, key=key)

    stimulus = np.asarray(jax.vmap(seen)(jax.random.split(jax.random.key(1), 2000)))
    assert np.all(stimulus[:, n_steps // 2 :] == 0)
    means = stimulus[:, : n_steps // 2].mean(axis=1)
    np.testing.assert_allclose(means.mean(0), 0.3, atol=5 * 0.1 / 0.5**0.5 / 2000**0.5)
    np.testing.assert_allclose(means.std(0), 0.1 / 0.5**0.5, rtol=5 / 4000**0.5)
    np.testing.assert_allclose(np.corrcoef(means.T)[0, 1], 0, atol=5 / 2000**0.5)


def test_units_on_a_ring_prefer_their_own_direction():
    activity = np.asarray(ring_activity(jnp.arange(8), 8))
    np.testing.assert_allclose(np.diag(activity), 1, rtol=1e-6)
    np.testing.assert_allclose(np.diag(np.roll(activity, 4, axis=1)), 0, atol=1e-6)
    np.testing.assert_allclose(activity, np.roll(activity, (1, 1), axis=(0, 1)), atol=1e-6)
    np.testing.assert_allclose(np.diag(np.roll(activity, 1, axis=1)), np.exp(-2), rtol=1e-4)


def test_silence_until_the_go_cue_a_grace_and_then_the_response():
    response = tasks.GoResponse(grace=0.06, silence_counts=0.3)
    timeline = popsim.Timeline(0.02, 20, events={"go cue": jnp.asarray(8)})
    target = response.target(timeline, jnp.array([0.0, 1.0]))
    np.testing.assert_array_equal(target.values[:8], 0)
    np.testing.assert_array_equal(target.values[8:], np.tile([0, 1], (12, 1)))
    np.testing.assert_allclose(target.counts, [0.3] * 8 + [0] * 3 + [1] * 9, rtol=1e-6)
    np.testing.assert_array_equal(response.fixation(timeline)[:, 0], [1] * 8 + [0] * 12)
    assert not response.is_catch(timeline)


def test_directions_are_wrapped_at_the_left():
    angles = jnp.array([-7.0, -np.pi, -np.pi + 1e-6, -3.0, 0.0, 3.0, np.pi, np.pi + 1e-6, 4.0, 2 * np.pi])
    left = np.pi
    expected = [-7 + 2 * left, left, left, -3.0, 0.0, 3.0, left, left, 4 - 2 * left, 0.0]
    np.testing.assert_allclose(wrap_angle(angles), expected, atol=2e-6)
    np.testing.assert_array_equal(wrap_angle(angles[3:6]), angles[3:6])
    assert float(direction_of(jnp.array([-1.0, -0.0]))) == pytest.approx(np.pi)


def test_validation_has_all_values_or_five_of_a_distribution():
    np.testing.assert_array_equal(nominal_values(Choice([3.0, 1.0])), [3.0, 1.0])
    np.testing.assert_allclose(nominal_values(Uniform(-0.4, 0.4)), np.linspace(-0.4, 0.4, 5), atol=1e-7)
    assert len(np.unique(nominal_values(Normal(0.0, 0.1)))) == 5
