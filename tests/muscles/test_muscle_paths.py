"""Muscle paths, whose lengths, velocities and moment arms belong together, and the sets of six muscles."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from short_form import mostly_in_full

from popsim import muscles
from popsim.muscles import RigidTendonHillMuscle, arm26_compliant_path, arm26_path, li_todorov_path
from popsim.muscles.paths import (
    ChainPlacement,
    ConstantMomentArmPath,
    PointMassPlacement,
    PolynomialPath,
    StraightPath,
    generalised_force,
    moment_arms,
)

pytestmark = pytest.mark.slow

ELBOW_FLEXOR = [(1, (0.1, 0.02)), (1, (0.25, 0.03)), (2, (0.04, 0.01))]
SHOULDER_EXTENSOR = [(0, (-0.05, -0.03)), (1, (0.05, -0.02))]
ACROSS = [(0, (0.0, 0.04)), (2, (0.05, 0.02))]


def chain_path():
    return StraightPath(ChainPlacement((0.3, 0.33)), [ELBOW_FLEXOR, SHOULDER_EXTENSOR, ACROSS])


def spring_path():
    anchors = [(-0.5, 0.0), (0.5, 0.0), (0.0, 0.5), (0.0, -0.5)]
    return StraightPath(PointMassPlacement(), [[(0, anchor), (1, (0.0, 0.0))] for anchor in anchors])


PATHS = {
    "arm26": arm26_path,
    "arm26 compliant": arm26_compliant_path,
    "li_todorov": li_todorov_path,
    "chain": chain_path,
    "springs": spring_path,
}


@pytest.fixture(params=mostly_in_full(PATHS, ["arm26", "li_todorov", "chain"]))
def path(request, float64):
    return PATHS[request.param]()


def postures(key, n=30):
    return jax.random.uniform(key, (n, 2), minval=0.05, maxval=1.9)


def test_moment_arm_is_the_slope_of_the_length(path, getkey):
    h, q = 1e-6, postures(getkey())
    length = jax.jit(jax.vmap(path.length))
    steps = h * jnp.eye(2)
    expected = jnp.stack([(length(q + e) - length(q - e)) / (2 * h) for e in steps], axis=2)
    arms, differentiated = jax.jit(jax.vmap(lambda q: (moment_arms(path, q), jax.jacfwd(path.length)(q))))(q)
    np.testing.assert_allclose(arms, differentiated, atol=1e-14)
    np.testing.assert_allclose(arms, expected, atol=1e-8)


def test_arm26_has_the_moment_arms_of_its_table(float64):
    q = jnp.array([1.0, 1.2])
    arms = moment_arms(arm26_path(), q)
    expected = [
        [-0.03, 0],
        [0.03, 0],
        [0, -0.014 - 0.008 * 1.2],
        [0, 0.025 - 0.0044 * 1.2],
        [-0.03, -0.016 - 0.0114 * 1.2],
        [0.03, 0.03 - 0.0064 * 1.2],
    ]
    np.testing.assert_allclose(arms, expected, rtol=1e-12)
    reference = jnp.array([np.pi / 2, 0.0])
    offsets = [0.151, 0.2322, 0.2859, 0.2355, 0.3329, 0.2989]
    np.testing.assert_allclose(arm26_path().length(reference), offsets, rtol=1e-12)
    offsets[:2] = 0.182, 0.2362
    np.testing.assert_allclose(arm26_compliant_path().length(reference), offsets, rtol=1e-12)


def test_li_todorov_has_the_lengths_of_its_table(float64):
    """In the table's own units and sign: l = 1 + sum_j r_j (q_ref,j - q_j) / l0, in cm and degrees."""
    q = np.array([40.0, 75.0])
    optimal = np.array([7.32, 3.26, 6.4, 4.26, 5.95, 4.04])
    arms = np.array([[2, -2, 0, 0, 1.5, -2], [0, 0, 2, -2, 2, -1.5]])
    reference = np.array([[15, 4.88, 0, 0, 4.5, 2.12], [0, 0, 80.86, 109.32, 92.96, 91.52]])
    normalised = 1 + np.sum(arms * np.deg2rad(reference - q[:, None]), axis=0) / optimal
    path, posture = li_todorov_path(), jnp.deg2rad(jnp.asarray(q))
    np.testing.assert_allclose(path.length(posture) / (optimal / 100), normalised, rtol=1e-12)
    torque = generalised_force(path, posture, jnp.ones(6))
    np.testing.assert_allclose(torque, arms.sum(axis=1) / 100, atol=1e-15)


