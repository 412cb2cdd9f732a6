"""Best players and observers refuse tasks that they cannot know, by name."""

import numpy as np
import pytest

import popsim
from popsim import tasks

SIDES = np.ones((1, 3), int)
BY_FUNCTION = {  # the class of the task, and one of its numbers
    tasks.KalmanBandit: (tasks.DriftingBandit, "drift_std"),
    tasks.TwoStepObserver: (tasks.TwoStepTask, "hazard_rate"),
    tasks.WagerObserver: (tasks.PostDecisionWager, "noise"),
    tasks.optimal_decisions: (tasks.ReactionTimeDecision, "noise"),
    tasks.optimal_clicks: (tasks.ReactionTimeClicks, "total_rate"),
    tasks.reward_in_staircase: (tasks.StaircaseDecision, "noise_std"),
    tasks.ChangingEnvironmentObserver: (tasks.ChangingEnvironment, "noise_std"),
    tasks.reward_in_changing_environment: (tasks.ChangingEnvironment, "noise_std"),
    tasks.accuracy_with_rule: (tasks.HierarchicalReasoning, "weber_fraction"),
    tasks.interval_error: (tasks.OneTwoThreeGo, "weber_fraction"),
    tasks.favourite_accuracy: (tasks.EconomicChoice, "relative_value"),
    tasks.block_prior: (tasks.BlockDecisions, "probability", SIDES),
    tasks.category_accuracy: (tasks.DelayedMatchToCategory, "noise", 1.0),
    tasks.multisensory_accuracy: (tasks.MultisensoryIntegration, "boundary", 9.0, 0, 1.0),
    tasks.go_log_odds: (tasks.DelayedGoNoGo, "noise", {}),
    tasks.signal_log_odds: (tasks.SignalDetection, "noise", {}),
    tasks.economic_choice_log_odds: (tasks.EconomicChoice, "noise", {}),
    tasks.dual_match_log_odds: (tasks.DualDelayedMatchToSample, "noise", {}),
    tasks.category_match_log_odds: (tasks.DelayedMatchToCategory, "noise", {}),
    tasks.association_log_odds: (tasks.DelayedPairedAssociation, "noise", {}),
    tasks.multisensory_log_odds: (tasks.MultisensoryIntegration, "noise", {}),
}


@pytest.mark.parametrize("function", BY_FUNCTION, ids=lambda function: function.__name__)
def test_tasks_that_are_not_known_are_refused(function, as_users_run):
    kind, number, *arguments = BY_FUNCTION[function]
    with pytest.raises(ValueError, match=f"`task` must be a task of the class {kind.__name__}, got"):
        function(tasks.FlipFlop(), *arguments)
    values = np.stack([np.asarray(getattr(kind(), number))] * 2)
    of_two = kind(**{number: popsim.PerMember(values)})
    with pytest.raises(ValueError, match=rf"`task.{number}` differs between members: give `popsim.select_"):
        function(of_two, *arguments)
    if number == "noise":
        with pytest.raises(ValueError, match="`noise` must be finite and above zero, got 0"):
            function(kind(noise=0 * values[0]), *arguments)
