import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim.losses import (
    EuclideanDistance,
    FinalStep,
    FinalSteps,
    HuberDistance,
    InWindow,
    L1Distance,
    LateInEpochs,
    PowerProfile,
    SquaredDistance,
)
from popsim.windows import Between, FromEvent, WholeTrial

TIMELINE = popsim.Timeline(0.01, 10, events={"go cue": jnp.array(4), "catch": jnp.array(popsim.NEVER)})


class EverySecond(popsim.windows.AbstractWindow):
    """Steps 3, 5 and 7."""

    def __call__(self, timeline):
        steps = jnp.arange(timeline.n_steps)
        return (steps % 2 == 1) & (steps >= 3) & (steps < 9)


WINDOWS = {
    "whole trial": (WholeTrial(), {i: (i + 1) / 10 for i in range(10)}),
    "between": (Between(0.02, 0.06), {2: 1 / 4, 3: 2 / 4, 4: 3 / 4, 5: 1.0}),
    "to the end": (FromEvent("go cue"), {4 + i: (i + 1) / 6 for i in range(6)}),
    "one step": (Between(0.03, 0.04), {3: 1.0}),
    "with gaps": (EverySecond(), {3: 1 / 5, 5: 3 / 5, 7: 1.0}),
    "empty": (Between(0.03, 0.03), {}),
    "a cue that does not come": (FromEvent("catch"), {}),
}


@pytest.mark.parametrize("window, shares", WINDOWS.values(), ids=WINDOWS)
def test_in_a_window_the_power_profile_rises_from_its_first_to_its_last_step(window, shares):
    for exponent in (0.0, 0.5, 6.0):
        expected = np.zeros(10)
        for step, fraction in shares.items():
            expected[step] = fraction**exponent
        found = jax.jit(PowerProfile(exponent, window=window))(TIMELINE)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_array_equal(InWindow(window)(TIMELINE), np.isin(np.arange(10), list(shares)))


def test_late_in_epochs_counts_each_epoch_in_its_own_length():
    bounds = {"delay": [0, 2], "reach 1": [2, 5], "reach 2": [5, 10], "reach 3": [10, 10]}
    timeline = popsim.Timeline(0.01, 10, epochs={name: jnp.array(ends) for name, ends in bounds.items()})
    expected = [0, 0, *(np.arange(1, 4) / 3) ** 2, *(np.arange(1, 6) / 5) ** 2]
    np.testing.assert_allclose(LateInEpochs("reach", 2.0)(timeline), expected, rtol=1e-5)
    with pytest.raises(ValueError, match="`prefix`.*'delay', 'reach 1'.*'movement'"):
        LateInEpochs("movement")(timeline)


def test_by_default_all_steps_of_a_trial_count_or_the_last_ones():
    assert InWindow()(TIMELINE).tolist() == [1.0] * 10
    assert FinalStep()(TIMELINE).tolist() == [0.0] * 9 + [1.0]
    assert FinalSteps(0.03)(TIMELINE).tolist() == [0.0] * 7 + [1.0] * 3
    assert FinalSteps(0.1)(TIMELINE).tolist() == [1.0] * 10


DISTANCES = [SquaredDistance(), EuclideanDistance(), L1Distance(), HuberDistance(10.0), HuberDistance(2.0)]


@jax.jit
def at_points(points):
    """Each distance, its gradient and its second derivatives, at some points."""
    taken = [(own, jax.grad(own), jax.hessian(own)) for own in DISTANCES]
    return [[jax.vmap(function)(points) for function in functions] for functions in taken]


def test_distances_and_their_gradients_also_where_points_coincide():
    expected = [(25.0, [6.0, -8.0]), (5.0, [0.6, -0.8]), (7.0, [1.0, -1.0])]
    expected += [(12.5, [3.0, -4.0]), (2.0 * (5.0 - 1.0), [1.2, -1.6])]
    found = at_points(jnp.array([[3.0, -4.0], [0.0, 0.0]]))
    for (value, gradient), (values, gradients, hessians) in zip(expected, found, strict=True):
        np.testing.assert_allclose(values, [value, 0.0], rtol=1e-6)
        np.testing.assert_allclose(gradients, [gradient, [0.0, 0.0]], rtol=1e-6)
        assert np.all(np.isfinite(hessians))
    assert HuberDistance(2.0)(jnp.ones((2, 3, 2))).shape == (2, 3)
