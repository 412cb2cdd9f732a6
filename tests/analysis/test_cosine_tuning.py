"""Cosine tuning of planted activity."""

import numpy as np
import pytest

from popsim.analysis.neural_activity import cosine_tuning

EIGHT = np.arange(8) * np.pi / 4


def test_planted_preferred_directions_are_found():
    preferred, depth, baseline = np.array([[0.3, -2.0, 3.0], [1.0, 0.5, 2.0], [1.0, 2.0, 3.0]])
    activity = baseline + depth * np.cos(EIGHT[:, None] - preferred)
    found = cosine_tuning(np.stack([activity, 2 * activity]), EIGHT)
    np.testing.assert_allclose(found.preferred, [preferred, preferred], atol=1e-12)
    np.testing.assert_allclose(found.depth, [depth, 2 * depth])
    np.testing.assert_allclose(found.baseline, [baseline, 2 * baseline])
    np.testing.assert_allclose(found.explained, 1.0)


def test_what_is_no_cosine_is_not_explained():
    found = cosine_tuning(np.stack([np.cos(2 * EIGHT), np.zeros(8)], axis=1), EIGHT)
    np.testing.assert_allclose(found.explained[0], 0.0, atol=1e-12)
    assert np.isnan(found.explained[1]) and found.depth[1] < 1e-12


def test_uneven_directions_do_not_shift_the_preferred_one():
    direction = np.array([0.0, 0.2, 0.4, 2.0, 4.0])
    found = cosine_tuning(1 + np.cos(direction - 1.1)[:, None], direction)
    np.testing.assert_allclose(found.preferred, [1.1])


@pytest.mark.parametrize("direction", [EIGHT[:2], EIGHT[:5], np.array([0.0, 1.0, 1.0])])
def test_directions_that_do_not_fit_are_refused(as_users_run, direction):
    with pytest.raises(ValueError, match="`direction`"):
        cosine_tuning(np.ones((3, 4)), direction)
