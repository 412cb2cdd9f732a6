"""Best players and observers refuse tasks that they cannot know, by name, and take all others."""

import inspect

import jax
import numpy as np
import pytest

import popsim
from popsim import tasks

SIDES = np.ones((1, 3), int)
BY_FUNCTION = {  # the class of the task, one of its numbers, and the other arguments
    tasks.KalmanBandit: (tasks.DriftingBandit, "drift_std"),
    tasks.TwoStepObserver: (tasks.TwoStepTask, "hazard_rate"),
    tasks.WagerObserver: (tasks.PostDecisionWager, "noise"),
    tasks.optimal_decisions: (tasks.ReactionTimeDecision, "noise"),
    tasks.optimal_clicks: (tasks.ReactionTimeClicks, "total_rate"),
    tasks.reward_in_staircase: (tasks.StaircaseDecision, "noise_std"),
    tasks.ChangingEnvironmentObserver: (tasks.ChangingEnvironment, "noise_std"),
    tasks.reward_in_changing_environment: (tasks.ChangingEnvironment, "noise_std"),
    tasks.rule_choices: (tasks.HierarchicalReasoning, "weber_fraction", None),
    tasks.accuracy_with_rule: (tasks.HierarchicalReasoning, "weber_fraction"),
    tasks.block_prior: (tasks.BlockDecisions, "probability", SIDES),
    tasks.block_choices: (tasks.BlockDecisions, "noise", None),
    tasks.accuracy_with_prior: (tasks.BlockDecisions, "noise", 0.5, 1.0),
    tasks.estimate_interval: (tasks.OneTwoThreeGo, "weber_fraction", SIDES),
    tasks.interval_error: (tasks.OneTwoThreeGo, "weber_fraction"),
    tasks.favourite_accuracy: (tasks.EconomicChoice, "relative_value"),
    tasks.category_accuracy: (tasks.DelayedMatchToCategory, "noise", 1.0),
    tasks.category_log_odds: (tasks.DelayedMatchToCategory, "noise", SIDES),
    tasks.multisensory_accuracy: (tasks.MultisensoryIntegration, "boundary", 9.0, 0, 1.0),
    tasks.go_log_odds: (tasks.DelayedGoNoGo, "noise", {}),
    tasks.signal_log_odds: (tasks.SignalDetection, "noise", {}),
    tasks.economic_choice_log_odds: (tasks.EconomicChoice, "noise", {}),
    tasks.dual_match_log_odds: (tasks.DualDelayedMatchToSample, "noise", {}),
    tasks.category_match_log_odds: (tasks.DelayedMatchToCategory, "noise", {}),
    tasks.association_log_odds: (tasks.DelayedPairedAssociation, "noise", {}),
    tasks.multisensory_log_odds: (tasks.MultisensoryIntegration, "noise", {}),
    tasks.direction_category_log_odds: (tasks.DirectionCategory, "noise", SIDES),
}
OF_RINGS = {tasks.RingObserver: (), tasks.decision_bound: ({},)}
WRAPPERS = {
    tasks.HeldOutConditions,
    tasks.ParameterCurriculum,
    tasks.Session,
    tasks.WithFixation,
    tasks.WithInterventions,
}


def takes_a_task(value):
    return callable(value) and "task" in inspect.signature(value).parameters


def test_all_that_know_a_task_are_listed_here():
    known = {value for name in tasks.__all__ if takes_a_task(value := getattr(tasks, name))}
    assert known == {*BY_FUNCTION, *OF_RINGS, *WRAPPERS}


def assert_refused(function, kind, number, of_two, arguments):
    with pytest.raises(ValueError, match=f"`task` must be a task of the class {kind.__name__}, got a Flip"):
        function(tasks.FlipFlop(), *arguments)
    with pytest.raises(ValueError, match=rf"`task.{number}` differs between members: give .*select_member"):
        function(of_two, *arguments)


@pytest.mark.parametrize("function", BY_FUNCTION, ids=lambda function: function.__name__)
def test_tasks_that_are_not_known_are_refused(function, as_users_run):
    kind, number, *arguments = BY_FUNCTION[function]
    values = np.stack([np.asarray(getattr(kind(), number))] * 2)
    of_two = kind(**{number: popsim.PerMember(values)})
    assert_refused(function, kind, number, of_two, arguments)
    if number == "noise":
        with pytest.raises(ValueError, match=r"`task.noise` must be finite and above zero, got 0"):
            function(kind(noise=0 * values[0]), *arguments)


@pytest.mark.parametrize("function", OF_RINGS, ids=lambda function: function.__name__)
def test_suites_that_are_not_known_are_refused(function, as_users_run):
    of_two = tasks.yang2019(("go", "anti"), noise=popsim.PerMember([0.1, 0.2]))
    assert_refused(function, tasks.RingTask, "noise", of_two, OF_RINGS[function])


def test_a_loss_per_member_and_subclasses_are_taken():
    class Mine(tasks.StaircaseDecision):
        """With another name."""

    loss = tasks.reward_loss() + popsim.PerMember([0.0, 1.0]) * popsim.losses.Entropy(name="more entropy")
    reward = tasks.reward_in_staircase(tasks.StaircaseDecision())
    assert tasks.reward_in_staircase(Mine(loss=loss)) == reward


def test_an_observer_is_computed_under_transformations():
    task = tasks.DelayedGoNoGo()
    inputs = jax.vmap(lambda key: task.trial(batch=0, key=key))(jax.random.split(jax.random.key(0), 3)).inputs
    by_trial = [tasks.go_log_odds(task, {"stimulus": stimulus}) for stimulus in inputs["stimulus"]]
    at_once = jax.jit(jax.vmap(tasks.go_log_odds, (None, 0)))(task, inputs)
    np.testing.assert_allclose(at_once, by_trial, rtol=1e-5)
