"""Settings of tasks that would give wrong trials, or none, are refused by the name of the argument."""

import jax.numpy as jnp
import pytest

import popsim
from popsim import tasks
from popsim.distributions import Choice, Normal, Uniform

WORKSPACE = popsim.Workspace([-0.1, 0.3], [0.2, 0.5])
MOTOR = "popsim.tasks.motor"


class Each(tuple):
    """Several bad values of one argument."""

    def __new__(cls, *values):
        return super().__new__(cls, values)


REFUSED = {
    tasks.BernoulliBandit: dict(n_arms=0, probability=1.5, n_choices=0),
    tasks.DriftingBandit: dict(decay=1.0, noise_std=-1.0),
    tasks.ReversalLearning: dict(hazard_rate=2.0, reward_probability=-0.1),
    tasks.TwoStepTask: dict(common_probability=1.1),
    tasks.GoNoGo: dict(go_probability=2.0),
    tasks.AntiResponse: dict(waiting_cost=-1.0),
    tasks.ReactionTimeDecision: dict(noise=-1.0),
    tasks.PostDecisionWager: dict(offer_probability=2.0),
    tasks.BlockDecisions: dict(
        n_trials=0,
        probability=1.2,
        block_length=0.5,
        contrast=-0.5,
        decision=0.1,
        duration=0.6,
        n_unbiased=-1,
    ),
    tasks.HierarchicalReasoning: dict(boundary=0.0),
    tasks.ChangingEnvironment: dict(hazard_rate=2.0, noise_std=0.0, coherence=2.0, n_choices=0),
    tasks.DelayedGoNoGo: dict(go_probability=1.5),
    tasks.SignalDetection: dict(amplitude=0.0, signal=0.07, n_onsets=0, signal_probability=-0.1),
    tasks.DelayedMatchToCategory: dict(n_directions=7, match_probability=2.0),
    tasks.DelayedPairedAssociation: dict(go_probability=-1.0, duration=4.0),
    tasks.DualDelayedMatchToSample: dict(match_probability=2.0, noise=-1.0, grace=0.5, duration=3.9),
    tasks.MultisensoryIntegration: dict(noise=0.1, rate=-1.0, boundary=0.0),
    tasks.PulseDecision: dict(probabilities=(0.7, 0.3), n_bins=0, bin_duration=0.12, correct_side="left"),
    tasks.PoissonClicks: dict(total_rate=300.0, log_ratio=Choice([[1.0, 2.0]])),
    tasks.EconomicChoice: dict(offers=Each([[1.0, 2.2]], [1.0, 2.0]), relative_value=0.0),
    tasks.ContextIntegration: dict(n_outputs=3, noise=-1.0),
    tasks.DelayedReaches: dict(
        distance=Each(0.0, Uniform(-0.1, 0.1)),
        n_directions=0,
        hold=0.0,
        delay=Uniform(0.0, 0.2),
        catch_probability=1.1,
        duration=1.005,
        dt=0.0,
    ),
    tasks.DelayedComparison: dict(
        pairs=Each([[10.0, 10.0]], [[10.0, -5.0]], [10.0, 12.0]), noise=-1.0, duration=1.2
    ),
    tasks.DelayedMatchToSample: dict(
        n_directions=1, rotation=2, yes_to="both", match_probability=2.0, noise=-1.0
    ),
    tasks.DelayedResponse: dict(n_directions=7, anti_probability=-0.1, noise=-1.0, duration=1.0),
    tasks.AngleReproduction: dict(n_channels=2, noise=-1.0, duration=3.1),
    tasks.DirectionCategory: dict(n_directions=7, boundary=12, duration=2.2),
    tasks.ProbabilisticReasoning: dict(weights=[1.0], n_shapes=0, duration=3.1),
    tasks.FlipFlop: dict(n_bits=Each(0, 11), pulse_probability=1.1, dt=0.0, duration=0.995),
    tasks.HeldReach: dict(radius=0.0, hold=0.0, penalty=-1.0),
    tasks.Interception: dict(speed=0.0, passing_time=0.0),
    tasks.GoBeforeYouKnow: dict(separation=0.0, reveal_distance=-0.1),
    tasks.IntervalDiscrimination: dict(
        durations=Each([0.3], [0.3, 0.3, 0.4], [0.3, 0.42]), noise=-1.0, duration=2.3
    ),
    tasks.CueSetGo: dict(interval=0.0, pulse=0.0),
    tasks.OneTwoThreeGo: dict(weber_fraction=-0.1, interval=0.15),
    tasks.ObstacleAvoidance: dict(
        distance=0.0,
        n_directions=0,
        radius=Each(0.0, 0.08, Uniform(0.01, 0.2)),
        obstacle_probability=1.1,
        duration=1.005,
    ),
    tasks.PathIntegration: dict(
        width=0.0,
        speed=-1.0,
        speed_time=0.0,
        turning=-1.0,
        border=1.1,
        noise=-0.1,
        velocity_input="polar",
        pulse=Each(0.0, 0.12, 2.1),
        duration=2.12,
    ),
    tasks.PerceptualDecision: dict(n_streams=3, noise=-0.1),
    tasks.PosturalHold: dict(hold=-0.1, pulse=0.0, duration=0.0),
    tasks.SequentialReaches: dict(
        n_targets=0,
        reach=0.0,
        delay=Uniform(-0.1, 0.1),
        catch_probability=-0.1,
        validation_distance=0.0,
        duration=1.605,
    ),
    tasks.StaircaseDecision: dict(
        coherences=Each((0.1,), (0.2, 0.1), popsim.PerMember([[0.1, 0.2], [0.2, 0.1]]), (-0.1, 0.1)),
        noise_std=0.0,
        n_correct=0,
        n_choices=0,
    ),
    tasks.TargetJump: dict(
        jump_probability=1.5,
        displacement=Each(0.03, Choice([[0.0, 0.0, 0.03]]), Normal([0.0, 0.0], [0.01, 0.01])),
        jump_time=0.0,
        distance=-0.1,
        n_directions=0,
        dt=-0.01,
    ),
    tasks.ReactionTimeClicks: dict(
        total_rate=Each(0.0, 101.0, popsim.PerMember([40.0, 101.0])),
        error_payoff=Each(1.5, popsim.PerMember([0.0, 1.5])),
        duration=0.1,
    ),
    tasks.ReadySetGo: dict(gain=0.0, pulse=0.0, overshoot=-0.1, catch_probability=2.0),
    tasks.SineGeneration: dict(frequency=Each(0.0, 26.0), amplitude=-1.0, duration=0.99),
    tasks.TwoTargetReaches: dict(
        order="both",
        distance=0.0,
        separation=0.0,
        hold=0.0,
        targets=0.0,
        memory=Uniform(-0.1, 0.2),
        cue=0.0,
        duration=1.705,
    ),
    tasks.CenterOutReaches: dict(distance=Each(0.0, float("inf")), n_directions=0),
    tasks.RandomReaches: dict(validation_distance=Each(0.0, -0.1)),
}
OTHERS = [
    (tasks.GoNoGo, {"foreperiod": 1.2}, "duration"),
    (tasks.HierarchicalReasoning, {"weber_fraction": 0.3}, "duration|epochs"),
    (tasks.SignalDetection, {"n_onsets": 14}, "duration"),
    (tasks.ContextIntegration, {"delay": 0.06}, "duration"),
    (tasks.DelayedReaches, {"delay": 1.4}, "duration"),
    (tasks.DelayedReaches, {"delay": 1.45}, "epochs"),
    (tasks.DelayedReaches, {"delay": Uniform(0.1, 2.0)}, "epochs"),
    (tasks.DelayedMatchToSample, {"dt": 0.035}, "duration"),
    (tasks.CueSetGo, {"interval": 2.0}, "duration"),
    (tasks.OneTwoThreeGo, {"interval": 1.4}, "epochs|duration"),
    (tasks.ObstacleAvoidance, {"distance": Uniform(0.05, 0.2)}, "radius"),
    (tasks.PosturalHold, {"pulse": 0.7}, "duration"),
    (tasks.PosturalHold, {"pulse": 0.8}, "epochs"),
    (tasks.PosturalHold, {"dt": 0.7}, "duration"),
    (tasks.SequentialReaches, {"reach": 1.5}, "epochs"),
    (tasks.SequentialReaches, {"n_targets": 4}, "epochs"),
    (tasks.SequentialReaches, {"delay": 0.5, "reach": 1.1}, "duration"),
    (tasks.TargetJump, {"jump_time": Uniform(0.1, 1.3)}, "epochs"),
    (tasks.TargetJump, {"jump_time": 1.2}, "duration"),
    (tasks.ReadySetGo, {"gain": 2.0}, "duration"),
    (tasks.TwoTargetReaches, {"targets": 1.1}, "epochs"),
    (tasks.TwoTargetReaches, {"cue": 1.1}, "duration"),
    (tasks.RandomReaches, {"duration": 0.995, "dt": 0.01}, "duration"),
    (tasks.CenterOutReaches, {"duration": 1.0, "dt": 0.03}, "duration"),
]


