"""Tasks as environments of Gymnasium, also those whose trials carry an environment of their own."""

import functools
import re
import warnings
from functools import partial

import diffrax
import jax
import numpy as np
import pytest
from small_environments import AnsweringTask, CatchTask, Lottery, Steering
from small_reaches import small_reach_setup
from small_tasks import Choose

import popsim
from popsim import losses
from popsim.senses import Shown, network_input_names

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed")
from gymnasium import spaces  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402

from popsim.gymnasium import TaskEnv, agent_loop  # noqa: E402


@functools.cache
def reach_env():
    task, build = small_reach_setup()
    return TaskEnv(task, build(jax.random.key(0)))


@functools.cache
def lottery_env():
    return TaskEnv(AnsweringTask(Lottery))


def catching(**channels):
    """A point mass that catches, with vision and other senses, and a scaling of what is shown."""
    plant = popsim.plants.PointMass(solver=diffrax.Euler())
    task = CatchTask(plant.workspace)
    seen = {"vision": popsim.SensoryChannel(popsim.vision, delay=0.02), **channels}
    scaling = {"prey": popsim.Scaling([0.1, 0.0], [0.5, 0.5])}
    return task, agent_loop(task, plant, seen, motor_noise=popsim.MotorNoise(0.1, 0.01), scaling=scaling)


def whole_episode(env, seed=0, options=None):
    """Random actions to the end: observations, rewards and the last info."""
    env.action_space.seed(seed)
    observation, info = env.reset(seed=seed, options=options)
    observations, rewards, over = [observation], [], False
    while not over:
        observation, reward, over, truncated, info = env.step(env.action_space.sample())
        assert not truncated
        observations.append(observation)
        rewards.append(reward)
    return np.stack(observations), np.array(rewards), info