def test_chain_places_points_as_a_chain_does(float64):
    shoulder, elbow = 0.4, 0.9
    chain, q = ChainPlacement((0.3, 0.33)), jnp.array([shoulder, elbow])
    joint = 0.3 * np.array([np.cos(shoulder), np.sin(shoulder)])
    hand = joint + 0.33 * np.array([np.cos(shoulder + elbow), np.sin(shoulder + elbow)])
    np.testing.assert_allclose(chain.place(q, 1, jnp.array([0.3, 0.0])), joint)
    np.testing.assert_allclose(chain.place(q, 2, jnp.array([0.0, 0.0])), joint)
    np.testing.assert_allclose(chain.place(q, 2, jnp.array([0.33, 0.0])), hand)
    aside = joint + 0.01 * np.array([-np.sin(shoulder + elbow), np.cos(shoulder + elbow)])
    np.testing.assert_allclose(chain.place(q, 2, jnp.array([0.0, 0.01])), aside)
    np.testing.assert_allclose(chain.place(q, 0, jnp.array([0.1, 0.2])), [0.1, 0.2])


def test_a_straight_muscle_across_one_joint_obeys_the_law_of_cosines(float64):
    path = StraightPath(ChainPlacement((0.3, 0.33)), [[(1, (0.1, 0.0)), (2, (0.05, 0.0))]])
    elbow = 0.7
    squared = 0.2**2 + 0.05**2 - 2 * 0.2 * 0.05 * np.cos(np.pi - elbow)
    np.testing.assert_allclose(path.length(jnp.array([0.3, elbow])), [np.sqrt(squared)])
    arm = moment_arms(path, jnp.array([0.3, elbow]))
    np.testing.assert_allclose(arm, [[0, -0.2 * 0.05 * np.sin(elbow) / np.sqrt(squared)]], atol=1e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_coincident_points_have_no_length_and_no_gradient(float64, dtype):
    path = StraightPath(PointMassPlacement(), [[(0, (0.1, 0.2)), (1, (0.0, 0.0)), (1, (0.0, 0.0))]])
    path = jax.tree.map(lambda leaf: leaf.astype(dtype), path)
    here = jnp.array([0.1, 0.2], dtype)

    @jax.jit
    def at_posture(path, here):
        by_point = jax.grad(lambda q: path.length(q)[0])(here)
        by_path = jax.grad(lambda path: path.length(here)[0])(path)
        return path.length(here), moment_arms(path, here), by_point, by_path.points[0]

    for number in at_posture(path, here):
        np.testing.assert_array_equal(number, 0.0)


ADDED = {
    "polynomial": (arm26_path, lambda: PolynomialPath([0.2], [[0.01, 0.02]], 0.0, [1.0, 0.0])),
    "constant": (li_todorov_path, lambda: ConstantMomentArmPath([0.07], [[0.01, 0.02]], [1.0, 0.0])),
    "straight": (chain_path, lambda: StraightPath(ChainPlacement((0.3, 0.33)), [ELBOW_FLEXOR])),
}


@pytest.mark.parametrize("build, one", ADDED.values(), ids=ADDED)
def test_one_call_adds_a_muscle(float64, build, one):
    q = jnp.array([0.7, 1.1])
    path, added = build(), one()
    expected = jnp.concatenate([path.length(q), added.length(q)])
    np.testing.assert_array_equal(path.with_muscle(added).length(q), expected)


def test_arm26_fibres_work_about_their_optimal_length(float64):
    """At every posture of reaching, 20-90 and 30-130 degrees, for both families."""
    angles = jnp.deg2rad(jnp.stack(jnp.meshgrid(jnp.linspace(20, 90, 8), jnp.linspace(30, 130, 8)), -1))
    families: list[tuple[Any, Any]] = [
        (muscles.arm26_muscles(), muscles.arm26_path()),
        (muscles.arm26_compliant_muscles(RigidTendonHillMuscle), muscles.arm26_compliant_path()),
    ]
    for built, path in families:
        lengths = jax.jit(jax.vmap(path.length))(angles.reshape(-1, 2))
        fibres = (lengths - built.tendon_length) / built.optimal_length
        assert jnp.all((fibres > 0.4) & (fibres < 1.6))


def test_arm26_table(float64):
    built: Any = muscles.arm26_compliant_muscles()
    rigid: Any = muscles.arm26_muscles()
    np.testing.assert_array_equal(built.max_isometric_force, [838, 1207, 1422, 1549, 414, 603])
    np.testing.assert_array_equal(built.optimal_length, [0.134, 0.140, 0.092, 0.093, 0.137, 0.127])
    np.testing.assert_array_equal(built.tendon_length, [0.070, 0.070, 0.172, 0.187, 0.204, 0.217])
    np.testing.assert_array_equal(rigid.tendon_length[:2], [0.039, 0.066])


def test_li_todorov_set_is_in_si_units(float64):
    built = muscles.li_todorov_muscles()
    np.testing.assert_allclose(built.max_isometric_force, 31.8 * np.array([22, 12, 18, 14, 5, 10]))
    np.testing.assert_allclose(built.optimal_length, [0.0732, 0.0326, 0.064, 0.0426, 0.0595, 0.0404])
