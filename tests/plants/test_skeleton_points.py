"""The points of bodies in the world, against the forward kinematics of each."""

import functools

import equinox as eqx
import jax
import numpy as np
import pytest
from bodies import PLANTS
from short_form import mostly_in_full

import popsim
from popsim import muscles, plants

CHAIN = functools.partial(plants.NLinkArm, mass=(1.5, 1.0, 0.5), length=(0.3, 0.25, 0.15))


def straight_arm():
    """An arm with muscles that have places."""
    skeleton = plants.TwoLinkArm.arm26_skeleton()
    over_shoulder = [(0, (-0.05, 0.03)), (1, (0.12, 0.02))]
    over_elbow = [(1, (0.1, -0.02)), (1, (0.3, -0.03)), (2, (0.05, -0.01))]
    path = muscles.paths.StraightPath(
        muscles.paths.ChainPlacement(skeleton.length), [over_shoulder, over_elbow]
    )
    law = muscles.ReluMuscle(np.full(2, 500.0), np.full(2, 0.15))
    return plants.MusculoskeletalPlant(skeleton, path, law)


BODIES = PLANTS | {
    "chain": CHAIN,
    "mass in space": lambda: plants.PointMass(workspace=popsim.Workspace([-0.1] * 3, [0.1] * 3)),
    "arm26": functools.partial(plants.arm26, muscles.ReluMuscle),
    "Li & Todorov arm": plants.li_todorov_arm,
    "muscled mass": plants.muscled_point_mass,
    "arm with straight muscles": straight_arm,
}


@eqx.filter_jit
def at_rest(plant, observe):
    """What is observed of a body in five postures all over the workspace."""
    places = jax.random.uniform(jax.random.key(0), (5, plant.workspace.low.shape[0]), float)
    places = plant.workspace.low + 2 * plant.workspace.half_widths * places
    return jax.vmap(lambda place: observe(plant.rest_state(place)))(places)


@pytest.mark.parametrize("name", mostly_in_full(BODIES, ["li_todorov", "chain", "mass in space", "arm26"]))
def test_the_points_end_at_the_hand_and_segments_keep_their_lengths(name, float64):
    plant = BODIES[name]()

    def observe(state):
        return plant.skeleton_points(state), plant.hand(state).position, plant.coordinates(state)[0]

    points, hand, coordinates = (np.asarray(each) for each in at_rest(plant, observe))
    np.testing.assert_allclose(points[:, -1], hand, atol=1e-12)
    segments = np.diff(points, axis=1)
    expected = np.asarray(getattr(getattr(plant, "skeleton", plant), "length", np.zeros(0)))
    lengths = np.linalg.norm(segments, axis=-1)
    np.testing.assert_allclose(lengths, np.broadcast_to(expected, (5, expected.size)), rtol=1e-12)
    if expected.size:
        np.testing.assert_array_equal(points[:, 0], 0.0)
        angles = np.cumsum(coordinates, axis=1)
        along = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        np.testing.assert_allclose(segments, expected[:, None] * along, atol=1e-12)


@pytest.mark.parametrize("build", [straight_arm, plants.muscled_point_mass])
def test_the_points_of_muscles_are_as_far_apart_as_they_are_long(build, float64):
    plant = build()
    lines, lengths = at_rest(plant, lambda state: (plant.muscle_points(state), plant.muscles(state).length))
    assert len(lines) == plant.n_commands
    summed = [np.linalg.norm(np.diff(line, axis=1), axis=-1).sum(axis=1) for line in lines]
    np.testing.assert_allclose(np.stack(summed, axis=1), lengths, rtol=1e-12)
