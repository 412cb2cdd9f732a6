"""The sign of directions follows from the data, not from the order of units or points, nor from rounding."""

import numpy as np

from popsim.analysis import dynamics
from popsim.analysis.neural_activity import principal_components
from popsim.analysis.similarity import member_map
from popsim.analysis.trainables import final_modes


def test_equal_weights_are_no_tie():
    """Two units of equal weight and opposite sign: the larger is decided by rounding."""
    course = np.array([0.0, 1.0, 5.0, 1.0])[None, None, :, None]
    for rounding in (0.0, 1e-12, -1e-12):
        first = principal_components(course * [1.0 + rounding, -1.0], n_components=1)
        np.testing.assert_allclose(first.components[0, 0], [0.5**0.5, -(0.5**0.5)], atol=1e-9)


def test_directions_without_data_follow_their_units():
    random = np.random.default_rng(0)
    weights, order = random.normal(size=(1, 2, 6, 6)), random.permutation(6)
    relabelled = weights[:, :, order][..., order]
    here, after = final_modes(weights, 3), final_modes(relabelled, 3)
    np.testing.assert_allclose(after.left, here.left[:, order], atol=1e-9)
    np.testing.assert_allclose(after.right, here.right[:, order], atol=1e-9)
    negated = final_modes(-weights, 3)
    np.testing.assert_allclose(np.abs(negated.left), np.abs(here.left), atol=1e-9)
    of_points, of_relabelled = dynamics.modes(weights[0]), dynamics.modes(relabelled[0])
    matching = np.abs(of_points.eigenvalue[..., None] - of_relabelled.eigenvalue[:, None]).argmin(axis=-1)
    for member, places in enumerate(matching):
        np.testing.assert_allclose(
            of_relabelled.direction[member][:, places], of_points.direction[member][order], atol=1e-9
        )


def test_maps_and_slow_directions_follow_their_points():
    random = np.random.default_rng(0)
    places, order = random.exponential(size=(7, 3)) * [4.0, 2.0, 1.0], random.permutation(7)
    distances = np.linalg.norm(places[:, None] - places, axis=-1)
    expected = member_map(distances).positions[order]
    np.testing.assert_allclose(member_map(distances[np.ix_(order, order)]).positions, expected, atol=1e-9)
    line = np.sort(random.exponential(size=8))[:, None] * [0.6, -0.8]
    jacobian = np.tile(
        np.array([[0.36, -0.48], [-0.48, 0.64]]) + 0.3 * np.array([[0.64, 0.48], [0.48, 0.36]]), (8, 1, 1)
    )
    slow = dynamics.slow_directions(line, jacobian, dt=0.01, least_time_constant=0.3)
    np.testing.assert_allclose(slow.direction, np.tile([0.6, -0.8], (8, 1)), atol=1e-9)
    swapped = dynamics.slow_directions(
        line[:, ::-1], jacobian[:, ::-1, ::-1], dt=0.01, least_time_constant=0.3
    )
    np.testing.assert_allclose(swapped.direction, np.tile([-0.8, 0.6], (8, 1)), atol=1e-9)
