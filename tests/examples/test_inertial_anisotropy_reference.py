"""The mobility of the two-segment limb against a limb of point masses, and against known values."""

import numpy as np
import pytest

reference = pytest.importorskip("references.inertial_anisotropy", reason="examples/ is not beside the tests")


def energy(limb, angles, velocities):
    """The kinetic energy of two rods, from the velocities of their centres of mass."""
    absolute, turning = np.cumsum(angles), np.cumsum(velocities)
    normal = np.stack([-np.sin(absolute), np.cos(absolute)], axis=1)
    to_first = limb["c"][0] * turning[0] * normal[0]
    to_second = limb["l"][0] * turning[0] * normal[0] + limb["c"][1] * turning[1] * normal[1]
    moving = limb["m"][0] * to_first @ to_first + limb["m"][1] * to_second @ to_second
    return (moving + limb["i"] @ turning**2) / 2


@pytest.mark.parametrize("name", reference.LIMBS)
def test_the_mobility_is_that_of_two_moving_rods(name):
    limb = {key: np.array(values) for key, values in reference.LIMBS[name].items()}
    for shoulder, elbow in ((0.3, 1.0), (0.8, 1.6), (1.2, 2.4)):
        axes = np.eye(2)
        inertia = [[energy(limb, (shoulder, elbow), a + b) for a in axes] for b in axes]
        alone = [energy(limb, (shoulder, elbow), a) for a in axes]
        inertia = np.array(inertia) - np.add.outer(alone, alone)
        ends = [limb["l"][0], limb["l"][1]]
        absolute = np.cumsum([shoulder, elbow])
        tip = np.stack([-np.sin(absolute), np.cos(absolute)]) * ends
        jacobian = np.stack([tip.sum(axis=1), tip[:, 1]], axis=1)
        wanted = jacobian @ np.linalg.inv(inertia) @ jacobian.T
        np.testing.assert_allclose(reference.mobility(limb, shoulder, elbow), wanted, rtol=1e-12)


@pytest.mark.parametrize(("elbow", "angle"), [(90, 90.0), (75, 91.2), (110, 88.4)])
def test_the_main_axis_lies_across_the_forearm(elbow, angle):
    matrix = reference.mobility(reference.LIMBS["Li & Todorov"], np.deg2rad(45.0), np.deg2rad(elbow))
    between = np.rad2deg(reference.main_axis(matrix)) - (45 + elbow)
    assert between % 180 == pytest.approx(angle, abs=0.05)
