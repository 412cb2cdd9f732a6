"""What all motor tasks have in common: keys decide, every body can do them, members may differ."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from motor_trials import many_trials, validation
from short_form import every_nth, every_nth_row

import popsim
from popsim import PerMember, tasks
from popsim.distributions import Uniform

TASKS = {
    "delayed": tasks.DelayedReaches,
    "sequential": tasks.SequentialReaches,
    "jump": tasks.TargetJump,
    "sinusoids": tasks.Tracking,
    "walk": lambda workspace, **options: tasks.Tracking(workspace, tasks.RandomWalk(), **options),
    "hold": tasks.PosturalHold,
    "obstacle": lambda workspace, **options: tasks.ObstacleAvoidance(workspace, n_directions=None, **options),
    "two targets": tasks.TwoTargetReaches,
}
BODIES = [
    pytest.param(popsim.plants.TwoLinkArm.arm26_skeleton, id="arm"),
    pytest.param(
        lambda: popsim.plants.PointMass(workspace=popsim.Workspace([-0.1, -0.1, 0.1], [0.1, 0.1, 0.3])),
        id="mass in space",
        marks=pytest.mark.full,
    ),
]
PLANE = popsim.Workspace.around(jnp.zeros(2), 0.2)


@pytest.fixture(params=every_nth(TASKS, 7))
def build_task(request):
    return TASKS[request.param]


@pytest.mark.parametrize("build_body", BODIES)
def test_every_body_can_do_it(build_task, build_body, getkey):
    """In trials for training and for validation, which hold the same."""
    plant = build_body()
    task = build_task(plant.workspace)
    channels = {"vision": popsim.SensoryChannel(popsim.vision, delay=0.03)}
    fixed, training = validation(task), many_trials(task, getkey(), 100)
    for trials in (fixed, training):
        n_inputs = popsim.n_network_inputs(trials, plant, channels)
        network = popsim.networks.GRUNetwork(n_inputs, 4, plant.n_commands, key=getkey())
        loop = popsim.SensorimotorLoop(network, plant, channels, dt=0.01)
        loop.check(trials)

    def loss_of_one(trial, key):
        return task.loss(popsim.simulate(loop, trial, key=key), trial, loop).total

    one = jax.tree.map(lambda leaf: leaf[0], trials)
    assert jax.eval_shape(loss_of_one, one, getkey()).shape == ()


@pytest.mark.parametrize(
    "build, where",
    every_nth_row(
        [
            (tasks.DelayedReaches, {"catch_probability": PerMember([0.0, 1.0])}),
            (tasks.DelayedReaches, {"distance": PerMember([0.05, 0.1])}),
            (tasks.SequentialReaches, {"reach": PerMember([0.3, 0.6])}),
            (tasks.TargetJump, {"jump_probability": PerMember([0.0, 1.0])}),
            (tasks.ObstacleAvoidance, {"radius": PerMember([0.02, 0.03]), "obstacle_probability": 1.0}),
            (tasks.TwoTargetReaches, {"separation": PerMember([1.0, 2.0])}),
            (tasks.Tracking, {"ramp": PerMember([0.1, 1.0])}),
            (tasks.PosturalHold, {"hold": Uniform(PerMember([0.1, 0.5]), PerMember([0.2, 0.6]))}),
        ],
        8,
    ),
)
def test_members_may_do_it_with_numbers_of_their_own(build, where, getkey):
    task, key = build(PLANE, **where), getkey()
    first, second = (popsim.select_member(task, index).trial(batch=0, key=key) for index in range(2))
    assert not jax.tree.all(jax.tree.map(jnp.array_equal, first, second))
    for index, trial in enumerate((first, second)):
        alone = {name: popsim.select_member(value, index) for name, value in where.items()}
        same = build(PLANE, **alone).trial(batch=0, key=key)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), trial, same)
