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
