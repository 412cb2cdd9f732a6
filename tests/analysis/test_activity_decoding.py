"""Decoding of planted conditions and kinematics."""

import jax
import numpy as np
import pytest
from scipy.stats import norm

from popsim.analysis import neural_activity

pytest.importorskip("sklearn")
KEY = jax.random.key(0)
LABELS = np.tile([3, 7], 200)


def separated(*distances: float) -> np.ndarray:
    """Two members, in whose first unit the conditions are this far apart at each time; noise of 1."""
    noise = np.random.default_rng(0).normal(size=(2, LABELS.size, len(distances), 3))
    noise[..., 0] += np.where(LABELS == 7, 0.5, -0.5)[:, None] * distances
    return noise


def test_conditions_are_decoded_as_well_as_can_be():
    distances = [0.0, 2.0, 4.0, 20.0]
    found = neural_activity.decode_condition(separated(*distances), LABELS, key=KEY)
    best = norm.cdf(np.array(distances) / 2)
    assert found.shape == (2, 4) and (found[:, -1] == 1).all()
    np.testing.assert_allclose(found, [best, best], atol=0.06)
    assert (found[:, 2] < 1).all()  # trials that were fitted would be named better than new ones


def test_conditions_without_noise_are_decoded():
    """As at the first times of a trial, where units have not yet heard of the noise, or do not differ."""
    activity = np.zeros((1, LABELS.size, 2, 3))
    activity[:, :, 1, 2] = LABELS
    np.testing.assert_allclose(neural_activity.decode_condition(activity, LABELS, key=KEY), [[0.5, 1.0]])


def test_a_code_that_changes_does_not_generalise_over_times():
    activity = np.random.default_rng(0).normal(size=(1, 60, 4, 3))
    labels = np.tile([0, 1, 2], 20)
    for unit, times in ((0, slice(0, 2)), (1, slice(2, 4))):
        activity[0, :, times, unit] += 20.0 * labels[:, None]
    found = neural_activity.decode_condition_across_times(activity, labels, n_folds=4, key=KEY)[0]
    same = np.kron(np.eye(2, dtype=bool), np.ones((2, 2), bool))
    assert (found[same] == 1).all() and found[~same].max() < 0.6
    np.testing.assert_allclose(
        np.diag(found), neural_activity.decode_condition(activity, labels, n_folds=4, key=KEY)[0]
    )


def test_shuffled_conditions_are_decoded_by_chance():
    activity = separated(20.0)
    found = neural_activity.decode_shuffled_condition(activity, LABELS, n_shuffles=5, key=KEY)
    assert found.shape == (5, 2, 1) and neural_activity.chance_level(LABELS) == 0.5
    np.testing.assert_allclose(found, 0.5, atol=0.12)
    again = neural_activity.decode_shuffled_condition(activity, LABELS, n_shuffles=5, key=KEY)
    assert (found == again).all() and len(np.unique(found)) > 1
    assert neural_activity.chance_level(np.array([1, 1, 1, 2])) == 0.75


def planted_kinematics(lag: int) -> tuple[np.ndarray, np.ndarray]:
    """Velocity that a readout of the activity `lag` steps before gives, and as much noise in the second."""
    random = np.random.default_rng(0)
    activity = random.normal(size=(2, 30, 40, 6)) * [1, 2, 3, 4, 5, 6]
    readout = np.linalg.qr(random.normal(size=(6, 2)))[0] / [[1], [2], [3], [4], [5], [6]]
    noise = np.linalg.norm(readout[:, 1] * [1, 2, 3, 4, 5, 6]) * random.normal(size=(2, 30, 40))
    velocity = np.roll(activity, lag, axis=2) @ readout
    velocity[..., 1] += noise
    return activity, velocity


def test_kinematics_are_decoded_as_well_as_can_be():
    activity, velocity = planted_kinematics(3)
    found = neural_activity.decode_kinematics(activity, velocity, lead=0.03, dt=0.01, key=KEY)
    np.testing.assert_allclose(found.r2, [[1.0, 0.5]] * 2, atol=0.06)
    assert np.isnan(found.predicted[:, :, :3]).all() and np.isfinite(found.predicted[:, :, 3:]).all()
    assert np.isnan(found.r2_over_time[:, :3]).all()
    np.testing.assert_allclose(found.r2_over_time[:, 3:, 0], 1.0, atol=0.01)
    np.testing.assert_allclose(found.r2_over_time[:, 3:, 1].mean(), 0.5, atol=0.06)
    now = neural_activity.decode_kinematics(activity, velocity, dt=0.01, key=KEY).r2
    assert now.max() < 0.05


def smooth(*shape, seed):
    """Time courses [..., time, series] that hardly change from bin to bin, as activity does."""
    random = np.random.default_rng(seed).normal(size=shape)
    return np.cumsum(random, axis=-2) / 10


def test_the_penalty_is_that_of_nested_cross_validation_over_trials():
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV, GroupKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    activity = smooth(1, 4, 30, 8, seed=0)
    velocity = activity[..., :3] @ np.ones((3, 1)) + 3 * smooth(1, 4, 30, 1, seed=1)
    found = neural_activity.decode_kinematics(activity, velocity, dt=0.01, n_folds=4, key=KEY)
    samples, targets, trial = activity.reshape(-1, 8), velocity.ravel(), np.repeat(np.arange(4), 30)
    expected = np.empty(120)
    for held_out in range(4):  # as many folds as trials: nothing depends on how they are drawn
        is_fitted = trial != held_out
        search = GridSearchCV(
            make_pipeline(StandardScaler(), Ridge()),
            {"ridge__alpha": np.logspace(-4, 8, 13)},
            scoring="neg_mean_squared_error",
            cv=GroupKFold(3),
        )
        search.fit(samples[is_fitted], targets[is_fitted], groups=trial[is_fitted])
        expected[~is_fitted] = search.predict(samples[~is_fitted])
    np.testing.assert_allclose(found.predicted[0, ..., 0].ravel(), expected, rtol=1e-6, atol=1e-9)
    both = np.concatenate([velocity, 1e6 * smooth(1, 4, 30, 1, seed=2)], axis=-1)
    beside = neural_activity.decode_kinematics(activity, both, dt=0.01, n_folds=4, key=KEY)
    np.testing.assert_allclose(beside.predicted[..., :1], found.predicted, rtol=1e-9, atol=1e-9)
