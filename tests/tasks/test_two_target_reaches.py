import jax
import jax.numpy as jnp
import numpy as np
import pytest
from motor_trials import CENTER, WORKSPACE, assert_share, many_trials, one_of, validation

import popsim
from popsim.distributions import Choice
from popsim.tasks import TwoTargetReaches, reached_target

SHORT = {"hold": 0.02, "targets": 0.02, "memory": 0.02, "cue": 0.02, "duration": 0.1, "n_directions": 4}


@pytest.fixture(scope="module")
def drawn():
    return many_trials(TwoTargetReaches(WORKSPACE, separation=Choice([np.pi / 2, np.pi])), jax.random.key(0))


@pytest.mark.parametrize("order", ["cue first", "go first"])
def test_what_is_shown_and_asked_for_changes_at_the_cues(order):
    trial = one_of(validation(TwoTargetReaches(WORKSPACE, order=order, **SHORT)), 3)  # target 1 is above
    early, late = [0] * 6 + [1] * 4, [0] * 8 + [1] * 2
    cued, gone = (early, late) if order == "cue first" else (late, early)
    np.testing.assert_array_equal(trial.inputs["targets shown"][:, 0], [0, 0, 1, 1, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(trial.inputs["go cue"][:, 0], gone)
    np.testing.assert_array_equal(trial.inputs["color cue"], np.stack([np.zeros(10), cued], axis=-1))
    for name, place in (("target 1", [0.0, 0.1]), ("target 2", [0.0, -0.1])):
        shown = trial.inputs["targets shown"]
        np.testing.assert_allclose(trial.inputs[name] - CENTER, shown * np.array(place), atol=1e-6)
    goal = np.array(late)[:, None] * [0.0, -0.1]
    np.testing.assert_allclose(trial.targets.position - CENTER, goal, atol=1e-6)
    third, fourth = ("cue", "movement") if order == "cue first" else ("undecided", "movement")
    assert [trial.timeline.epochs[name].tolist() for name in (third, fourth)] == [[6, 8], [8, 10]]


def test_targets_colours_and_the_right_one_are_drawn_independently(drawn):
    conditions = {name: np.asarray(value) for name, value in drawn.conditions.items()}
    assert_share(conditions["right target"] == 2, 0.5)
    assert_share(conditions["catch"], 0.1)
    assert_share(conditions["separation"] > 2, 0.5)
    for direction in np.unique(conditions["direction"]):
        assert_share(conditions["right target"][conditions["direction"] == direction] == 2, 0.5)
    assert len(np.unique(conditions["direction"])) == 8  # one label for a direction of either colour
    goes = ~conditions["catch"]
    way = np.asarray(drawn.targets.position)[:, -1] - CENTER
    angle = np.exp(1j * conditions["direction"])
    np.testing.assert_allclose((way @ [1, 1j])[goes], 0.1 * angle[goes], atol=1e-5)
    turn = np.exp(1j * (conditions["direction"] - conditions["other direction"]))
    sign = np.where(conditions["right target"] == 2, 1, -1)
    np.testing.assert_allclose(turn, np.exp(1j * sign * conditions["separation"]), atol=1e-4)


@pytest.mark.parametrize("order", ["cue first", "go first"])
def test_nothing_before_the_cue_says_which_target_is_right(order):
    """So that a choice without it is right by chance, in half of the trials."""
    trials = validation(TwoTargetReaches(WORKSPACE, order=order))
    np.testing.assert_array_equal(trials.conditions["right target"], np.tile([1, 2], 8))
    (cue,) = set(trials.timeline.events["cue on"].tolist())
    for name, values in trials.inputs.items():
        pairs = np.asarray(values)[:, :cue].reshape(8, 2, cue, -1)
        np.testing.assert_array_equal(pairs[:, 0], pairs[:, 1], err_msg=name)


def test_the_target_that_is_reached_is_told_from_the_other(drawn):
    right, n_trials = np.asarray(drawn.conditions["right target"]), len(drawn.conditions["catch"])
    places = np.stack([np.asarray(drawn.inputs[name]) for name in ("target 1", "target 2")])
    shown = np.asarray(drawn.inputs["targets shown"])[..., 0].argmax(axis=1)
    places = places[:, np.arange(n_trials), shown]

    def reached(place):
        return np.asarray(reached_target(jnp.asarray(place)[:, None], drawn))

    np.testing.assert_array_equal(reached(places[right - 1, np.arange(n_trials)]), right)
    for colour in (1, 2):  # a hand that goes to one colour, and knows no cue
        np.testing.assert_array_equal(reached(places[colour - 1]), colour)
        assert_share(reached(places[colour - 1]) == right, 0.5)
    assert not reached(np.tile(CENTER, (n_trials, 1))).any()


def test_a_catch_trial_has_targets_and_a_colour_and_no_go_cue(drawn):
    catch = np.flatnonzero(drawn.conditions["catch"])
    of_catch = jax.tree.map(lambda leaf: leaf[catch], drawn)
    assert of_catch.inputs["go cue"].max() == 0 and of_catch.inputs["targets shown"].max(axis=1).min() == 1
    np.testing.assert_array_equal(of_catch.inputs["color cue"].max(axis=(1, 2)), 1.0)
    assert set(of_catch.timeline.events["go cue"].tolist()) == {popsim.NEVER}
    np.testing.assert_allclose(
        of_catch.targets.position, np.broadcast_to(CENTER, (len(catch), 170, 2)), rtol=1e-6
    )
