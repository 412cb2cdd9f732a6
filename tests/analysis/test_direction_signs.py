"""The sign of directions follows from the data, not from the order of units or trials, nor from rounding."""

import numpy as np
import pytest

from popsim.analysis import dynamics
from popsim.analysis.neural_activity import (
    demixed_components,
    maximum_entropy_activity,
    principal_components,
    rotations,
)
from popsim.analysis.similarity import member_map, principal_patterns
from popsim.analysis.trainables import final_modes

N_UNITS, N_TRIALS = 7, 6
DIRECTION = np.repeat(np.arange(3.0), 2)


def latent_activity(seed=0):
    """Three skewed courses that depend on direction and time [trial, time, latent]."""
    random = np.random.default_rng(seed)
    courses = np.cumsum(random.normal(size=(3, 9, 4)), axis=1)
    return (courses * [4.0, 2.0, 1.0, 0.5])[DIRECTION.astype(int)] + 0.05 * random.normal(
        size=(N_TRIALS, 9, 4)
    )


def networks(latent):
    """Really different networks of the same activity: latents in other orthonormal patterns of the units."""
    random = np.random.default_rng(1)
    patterns = [np.linalg.qr(random.normal(size=(N_UNITS, 4)))[0].T for _ in range(6)]
    return np.stack([latent @ pattern for pattern in patterns])


def projected(activity, trials):
    """By analysis, what members project on their directions [member, trial, ...]."""
    labels = {"direction": DIRECTION[trials]}
    demixed = demixed_components(activity, labels, n_components=2)
    turning = rotations(activity, dt=0.01, n_components=4)
    return {
        "principal": principal_components(activity, n_components=3).projections,
        "rotations": turning.projections,
        "patterns": np.stack(
            [principal_patterns(own)[:, :2].reshape(*own.shape[:2], 2) for own in np.asarray(activity)]
        ),
        **{f"demixed {name}": part.projections for name, part in demixed.items()},
    }


def in_order(projections, trials):
    """The projections with trials in their first order; those of demixed components are by level."""
    return {
        name: values if name.startswith("demixed") else values[:, np.argsort(trials)]
        for name, values in projections.items()
    }


@pytest.mark.parametrize("seed, noise, scale", [(0, 0.0, 1.0), (1, 1e-6, -1.0)])
def test_members_of_the_same_activity_have_the_same_projections(seed, noise, scale):
    random, latent = np.random.default_rng(seed), latent_activity(seed)
    expected = projected(networks(latent), np.arange(N_TRIALS))
    trials = random.permutation(N_TRIALS)
    activity = networks(latent)[:, trials][..., random.permutation(N_UNITS)]
    activity = activity + noise * random.normal(size=activity.shape)
    again = in_order(projected(scale * activity, trials), trials)
    for name, values in expected.items():
        size = np.abs(values).max()
        np.testing.assert_allclose(values, np.broadcast_to(values[:1], values.shape), atol=1e-4 * size)
        np.testing.assert_allclose(again[name], values, atol=max(1e-9, 1e4 * noise) * size, err_msg=name)


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
    drawn = [
        maximum_entropy_activity(own) for own in (latent_activity()[None], latent_activity()[None][..., ::-1])
    ]
    np.testing.assert_allclose(
        drawn[0].directions[2][0, :, :2], drawn[1].directions[2][0, ::-1, :2], atol=1e-6
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
