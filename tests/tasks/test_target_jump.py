import numpy as np
from motor_trials import CENTER, WORKSPACE, assert_share, assert_uniform, many_trials, validation

import popsim
from popsim.distributions import Uniform
from popsim.tasks import TargetJump

TASK = TargetJump(WORKSPACE, jump_probability=0.3, displacement=Uniform([-0.01, -0.04], [0.02, 0.04]))


def _frame(direction):
    """Unit vectors along a reach and to its left: (trial, space) each."""
    along = np.stack([np.cos(direction), np.sin(direction)], axis=1)
    return along, np.stack([-along[:, 1], along[:, 0]], axis=1)


def _expected(conditions):
    """The first and the second target of trials of 10 cm."""
    along, left = _frame(np.asarray(conditions["direction"]))
    first = CENTER + 0.1 * along
    moved = np.asarray(conditions["jump along"])[:, None] * along
    return first, first + moved + np.asarray(conditions["jump left"])[:, None] * left


def test_targets_jump_in_their_share_of_trials_when_and_where_they_say(getkey):
    trials = many_trials(TASK, getkey())
    jumps = np.asarray(trials.conditions["jump"])
    assert_share(jumps, 0.3)
    times = np.asarray(trials.timeline.events["target jump"])
    assert_uniform(0.01 * times[jumps], 0.095, 0.405)
    assert_uniform(np.asarray(trials.conditions["jump along"])[jumps], -0.01, 0.02)
    assert_uniform(np.asarray(trials.conditions["jump left"])[jumps], -0.04, 0.04)
    first, second = _expected(trials.conditions)
    after = (np.arange(120) >= times[:, None])[..., None]
    expected = np.where(after, second[:, None], first[:, None])
    np.testing.assert_allclose(trials.targets.position, expected, atol=1e-5)
    np.testing.assert_array_equal(trials.inputs["target"], trials.targets.position)


def test_a_target_that_does_not_jump_stays_to_the_end(getkey):
    trials = many_trials(TargetJump(WORKSPACE, jump_probability=0.0), getkey(), 50)
    np.testing.assert_array_equal(np.ptp(trials.inputs["target"], axis=1), 0.0)
    assert set(trials.timeline.events["target jump"].tolist()) == {popsim.NEVER}
    for name in ("jump", "jump along", "jump left"):
        assert not np.any(trials.conditions[name])
    np.testing.assert_array_equal(trials.timeline.epochs["movement"], np.tile([0, 120], (50, 1)))


def test_validation_has_every_direction_without_and_with_either_jump():
    trials = validation(TargetJump(WORKSPACE))
    eighths = np.repeat([0, 1, 2, 3, 4, -3, -2, -1], 3)
    np.testing.assert_allclose(trials.conditions["direction"], eighths * np.pi / 4, atol=1e-6)
    np.testing.assert_allclose(trials.conditions["jump left"], np.tile([0.0, -0.03, 0.03], 8))
    np.testing.assert_array_equal(trials.conditions["jump"], np.tile([False, True, True], 8))
    np.testing.assert_array_equal(trials.timeline.events["target jump"], np.tile([popsim.NEVER, 25, 25], 8))
    first, second = _expected(trials.conditions)
    np.testing.assert_allclose(trials.targets.position[:, 0], first, atol=1e-6)
    np.testing.assert_allclose(trials.targets.position[:, -1], second, atol=1e-6)
