"""Environments of Gymnasium whose trials carry an environment of their own."""

import warnings

import diffrax
import jax
import numpy as np
import pytest
from answering_tasks import AnsweringTask, CatchTask, Lottery, Steering

import popsim
from popsim.gymnasium.agent import GivenChoice, agent_loop, agent_network_model, with_agent
from popsim.policies import Categorical, Gaussian
from popsim.senses import Shown, network_input_names

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed")
from gymnasium import spaces  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402

from popsim.gymnasium.env import TaskEnv  # noqa: E402


def catching(**channels):
    """A point mass that catches, with vision and other senses, and a scaling of what is shown."""
    plant = popsim.plants.PointMass(solver=diffrax.Euler())
    task = CatchTask(plant.workspace)
    seen = {"vision": popsim.SensoryChannel(popsim.vision, delay=0.02), **channels}
    scaling = {"prey": popsim.Scaling([0.1, 0.0], [0.5, 0.5])}
    return task, agent_loop(task, plant, seen, motor_noise=popsim.MotorNoise(0.1, 0.01), scaling=scaling)


@pytest.mark.parametrize(
    "build",
    [
        lambda: TaskEnv(AnsweringTask(Lottery)),
        pytest.param(lambda: TaskEnv(*catching()), marks=pytest.mark.slow),
    ],
    ids=["choices", "movement"],
)
def test_gymnasium_finds_nothing_wrong(build):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*infinity|.*normalized|.*render|.*spec")
        check_env(build())


def test_actions_are_those_of_the_environment():
    assert TaskEnv(AnsweringTask(Lottery)).action_space == spaces.Discrete(3)
    vectors = TaskEnv(AnsweringTask(Steering), limits=(-7.0, 7.0)).action_space
    assert vectors == spaces.Box(-0.5, 7.0, (2,), np.float32)  # its bound, and ours where it has none
    assert TaskEnv(*catching()).action_space == spaces.Box(-10.0, 10.0, (2,), np.float32)


def test_observations_are_what_a_network_would_receive():
    env = TaskEnv(AnsweringTask(Lottery))
    names = network_input_names(AnsweringTask(Lottery).validation_trials())
    assert [*env.layout] == [*names] == ["chosen", "clock", "won"]
    first, _ = env.reset(seed=0)
    np.testing.assert_array_equal(first, np.zeros(5))
    observed, reward, over, *_ = env.step(1)
    np.testing.assert_allclose(observed, [0.0, 1.0, 0.0, 1 / 11, reward], rtol=1e-6)
    observed, reward, over, truncated, _ = env.step(2)
    assert (reward, over, truncated) == (5.0, True, False)
    np.testing.assert_allclose(observed[env.layout["won"]], [5.0])


def test_an_environment_ends_the_trial_or_its_length_does():
    env = TaskEnv(AnsweringTask(Lottery))
    env.reset(seed=0)
    steps = [env.step(0) for _ in range(12)]
    assert [step[2] for step in steps] == [False] * 11 + [True]
    assert {step[1] for step in steps} == {0.0, 1.0} and "loss" not in steps[-1][4]
    assert "target" not in steps[-1][4]
    env.reset()
    assert env.step(2)[2]
    with pytest.raises(gymnasium.error.ResetNeeded, match="over"):
        env.step(0)


def test_rewards_and_states_are_those_of_simulate():
    """The recorded commands of a network with a policy, given as actions, do and earn the same."""
    task, loop = catching()
    network = popsim.networks.GRUNetwork(loop.network.n_inputs, 8, 3, key=jax.random.key(0))
    from_network = popsim.SensorimotorLoop(
        network,
        loop.plant,
        loop.channels,
        scaling=loop.scaling,
        policy=Gaussian(2, 1.0, critic=True),
        dt=0.01,
    )
    env = TaskEnv(task, from_network)
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


def test_an_agent_takes_the_place_of_the_policy():
    network = popsim.networks.GRUNetwork(5, 4, 4, key=jax.random.key(0))
    model = popsim.NetworkModel(network, policy=Categorical(3, critic=True), dt=0.1)
    assert with_agent(model).policy == agent_network_model(AnsweringTask(Lottery)).policy == GivenChoice(3)
    assert with_agent(model).network.n_outputs == 1
    vectors = popsim.NetworkModel(network, policy=Gaussian(3, critic=True), dt=0.1)
    assert (with_agent(vectors).policy, with_agent(vectors).network.n_outputs) == (None, 3)
    with pytest.raises(ValueError, match="agent_loop.*got .*Catch"):
        agent_network_model(catching()[0])


def test_what_makes_no_sense_is_refused():
    env = TaskEnv(AnsweringTask(Lottery))
    env.reset(seed=0)
    for action in (3, -1, 1.0, [1], True):
        with pytest.raises(ValueError, match="`action` must be a whole number from 0 to 2, got"):
            env.step(action)
    with pytest.raises(ValueError, match="`loss` must be None where the environment"):
        TaskEnv(AnsweringTask(Lottery), loss=1.0 * popsim.losses.OutputError())
    with pytest.raises(ValueError, match="`limits` must be None for actions that are choices"):
        TaskEnv(AnsweringTask(Lottery), limits=(0.0, 1.0))
    with pytest.raises(ValueError, match="`limits` must leave room"):
        TaskEnv(AnsweringTask(Steering), limits=(-2.0, -1.0))
