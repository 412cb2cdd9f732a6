"""What is said to explain the activity of units."""

import jax
import numpy as np

import path_integration
import popsim


def test_the_share_explained_is_that_between_bins():
    rng = np.random.default_rng(0)
    bins = rng.integers(0, 4, 5000)
    activity = np.stack(
        [bins.astype(float), rng.standard_normal(5000), bins + 2 * rng.standard_normal(5000)], 1
    )
    shares = path_integration.share_explained(activity, bins)
    np.testing.assert_allclose(shares, [1, 0, 1.25 / 5.25], atol=0.02)


def test_units_that_follow_place_plane_or_velocity_are_told_apart():
    task = path_integration.build_task()
    trials = popsim.sample_trials(task, 200, batch=0, key=jax.random.key(0))
    positions = np.asarray(trials.targets.values)
    velocity = np.diff(positions, axis=1, prepend=positions[:, :1])
    units = np.stack([positions[..., 0], np.abs(positions[..., 1]) > 0.5, velocity[..., 0]], axis=-1)
    tuning = path_integration.tune(units[:, task.n_pulse :], trials)
    assert np.all(tuning.position[:2] > 0.9) and tuning.position[2] < 0.3
    np.testing.assert_allclose(tuning.plane[0], 1, atol=1e-6)
    assert tuning.plane[1] < 0.1 and tuning.velocity[2] > 0.7 and tuning.velocity[1] < 0.2
    assert tuning.maps.shape == (3, 11, 11) and tuning.maps[0, 5, 0] < -0.9
