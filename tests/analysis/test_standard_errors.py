"""Errors of values whose information is known."""

import numpy as np

from popsim.analysis._arrays import standard_errors

SLOPES = np.random.default_rng(0).normal(size=(30, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0.9], [0, 0, 1]])


def test_they_are_those_of_the_inverse_information():
    expected = np.sqrt(np.diag(np.linalg.inv(SLOPES.T @ SLOPES)))
    np.testing.assert_allclose(standard_errors(SLOPES), expected)
    units = np.array([1e-60, 1.0, 1e40])
    np.testing.assert_allclose(standard_errors(SLOPES * units), expected / units)


def test_values_that_cannot_be_told_apart_have_infinite_errors():
    alike, none = SLOPES[:, [0, 1, 1]] * [1, 1, 1e-8], SLOPES * [1, 0, 1]
    for slopes in (alike, none, SLOPES[:2]):
        assert np.isinf(standard_errors(slopes)).all()
