import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim.windows import Before, Between, FromEvent, InEpoch, WholeTrial

TIMELINE = popsim.Timeline(
    0.01,
    8,
    epochs={"hold": jnp.array([1, 4]), "nothing": jnp.array([3, 3])},
    events={"start": jnp.array(0), "go cue": jnp.array(3), "catch": jnp.array(popsim.NEVER)},
)
WINDOWS = {
    "whole trial": (WholeTrial(), range(8)),
    "in an epoch": (InEpoch("hold"), [1, 2, 3]),
    "in an empty epoch": (InEpoch("nothing"), []),
    "from an event": (FromEvent("go cue"), [3, 4, 5, 6, 7]),
    "from the start": (FromEvent("start"), range(8)),
    "a while after an event": (FromEvent("go cue", 0.02), [5, 6, 7]),
    "before an event": (FromEvent("go cue", -0.02, 0.02), [1, 2]),
    "from before the trial": (FromEvent("start", -0.02, 0.04), [0, 1]),
    "for a time": (FromEvent("go cue", 0.01, 0.03), [4, 5, 6]),
    "for no time": (FromEvent("go cue", 0.01, 0.0), []),
    "for longer than the trial": (FromEvent("go cue", 0.01, 1.0), [4, 5, 6, 7]),
    "from an event that does not come": (FromEvent("catch"), []),
    "after an event that does not come": (FromEvent("catch", 0.01, 0.02), []),
    "ahead of an event that does not come": (FromEvent("catch", -0.08, 0.5), []),
    "until an event": (Before("go cue"), [0, 1, 2]),
    "until the start": (Before("start"), []),
    "until an event that does not come": (Before("catch"), range(8)),
    "between times": (Between(0.02, 0.05), [2, 3, 4]),
    "between times, rounded": (Between(0.0199999, 0.0500001), [2, 3, 4]),
    "between one time": (Between(0.02, 0.02), []),
    "between times after the trial": (Between(0.07, 9.0), [7]),
}


@pytest.mark.parametrize("window, steps", WINDOWS.values(), ids=WINDOWS)
def test_the_steps_of_a_window(window, steps):
    expected = np.isin(np.arange(8), list(steps))
    for found in (window(TIMELINE), jax.jit(window)(TIMELINE)):
        assert found.dtype == bool
        np.testing.assert_array_equal(found, expected)


def test_each_trial_of_a_batch_has_its_own_steps():
    def found(go):
        timeline = popsim.Timeline(0.01, 4, events={"go cue": go})
        return FromEvent("go cue", 0.01)(timeline)

    steps = jax.vmap(found)(jnp.array([0, 2, popsim.NEVER]))
    assert steps.tolist() == [[False, True, True, True], [False, False, False, True], [False] * 4]


@pytest.mark.parametrize("window", [InEpoch("go cue"), FromEvent("hold"), Before("hold")])
def test_what_the_trial_does_not_have_is_refused(window):
    with pytest.raises(ValueError, match="`name` must be one of the (epochs|events) of the trial"):
        window(TIMELINE)


@pytest.mark.parametrize(
    "build, named",
    [
        (lambda: FromEvent("go cue", float("nan")), "delay"),
        (lambda: FromEvent("go cue", float("inf")), "delay"),
        (lambda: FromEvent("go cue", 0.0, -0.1), "duration"),
        (lambda: Between(-0.1, 0.2), "start"),
        (lambda: Between(0.2, 0.1), "stop"),
        (lambda: Between(0.2, float("nan")), "stop"),
        (lambda: Between(0.2, float("inf")), "stop"),
    ],
)
def test_times_that_mean_nothing_are_refused(build, named):
    with pytest.raises(ValueError, match=f"`{named}`"):
        build()


@pytest.mark.parametrize("window", [FromEvent("go cue", delay=200.0), Between(20.0, 50.0)])
def test_times_that_are_not_in_seconds_are_refused(window):
    timeline = popsim.Timeline(dt=0.01, n_steps=80, events={"go cue": jnp.array(10)})
    with pytest.raises(ValueError, match=r"within a trial, 0.8 s, got 20"):
        window(timeline)
