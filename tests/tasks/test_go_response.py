import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim.tasks import GoResponse, PerceptualDecision


def a_timeline(go):
    return popsim.Timeline(0.02, 20, events={"go cue": jnp.asarray(go)})


def test_silence_until_the_go_cue_a_grace_and_then_the_response():
    response = GoResponse(grace=0.06, silence_counts=0.3)
    target = response.target(a_timeline(8), jnp.array([0.0, 1.0]))
    np.testing.assert_array_equal(target.values[:8], 0)
    np.testing.assert_array_equal(target.values[8:], np.tile([0, 1], (12, 1)))
    np.testing.assert_allclose(target.counts, [0.3] * 8 + [0] * 3 + [1] * 9, rtol=1e-6)
    np.testing.assert_array_equal(response.fixation(a_timeline(8))[:, 0], [1] * 8 + [0] * 12)
    assert not response.is_catch(a_timeline(8))


def test_a_catch_trial_asks_for_silence_throughout():
    response = GoResponse()
    target = response.target(a_timeline(popsim.NEVER), jnp.array([0.0, 1.0]))
    np.testing.assert_array_equal(target.values, 0)
    np.testing.assert_allclose(target.counts, 0.2, rtol=1e-6)
    np.testing.assert_array_equal(response.fixation(a_timeline(popsim.NEVER)), 1)
    assert response.is_catch(a_timeline(popsim.NEVER))
    assert int(popsim.correct_choice(target)) == -1


def test_the_share_of_catch_trials_and_what_they_look_like():
    task = PerceptualDecision(response=GoResponse(catch_probability=0.2), dt=0.02)
    keys = jax.random.split(jax.random.key(3), 2000)
    trials = jax.jit(jax.vmap(lambda key: task.trial(batch=0, key=key)))(keys)
    is_catch = np.asarray(trials.conditions["catch"])
    np.testing.assert_allclose(is_catch.mean(), 0.2, atol=5 * (0.16 / 2000) ** 0.5)
    choice = np.asarray(popsim.correct_choice(trials.targets))
    np.testing.assert_array_equal(choice == -1, is_catch)
    np.testing.assert_array_equal(choice[~is_catch], trials.conditions["choice"][~is_catch])
    np.testing.assert_array_equal(np.asarray(trials.inputs["fixation"]).min(axis=(1, 2)) == 1, is_catch)
    shown = np.any(np.asarray(trials.inputs["stimulus"]) != 0, axis=2)
    assert np.all(shown[:, 5:30]) and not np.any(shown[:, 30:])


def test_no_plan_may_leave_no_time_to_respond(as_users_run):
    PerceptualDecision(fixation=0.1, stimulus=0.3, delay=0.1, duration=0.62, dt=0.02)
    with pytest.raises(ValueError, match="`duration` must be at least 0.62 s"):
        PerceptualDecision(
            fixation=0.1, stimulus=popsim.distributions.Uniform(0.1, 0.3), delay=0.1, duration=0.6, dt=0.02
        )
    for options, name in (
        ({"grace": -0.1}, "grace"),
        ({"silence_counts": -1.0}, "silence_counts"),
        ({"catch_probability": 1.5}, "catch_probability"),
    ):
        with pytest.raises(ValueError, match=f"`{name}`"):
            GoResponse(**options)
