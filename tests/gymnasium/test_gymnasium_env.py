import warnings

import jax
import numpy as np
import pytest
from small_reaches import small_reach_setup
from small_tasks import Choose

import popsim
from popsim import losses

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed")
from gymnasium.utils.env_checker import check_env  # noqa: E402

from popsim.gymnasium.env import TaskEnv  # noqa: E402


def reach_env(**settings):
    task, build = small_reach_setup()
    return TaskEnv(task, build(jax.random.key(0)), **settings)


def choice_env():
    return TaskEnv(Choose())


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


@pytest.mark.slow
def test_gymnasium_finds_nothing_wrong():
    """But for bounds: observations have none, and torques go further than one."""
    gymnasium.register("popsim/Tested-v0", entry_point=choice_env)
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            env = gymnasium.make("popsim/Tested-v0")
            check_env(env.unwrapped)
    finally:
        del gymnasium.registry["popsim/Tested-v0"]
    allowed = ("infinity", "symmetric and normalized")
    assert all(any(part in str(one.message) for part in allowed) for one in said), [*map(str, said)]


def test_an_action_is_no_weight_that_a_loss_could_punish():
    """A penalty on all of the network would find the action among its arrays."""
    loss = losses.PositionError() + 10.0 * losses.WeightPenalty(lambda model: model.network)
    _, rewards, info = whole_episode(reach_env(loss=loss))
    assert info["loss"]["weight penalty"] == 0
    np.testing.assert_allclose(rewards.sum(), -sum(info["loss"].values()), rtol=1e-4)


def test_the_seed_decides_all_that_follows():
    env, other = choice_env(), choice_env()
    first, again = (whole_episode(one, seed=3) for one in (env, other))
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    sides = []
    for one in (env, other):
        one.reset(seed=5)
        sides.append([float(one.reset()[1]["conditions"]["side"]) for _ in range(20)])
    assert sides[0] == sides[1] and len(set(sides[0])) == 2
    with pytest.raises(ValueError, match="`seed` must be a whole number, got True"):
        env.reset(seed=True)


def test_info_tells_where_hand_and_target_are():
    env = reach_env()
    _, info = env.reset(seed=0, options={"trial": 2})
    trial = jax.tree.map(lambda leaf: leaf[2], small_reach_setup()[0].validation_trials())
    assert env.n_validation_trials == 8 and "loss" not in info
    np.testing.assert_allclose(info["hand"], trial.init.position, atol=1e-6)
    np.testing.assert_allclose(info["target"], trial.targets.position[0], atol=1e-6)
    assert info["conditions"]["direction"] == pytest.approx(np.pi / 2)
    _, _, info = whole_episode(env, options={"trial": 2})
    np.testing.assert_array_equal(info["hand"], env.episode.states.hand.position[-1])
    _, info = choice_env().reset(seed=0)
    assert set(info) == {"step", "target", "conditions"} and info["target"].shape == (1,)


def test_actions_beyond_the_limits_are_clipped():
    env = reach_env(limits=(-1.0, 2.0))
    env.reset(seed=0)
    env.step(np.array([-100.0, 100.0]))
    np.testing.assert_array_equal(env.episode.states.network.output[0], [-1.0, 2.0])
    assert env.action_space.low.tolist() == [-1.0, -1.0] and env.action_space.high.tolist() == [2.0, 2.0]


def test_another_loss_and_another_batch():
    effort = 2.0 * popsim.losses.Effort()
    env = reach_env(loss=effort)
    env.reset(seed=0)
    _, reward, *_ = env.step(np.array([1.0, 2.0]))
    assert reward == pytest.approx(-10.0)
    ramp = popsim.schedules.LinearSchedule(0.0, 1.0, last_batch=10) * popsim.losses.Effort()
    for batch, expected in ((0, 0.0), (5, -2.5), (10, -5.0)):
        env = reach_env(loss=ramp, batch=batch)
        env.reset(seed=0)
        assert env.step(np.array([1.0, 2.0]))[1] == pytest.approx(expected)


def test_what_makes_no_sense_is_refused():
    env = choice_env()
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(1))
    with pytest.raises(ValueError, match="trial"):
        env.reset(options={"trial": 2})
    with pytest.raises(ValueError, match="speed"):
        env.reset(options={"speed": 2})
    env.reset(seed=0)
    for action in (np.zeros(2), np.array([np.nan])):
        with pytest.raises(ValueError, match="action"):
            env.step(action)
    whole_episode(env)
    with pytest.raises(gymnasium.error.ResetNeeded, match="over"):
        env.step(np.zeros(1))
    for limits in ((1.0, 1.0), (0.0, np.inf)):
        with pytest.raises(ValueError, match="limits"):
            TaskEnv(Choose(), limits=limits)