@pytest.mark.parametrize(
    "build",
    [
        lottery_env,
        pytest.param(lambda: TaskEnv(Choose()), marks=pytest.mark.full),
        pytest.param(lambda: TaskEnv(*catching()), marks=pytest.mark.full),
    ],
    ids=["choices", "outputs", "movement"],
)
def test_gymnasium_finds_nothing_wrong(build):
    """But for bounds: observations have none, and torques go further than one."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*infinity|.*normalized|.*render|.*spec")
        check_env(build())


def test_the_seed_decides_all_that_follows():
    env = lottery_env()
    first, again = (whole_episode(env, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    drawn = []
    for _ in range(2):
        env.reset(seed=5)
        drawn.append([float(env.reset()[1]["conditions"]["first"]) for _ in range(4)])
    assert drawn[0] == drawn[1] and len(set(drawn[0])) == 4


def test_info_tells_where_hand_and_target_are():
    env = reach_env()
    _, info = env.reset(seed=0, options={"trial": 2})
    trial = jax.tree.map(lambda leaf: leaf[2], small_reach_setup()[0].validation_trials())
    assert env.n_validation_trials == 8 and "loss" not in info
    np.testing.assert_allclose(info["hand"], trial.init.position, atol=1e-6)
    np.testing.assert_allclose(info["target"], trial.targets.position[0], atol=1e-6)
    assert info["conditions"]["direction"] == pytest.approx(np.pi / 2)
    _, rewards, info = whole_episode(env, options={"trial": 2})
    np.testing.assert_array_equal(info["hand"], env.episode.states.hand.position[-1])
    np.testing.assert_allclose(rewards.sum(), -sum(info["loss"].values()), rtol=1e-4)


def test_limits_clip_actions_and_the_batch_is_that_of_the_loss():
    """The action is no weight, which a penalty on all of the network would find among its arrays."""
    ramp = popsim.schedules.LinearSchedule(0.0, 1.0, last_batch=10) * losses.Effort()
    loss = ramp + 10.0 * losses.WeightPenalty(lambda model: model.network)
    env = TaskEnv(Choose(), loss=loss, batch=5, limits=(-1.0, 2.0))
    assert (env.action_space.low.tolist(), env.action_space.high.tolist()) == ([-1.0], [2.0])
    _, info = env.reset(seed=0)
    assert set(info) == {"step", "target", "conditions"} and info["target"].shape == (1,)
    assert env.step(np.array([100.0]))[1] == pytest.approx(-0.5 * 2.0**2)
    np.testing.assert_array_equal(env.episode.states.network.output[0], [2.0])
    assert whole_episode(env)[2]["loss"]["weight penalty"] == 0


def test_actions_are_those_of_the_environment():
    assert lottery_env().action_space == spaces.Discrete(3)
    vectors = TaskEnv(AnsweringTask(Steering), limits=(-7.0, 7.0)).action_space
    assert vectors == spaces.Box(-0.5, 7.0, (2,), np.float32)  # its bound, and ours where it has none


def test_an_environment_shows_pays_and_ends_the_trial_or_its_length_does():
    env = lottery_env()
    names = network_input_names(AnsweringTask(Lottery).validation_trials())
    assert [*env.layout] == [*names] == ["chosen", "clock", "won"]
    first, _ = env.reset(seed=0)
    np.testing.assert_array_equal(first, np.zeros(5))
    observed, reward, over, *_ = env.step(1)
    np.testing.assert_allclose(observed, [0.0, 1.0, 0.0, 1 / 11, reward], rtol=1e-6)
    taken = env.episode.states.interaction  # a choice that is given is sure
    assert (taken.action[0], taken.log_probability[0], taken.entropy[0]) == (1, 0.0, 0.0)
    observed, reward, over, truncated, _ = env.step(2)
    assert (reward, over, truncated) == (5.0, True, False)
    np.testing.assert_allclose(observed[env.layout["won"]], [5.0])
    with pytest.raises(gymnasium.error.ResetNeeded, match="over"):
        env.step(0)
    env.reset()
    steps = [env.step(0) for _ in range(12)]
    assert [step[2] for step in steps] == [False] * 11 + [True]
    assert {step[1] for step in steps} == {0.0, 1.0} and not {"loss", "target"} & steps[-1][4].keys()


@pytest.mark.full  # in short: test_episode, and what an environment shows and pays
def test_rewards_and_states_are_those_of_simulate():
    """The recorded commands of a network with a policy, given as actions, do and earn the same."""
    task, loop = catching()
    network = popsim.networks.GRUNetwork(loop.network.n_inputs, 8, 3, key=jax.random.key(0))
    policy = popsim.policies.Gaussian(2, 1.0, critic=True)
    settings = {"scaling": loop.scaling, "policy": policy, "dt": 0.01}
    from_network = popsim.SensorimotorLoop(network, loop.plant, loop.channels, **settings)
    env = TaskEnv(task, from_network)
    assert env.action_space == spaces.Box(-10.0, 10.0, (2,), np.float32)
    observed, _ = env.reset(seed=3, options={"trial": 1})
    trial, key = env.episode.trial, env.episode.key
    states = popsim.simulate(from_network, trial, key=key)
    received = np.asarray(from_network.network_inputs(states, trial))
    for t, command in enumerate(np.asarray(states.command)):
        np.testing.assert_allclose(observed, received[t], atol=1e-5)
        observed, reward, over, *_ = env.step(command)
        np.testing.assert_allclose(reward, states.interaction.reward[t], rtol=1e-4)
        if over:
            break
    assert t + 1 == int(np.sum(states.interaction.active))


def test_a_sense_of_what_is_shown_takes_its_place():
    env = TaskEnv(*catching(prey=popsim.SensoryChannel(Shown("prey"), delay=0.05)))
    assert [*env.layout] == ["shadow", "prey", "vision"]
    first, _ = env.reset(seed=0)
    later = [env.step(np.zeros(2))[0][env.layout["prey"]] for _ in range(8)]
    still = [np.array_equal(one, first[env.layout["prey"]]) for one in later]
    assert still == [True] * 5 + [False] * 3  # which moves from the first step on


LOSS = 1.0 * losses.OutputError()


def test_what_makes_no_sense_is_refused(as_users_run):
    reach, lottery, steering = reach_env(), lottery_env(), AnsweringTask(Steering)
    reach.reset(seed=0)
    lottery.reset(seed=0)
    wrong = {
        "Call `env.reset()`": [partial(TaskEnv(steering).step, np.zeros(2))],
        "`action` must be a whole number from 0 to 2, got": [
            partial(lottery.step, action) for action in (3, -1, 1.0, [1], True)
        ],
        "`action` must be finite": [
            partial(reach.step, action)
            for action in (np.zeros(1), np.array([0.0, np.nan]), ["a", "b"], np.zeros(2, complex))
        ],
        '`options["trial"]` must be a whole number from 0 to 1, got': [
            partial(lottery.reset, options={"trial": trial}) for trial in (2, -1, 0.5, "0", True, [0])
        ],
        "`options`": [partial(lottery.reset, options={"speed": 2})],
        "`loss` must be None where the environment": [partial(TaskEnv, AnsweringTask(Lottery), loss=LOSS)],
        "`limits` must be None for actions that": [
            partial(TaskEnv, AnsweringTask(Lottery), limits=(0.0, 1.0))
        ],
        "low values must be": [partial(TaskEnv, steering, limits=(-2.0, -1.0))],
    }
    for said, calls in wrong.items():
        for call in calls:
            with pytest.raises((ValueError, gymnasium.error.ResetNeeded), match=re.escape(said)):
                call()
