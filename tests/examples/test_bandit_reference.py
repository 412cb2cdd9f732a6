"""The reference of the bandit against a direct recursion, known numbers and play."""

import functools

import jax
import numpy as np
import pytest

bandit = pytest.importorskip("references.bandit", reason="examples/ is not beside the tests")
script = pytest.importorskip("bandit_regret", reason="examples/ is not beside the tests")


@functools.cache
def best_value(n_left, s, f, z, g):
    """The expected sum of rewards, one state at a time."""
    if n_left == 0:
        return 0.0
    first, second = (1 + s) / (2 + s + f), (1 + z) / (2 + z + g)
    after = functools.partial(best_value, n_left - 1)
    return max(
        first * (1 + after(s + 1, f, z, g)) + (1 - first) * after(s, f + 1, z, g),
        second * (1 + after(s, f, z + 1, g)) + (1 - second) * after(s, f, z, g + 1),
    )


@pytest.mark.parametrize("n_choices", [1, 2, 7, 12])
def test_backward_induction_gives_the_value_of_the_recursion(n_choices):
    value = bandit.optimal_player(n_choices).value
    assert value == pytest.approx(best_value(n_choices, 0, 0, 0, 0), rel=1e-12)


def test_the_bandit_pays_the_chosen_arm_or_one_that_is_drawn():
    keys = jax.random.split(jax.random.key(0), 200)

    def paid(pays_chosen, action):
        arms = script.Bandit(np.array([0.0, 1.0]), np.array(pays_chosen))
        outcome = jax.vmap(lambda key: arms.step((), np.array(action), key=key)[1])(keys)
        np.testing.assert_array_equal(outcome.observation["last reward"][:, 0], action)
        np.testing.assert_array_equal(outcome.record, 1 - action)
        return outcome.reward.mean()

    assert paid(True, 0) == 0 and paid(True, 1) == 1
    assert 0.3 < paid(False, 0) < 0.7 and 0.3 < paid(False, 1) < 0.7