def build(kind, **options):
    return kind(WORKSPACE, **options) if kind.__module__.startswith(MOTOR) else kind(**options)


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.__name__)
def test_bad_values_are_refused_by_name(kind, as_users_run):
    for name, values in REFUSED[kind].items():
        for value in values if isinstance(values, Each) else (values,):
            with pytest.raises(ValueError, match=f"`{name}`"):
                build(kind, **{name: value})


@pytest.mark.parametrize(("kind", "options", "name"), OTHERS, ids=str)
def test_what_does_not_fit_into_a_trial_is_refused(kind, options, name, as_users_run):
    with pytest.raises(ValueError, match=f"`({name})`"):
        build(kind, **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tasks.detection_accuracy(0.0), "`d_prime`"),
        (lambda: tasks.detection_accuracy(1.0, probability=1.0), "`probability`"),
        (
            lambda: tasks.accuracy_with_prior(tasks.BlockDecisions(contrast=0.5), 0.8, 0.3),
            "`contrast` of `task`",
        ),
        (
            lambda: tasks.block_prior(tasks.BlockDecisions(block_length=30.0), [[0, 1]]),
            "`block_length` of `task`",
        ),
        (
            lambda: tasks.multisensory_log_odds(tasks.MultisensoryIntegration(rate=12.0), {}),
            "`rate` of `task`",
        ),
        (lambda: tasks.interval_error(tasks.OneTwoThreeGo(interval=0.7)), "`interval` of `task`"),
        (lambda: tasks.interval_error(tasks.OneTwoThreeGo(), n_intervals=3), "`n_intervals`"),
        (lambda: tasks.bayes_least_squares(jnp.array([0.5]), Normal(0.7, 0.1), 0.1), "`prior`"),
        (lambda: tasks.bayes_least_squares(jnp.array([0.5]), Uniform(0.6, 1.0), 0.0), "`weber_fraction`"),
        (lambda: tasks.ReadySetGo(weber_fraction=0.3, duration=5.0), "`weber_fraction`"),
        (
            lambda: tasks.ChangingEnvironmentObserver(tasks.ChangingEnvironment(coherence=0.3)),
            "`coherence` of",
        ),
        (
            lambda: tasks.ChangingEnvironmentObserver(tasks.ChangingEnvironment(hazard_rate=Uniform(0, 0.2))),
            "`hazard_rate` of",
        ),
        (lambda: tasks.ReversalObserver(reward_probability=0.3, hazard_rate=0.1), "at least 0.5"),
        (lambda: tasks.TwoStepObserver(tasks.TwoStepTask(reward_probability=0.3)), "at least 0.5"),
        (lambda: tasks.integration_error(0.1, jnp.array([-1.0])), "`seconds`"),
        (lambda: tasks.channel_trials(stiffness=-1.0), "`stiffness`"),
        (lambda: tasks.channel_trials(damping=-1.0), "`damping`"),
        (lambda: tasks.Tracking(WORKSPACE, ramp=0.0), "`ramp`"),
        (lambda: tasks.Tracking(WORKSPACE, start=3.0), "`duration`"),
        (lambda: tasks.Tracking(WORKSPACE, n_validation_trials=0), "`n_validation_trials`"),
        (lambda: tasks.SumOfSinusoids([0.0], [0.1]), "`frequencies`"),
        (lambda: tasks.SumOfSinusoids([0.1], [-0.1]), "`amplitudes`"),
        (lambda: tasks.SumOfSinusoids([0.1, 0.2], [0.6, 0.5]), "`amplitudes`"),
        (lambda: tasks.SumOfSinusoids([0.1, 0.2], [0.5]), "`amplitudes`"),
        (lambda: tasks.RandomWalk(speed=0.0), "`speed`"),
        (lambda: tasks.RandomWalk(correlation_time=-1.0), "`correlation_time`"),
        (lambda: tasks.GoResponse(grace=-0.1), "`grace`"),
        (lambda: tasks.GoResponse(silence_counts=-1.0), "`silence_counts`"),
        (lambda: tasks.GoResponse(catch_probability=1.5), "`catch_probability`"),
    ],
)
def test_what_cannot_be_known_or_done_is_refused(call, message, as_users_run):
    with pytest.raises(ValueError, match=message):
        call()
