"""The programme of least activation against its optimality conditions, and its arm against differences."""

import numpy as np
import pytest

from references import muscle_directions as muscles

DIRECTIONS = np.arange(24) * np.pi / 12
TORQUES = 2.0 * np.stack([np.cos(DIRECTIONS), np.sin(DIRECTIONS)], axis=1)
ARMS = {
    "strong": muscles.Arm((np.pi / 4, np.pi / 2), 3.0),
    "passive forces": muscles.Arm((2.7, 0.9)),
    "four muscles": muscles.Arm((np.pi / 4, np.pi / 2), 1e-3),
}


@pytest.mark.parametrize("name", ARMS)
def test_least_activation_meets_the_conditions_of_an_optimum(name):
    """a = G'y, but `lowest` where that is lower: then 2a = 2G'y + multipliers of the bound, none negative."""
    arm = ARMS[name]
    G, passive = arm.torque_per_activation, arm.passive_torque
    assert (np.abs(passive).max() > 0) == (name == "passive forces")
    for torque, a in zip(TORQUES, muscles.least_activation(arm, TORQUES), strict=True):
        np.testing.assert_allclose(G @ a + passive, torque, rtol=0, atol=1e-10)
        free = a > muscles.LOWEST + 1e-9
        y = np.linalg.lstsq(G[:, free].T, a[free], rcond=None)[0]
        np.testing.assert_allclose(a, np.maximum(G.T @ y, muscles.LOWEST), rtol=0, atol=1e-9)


def test_moment_arms_are_differences_of_lengths_and_those_of_a_bent_elbow_are_known():
    posture, step = np.array([0.3, 1.2]), 1e-6
    slopes = [
        (muscles.lengths(posture + shift) - muscles.lengths(posture - shift)) / (2 * step)
        for shift in step * np.eye(2)
    ]
    np.testing.assert_allclose(muscles.moment_arms(posture), np.stack(slopes, axis=1), rtol=0, atol=1e-9)
    # By hand, at an elbow of 90 degrees: 0.025 - 0.0044 pi / 2 and 0.03 - 0.0064 pi / 2 of the triceps.
    bent = muscles.moment_arms((np.pi / 4, np.pi / 2))
    np.testing.assert_allclose(bent[[3, 5], 1], [0.0180885, 0.0199469], atol=1e-7)


def test_preferred_directions_are_those_of_cosines_and_differences_go_around():
    preferred = np.array([-3.0, 0.5])
    activations = 1 + np.cos(DIRECTIONS[:, None] - preferred)
    found = muscles.preferred_directions(activations, DIRECTIONS)
    np.testing.assert_allclose(found, preferred, atol=1e-12)
    np.testing.assert_allclose(
        muscles.angles_between(preferred, np.array([3.0, -0.5])), [16.2254, 57.2958], atol=1e-4
    )
