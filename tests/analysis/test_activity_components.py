"""Normalization, principal components and dimensions of planted activity."""

import numpy as np
import pytest

from popsim.analysis.neural_activity import (
    n_components_for,
    participation_ratio,
    principal_components,
    soft_normalize,
    subtract_condition_mean,
)

RANDOM = np.random.default_rng(0)
BASIS = np.linalg.qr(RANDOM.normal(size=(5, 5)))[0]


def planted(*deviations: float) -> np.ndarray:
    """One member whose activity has these standard deviations along the first directions of `BASIS`."""
    samples = RANDOM.normal(size=(60, len(deviations)))
    latent = np.linalg.qr(samples - samples.mean(axis=0))[0] * np.sqrt(60) * deviations
    return (latent @ BASIS[: len(deviations)] + 3.0).reshape(1, 6, 10, 5)


def test_planted_components_are_found_with_their_variance():
    activity = np.concatenate([planted(2.0, 1.0), planted(3.0, 0.5)])
    found = principal_components(activity, n_components=2)
    np.testing.assert_allclose(found.variance, [[4, 1], [9, 0.25]])
    np.testing.assert_allclose(found.explained, [[0.8, 0.2], [9 / 9.25, 0.25 / 9.25]])
    np.testing.assert_allclose(np.abs(found.components @ BASIS[:2].T), [np.eye(2)] * 2, atol=1e-9)
    np.testing.assert_allclose(found.mean, 3.0)
    back = found.projections @ found.components[:, None] + 3.0
    np.testing.assert_allclose(back, activity)
    assert (np.sum(found.projections**3, axis=(1, 2)) > 0).all()


def test_another_epoch_is_projected_on_the_same_components():
    activity = planted(2.0, 1.0)
    found = principal_components(activity)
    np.testing.assert_allclose(found.project(activity[:, :2, 3:]), found.projections[:, :2, 3:], atol=1e-12)


def test_dimensions_of_planted_variances():
    activity = np.concatenate([planted(2.0, 1.0), planted(1.0, 1.0)])
    np.testing.assert_allclose(participation_ratio(activity), [25 / 17, 2.0])
    assert n_components_for(activity, 0.8).tolist() == [1, 2]
    assert n_components_for(activity, 0.81).tolist() == [2, 2]


def test_soft_normalization_divides_by_the_range_and_the_constant():
    activity = np.array([[0.0, 0.0], [10.0, 0.0], [5.0, 1.0]]).reshape(1, 1, 3, 2)
    np.testing.assert_allclose(np.ptp(soft_normalize(activity, constant=5.0), axis=2)[0, 0], [10 / 15, 1 / 6])
    np.testing.assert_allclose(np.ptp(soft_normalize(activity, constant=0.0), axis=2)[0, 0], 1.0)


def test_what_conditions_share_is_subtracted():
    shared, own = RANDOM.normal(size=(2, 1, 4, 3)), RANDOM.normal(size=(2, 6, 1, 3))
    left = subtract_condition_mean(shared + own)
    np.testing.assert_allclose(left, np.broadcast_to(own - own.mean(axis=1, keepdims=True), left.shape))


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda: principal_components(np.ones((2, 3, 4))), "activity"),
        (lambda: principal_components(np.ones((1, 2, 3, 4)), n_components=5), "n_components"),
        (lambda: soft_normalize(np.ones((1, 2, 3, 4)), constant=0.0), "constant"),
        (lambda: n_components_for(np.ones((1, 2, 3, 4)), 0.9), "activity"),
        (lambda: n_components_for(np.ones((1, 2, 3, 4)), 1.0), "fraction"),
        (lambda: subtract_condition_mean(np.ones((1, 1, 3, 4))), "activity"),
    ],
)
def test_what_does_not_fit_is_refused(as_users_run, function, name):
    with pytest.raises(ValueError, match=f"`{name}`"):
        function()
