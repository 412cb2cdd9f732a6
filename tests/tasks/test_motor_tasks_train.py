"""Small networks learn each motor task with a point mass, to criteria that untrained ones do not meet."""

import numpy as np
import pytest
from motor_training import DT, WORKSPACE, distance_to_target, states_of_drawn, train_motor, within

import popsim
from popsim.analysis.behaviour import path_length
from popsim.distributions import Uniform
from popsim.tasks import (
    CenterOutReaches,
    DelayedReaches,
    ObstacleAvoidance,
    PosturalHold,
    RandomReaches,
    RandomWalk,
    SequentialReaches,
    TargetJump,
    Tracking,
    TwoTargetReaches,
    WithInterventions,
    load_pulses,
    obstacle_clearance,
    random_curl_fields,
    reached_target,
    shortest_path_length,
)

pytestmark = pytest.mark.slow

BRIEF = {"dt": DT, "delay": Uniform(0.1, 0.2)}
DELAYED = DelayedReaches(WORKSPACE, duration=1.2, **BRIEF)
DOUBLE = SequentialReaches(WORKSPACE, reach=0.5, duration=1.3, **BRIEF)
JUMPS = TargetJump(WORKSPACE, dt=DT, jump_time=Uniform(0.1, 0.3), duration=1.0)
SINUSOIDS = Tracking(WORKSPACE, dt=DT, duration=2.0)
AROUND = ObstacleAvoidance(WORKSPACE, dt=DT)
WALK = Tracking(WORKSPACE, RandomWalk(), dt=DT, duration=2.0)
PULSES = WithInterventions(PosturalHold(WORKSPACE, dt=DT, duration=1.0), [load_pulses(Uniform(1.0, 4.0))])
FIELDS = WithInterventions(
    RandomReaches(WORKSPACE, dt=DT), [random_curl_fields(Uniform(-4.0, 4.0), probability=0.5)]
)


def at_the_end(distance, trials):
    return distance[..., -1].mean(axis=1)


def at_the_end_of_each_reach(distance, trials):
    last = [np.asarray(trials.timeline.epochs[name][:, 1]) - 1 for name in ("reach 1", "reach 2")]
    return np.mean([distance[:, np.arange(len(ends)), ends].mean(axis=1) for ends in last], axis=0)


def in_pursuit(distance, trials):
    return np.sqrt(np.mean(distance[:, within(trials, "pursuit")] ** 2, axis=-1))


CASES = {
    "centre-out": (CenterOutReaches(WORKSPACE, dt=DT), (), 100, at_the_end, 0.01),
    "delayed": (DELAYED, (), 150, at_the_end, 0.01),
    "sequential": (DOUBLE, (), 300, at_the_end_of_each_reach, 0.015),
    "jump": (JUMPS, (), 100, at_the_end, 0.01),
    "sinusoids": (SINUSOIDS, (), 300, in_pursuit, 0.015),
    "walk": (WALK, (), 300, in_pursuit, 0.015),
    "pulses": (PULSES, (popsim.interventions.ConstantForce(),), 150, at_the_end, 0.01),
    "fields": (FIELDS, (popsim.interventions.CurlField(),), 100, at_the_end, 0.01),
}


@pytest.mark.full  # in short: test_motor_adaptation_train
@pytest.mark.parametrize("name", CASES)
def test_training_meets_the_criterion(name):
    """Metres of every member: below the limit after training, above it before."""
    task, interventions, n_batches, score, limit = CASES[name]
    untrained, trained = train_motor(task, n_batches, interventions)
    trials = task.validation_trials()
    before, after = (score(distance_to_target(ensemble, task), trials) for ensemble in (untrained, trained))
    assert np.all(before > 3 * limit), before
    assert np.all(after < limit), after


@pytest.mark.full  # in short: test_delayed_reaches
def test_the_hand_waits_for_the_go_cue_and_stays_in_catch_trials():
    """Less than 5 mm of drift before the go cue, and within 1 cm to the end where it never comes."""
    _, trained = train_motor(DELAYED, 200)
    assert np.all(
        distance_to_target(trained, DELAYED)[:, within(DELAYED.validation_trials(), "delay")] < 0.005
    )
    catch = DelayedReaches(WORKSPACE, duration=1.2, catch_probability=1.0, **BRIEF)
    assert np.all(distance_to_target(trained, catch, n_drawn=50).max(axis=-1).mean(axis=1) < 0.01)


@pytest.mark.full  # in short: test_obstacle_avoidance
def test_the_hand_stays_out_of_the_obstacle_by_a_path_that_is_near_the_shortest():
    """It ends within 1 cm, enters in less than 2 % of drawn trials, and takes at most 1.5 times the bound."""
    untrained, trained = train_motor(AROUND, 200)
    for ensemble, learned in ((untrained, False), (trained, True)):
        states, trials = states_of_drawn(ensemble, AROUND, 200)
        lowest = np.asarray(obstacle_clearance(states.cursor.position, trials)).min(axis=-1)
        away = np.linalg.norm(states.cursor.position - trials.targets.position, axis=-1)[..., -1].mean(axis=1)
        assert np.all((away < 0.01) == learned) and np.all((away > 0.03) != learned)
    there = np.asarray(trials.conditions["obstacle"])
    assert np.all(np.mean(lowest[:, there] < 0, axis=1) < 0.02)
    ratio = path_length(states.cursor.position) / np.asarray(shortest_path_length(trials))
    assert np.all(ratio.mean(axis=1) < 1.5) and np.all(ratio[:, there] > 0.95)


@pytest.mark.full  # in short: test_two_target_reaches
@pytest.mark.parametrize("order", ["cue first", "go first"])
def test_the_colour_tells_which_of_two_remembered_targets_to_reach(order):
    """In 95 % of drawn trials, by chance in half of them; and the hand stays where no go cue comes."""
    times = {"memory": Uniform(0.1, 0.2), "cue": Uniform(0.1, 0.2), "duration": 1.3}
    task = TwoTargetReaches(WORKSPACE, order=order, dt=DT, **times)
    _, trained = train_motor(task, 1000)
    states, trials = states_of_drawn(trained, task, 200)
    reached = np.asarray(reached_target(states.cursor.position, trials))
    catch = np.asarray(trials.conditions["catch"])
    is_right = reached == np.asarray(trials.conditions["right target"])
    assert np.all(is_right[:, ~catch].mean(axis=1) > 0.95)
    assert np.all((reached[:, catch] == 0).mean(axis=1) > 0.9)
    assert np.all(distance_to_target(trained, task)[..., -1].mean(axis=1) < 0.015)
