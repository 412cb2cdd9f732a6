"""Eigenvalues of rotations, and which block of the weights of gated units they are of."""

import numpy as np
import pytest

from popsim.analysis.trainables import recurrent_eigenvalues, spectral_radius


def rotation(angle, radius):
    return radius * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def test_rotations_have_their_angles_and_radii():
    weights = np.stack([[rotation(0.3, 0.9), rotation(1.2, 1.5)], [rotation(2.0, 0.5), rotation(0.0, 2.0)]])
    found = recurrent_eigenvalues(weights)
    assert found.shape == (2, 2, 2) and found.dtype == np.complex128
    np.testing.assert_allclose(np.abs(np.angle(found[0])), [[0.3, 0.3], [1.2, 1.2]])
    np.testing.assert_allclose(spectral_radius(weights), [[0.9, 1.5], [0.5, 2.0]])


def test_the_largest_come_first_and_of_gated_units_the_candidates_count():
    candidate = np.diag([0.1, -3.0, 2.0])
    gates = np.full((6, 3), 100.0)
    weights = np.concatenate([gates, candidate])[None, None]
    np.testing.assert_allclose(recurrent_eigenvalues(weights)[0, 0], [-3.0, 2.0, 0.1])


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match="`weights` must be square"):
        recurrent_eigenvalues(np.zeros((1, 1, 4, 3)))
