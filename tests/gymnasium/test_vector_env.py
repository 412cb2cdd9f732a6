"""Copies that are stepped together, against Gymnasium's loop over copies; and registered environments."""

import jax
import numpy as np
import pytest
from short_form import every_nth
from small_environments import AnsweringTask, Lottery, Steering
from small_reaches import small_reach_setup
from small_tasks import Choose

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed")
from gymnasium.utils.env_checker import check_env  # noqa: E402
from gymnasium.utils.performance import benchmark_vector_step  # noqa: E402
from gymnasium.vector import AutoresetMode, SyncVectorEnv  # noqa: E402

from popsim.gymnasium import TaskEnv, TaskVectorEnv  # noqa: E402
from popsim.gymnasium.env import environment_id  # noqa: E402
from popsim.tasks import TASKS  # noqa: E402


def reaches():
    task, build = small_reach_setup()
    return task, build(jax.random.key(0))


ARGUMENTS = {
    "paid at the end": lambda: (Choose(),),
    "reaches": reaches,
    "choices": lambda: (AnsweringTask(Lottery),),
    "vectors": lambda: (AnsweringTask(Steering),),
}


def check_equal(ours, theirs):
    """Nested information is the same, to rounding."""
    assert type(ours) is type(theirs)
    if isinstance(ours, dict):
        assert {*ours} == {*theirs}
        for name in ours:
            check_equal(ours[name], theirs[name])
    elif ours.dtype == object:
        for one, other in zip(ours, theirs, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", every_nth(ARGUMENTS, 2))
def test_copies_do_what_a_loop_over_environments_does(name):
    """Also over the ends of trials, which in choices come at different times."""
    arguments = ARGUMENTS[name]()
    ours = TaskVectorEnv(*arguments, num_envs=3)
    theirs = SyncVectorEnv([lambda: TaskEnv(*arguments)] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    assert ours.metadata["autoreset_mode"] == theirs.metadata["autoreset_mode"]
    assert (ours.action_space, ours.observation_space) == (theirs.action_space, theirs.observation_space)
    check_equal(*(envs.reset(seed=3)[0] for envs in (ours, theirs)))
    ours.action_space.seed(0)
    n_over = np.zeros(3, int)
    for _ in range(45):
        actions = ours.action_space.sample()
        for mine, yours in zip(ours.step(actions), theirs.step(actions), strict=True):
            check_equal(mine, yours)
        n_over += theirs._terminations
    assert np.all(n_over >= 2) and ours.np_random_seed == theirs.np_random_seed == (3, 4, 5)
    assert (name == "choices") == (len(set(n_over)) > 1)


@pytest.fixture(scope="module")
def envs():
    return TaskVectorEnv(AnsweringTask(Lottery), num_envs=2)


def test_bad_actions_and_sizes_are_refused(envs, as_users_run):
    envs.reset(seed=0)
    for actions in ([0, 3], [0.0, 1.0], [0]):
        with pytest.raises(ValueError, match="`actions` must be a whole number from 0 to 2 for each of 2"):
            envs.step(actions)
    with pytest.raises(ValueError, match="`seed` must be one for each of 2 copies"):
        envs.reset(seed=[1])
    new = TaskVectorEnv(AnsweringTask(Lottery), num_envs=2)
    for seeds, said in (([1.5, 2.0], "float"), ([1, -1], "-1")):
        with pytest.raises(gymnasium.error.Error, match=said):
            new.reset(seed=seeds)
    assert new.reset()[0].shape == (2, 5)
    for trial in (2, [0, 2], 0.5, [0]):
        with pytest.raises(ValueError, match=r"trial.* must be a whole number from 0 to 1 for each of 2"):
            envs.reset(options={"trial": trial})
    with pytest.raises(ValueError, match="num_envs"):
        TaskVectorEnv(AnsweringTask(Lottery), num_envs=0)
    vectors = TaskVectorEnv(AnsweringTask(Steering), num_envs=2)
    with pytest.raises(gymnasium.error.ResetNeeded):
        vectors.step(np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"`actions` must be finite numbers of shape \(2, 2\)"):
        vectors.step(np.zeros((2, 3)))


def test_seeds_are_those_of_gymnasium(envs):
    def first(seed):
        return envs.reset(seed=seed)[1]["conditions"]["first"]

    one, again, listed, shifted = first(7), first(7), first([7, 8]), first(8)
    np.testing.assert_array_equal(one, again)
    np.testing.assert_array_equal(one, listed)
    assert one[1] == shifted[0] and len({*one, *first(None)}) == 4
    alone = TaskEnv(AnsweringTask(Lottery))
    alone.reset(seed=7)
    envs.reset(seed=7)
    assert first(None)[0] == alone.reset()[1]["conditions"]["first"]
    assert envs.reset(seed=1, options={"trial": [0, 1]})[1]["conditions"]["first"].tolist() == [0.0, 1.0]


def test_no_step_compiles_again(envs, count_compilations):
    alone = TaskEnv(AnsweringTask(Lottery))
    for env, action in ((envs, [0, 1]), (alone, 0)):
        env.reset(seed=0)
        env.step(action)
    with count_compilations() as compiled:
        for _ in range(3):
            envs.step([2, 1])
            alone.step(1)
        envs.reset(seed=1)
        alone.reset(seed=1)
    assert not compiled


def test_every_task_has_an_id():
    assert environment_id("delayed-non-match-to-sample") == "popsim/DelayedNonMatchToSample-v0"
    registered = {name for name in gymnasium.registry if name.startswith("popsim/")}
    assert {environment_id(name) for name in TASKS} <= registered


SHORT = ("perceptual-decision",)
SESSIONS = ("block-decisions", "hierarchical-reasoning")
WITHOUT_CONDITIONS = ("multi-task",)  # NaN, where a trial lacks a condition, is not equal for the checks


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*(infinity|normalized):UserWarning")
@pytest.mark.parametrize(
    "name",
    [
        name if name in SHORT else pytest.param(name, marks=pytest.mark.full)
        for name in sorted({*TASKS} - {*SESSIONS, *WITHOUT_CONDITIONS})
    ],
)
def test_registered_environments_are_made_and_checked(name):
    check_env(gymnasium.make(environment_id(name)).unwrapped)
    envs = gymnasium.make_vec(environment_id(name), num_envs=2)
    assert isinstance(envs, TaskVectorEnv) and benchmark_vector_step(envs, target_duration=0, seed=0) > 0


def test_a_setting_of_nothing_is_refused_by_name():
    with pytest.raises(TypeError, match="durations"):
        gymnasium.make_vec("popsim/PerceptualDecision-v0", num_envs=2, durations=3.0)


@pytest.mark.full
@pytest.mark.slow
def test_settings_are_those_of_the_experiment_or_the_task():
    env = gymnasium.make("popsim/CenterOut-v0", plant="point-mass", limits=(-2.0, 2.0)).unwrapped
    assert env.action_space.high.tolist() == [2.0, 2.0]
    env = gymnasium.make("popsim/PerceptualDecision-v0", duration=3.0).unwrapped
    env.reset(seed=0)
    assert env.episode.trial.timeline.n_steps * env.episode.trial.timeline.dt == pytest.approx(3.0)
