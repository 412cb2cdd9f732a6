"""Settings of tasks that would give wrong trials, or none, are refused by the name of the argument."""

import dataclasses
import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim import tasks
from popsim.distributions import Choice, Uniform
from popsim.tasks.library import TASKS, task_definition

WORKSPACE = popsim.Workspace([-0.1, 0.3], [0.2, 0.5])
KINDS = [kind for name in TASKS if inspect.isclass(kind := task_definition(name))]
BAD = {
    0.0: "bin_duration correlation_time decision distance durations flash foreperiod frequency gain hold "
    "interval jump_time pairs passing_time pulse radius ramp rate relative_value reveal_distance separation "
    "signal speed speed_time start total_rate validation_distance width",
    -1.0: "amplitude border drift_std grace n_unbiased noise noise_std offers overshoot penalty "
    "response_counts silence_counts turning waiting_cost",
    1.5: "decay hazard_rate probabilities probability weber_fraction",
    2.0: "coherence contrast",
    np.nan: "center early_payoff error_payoff log_ratio null offset silence sure_payoff",
}
BAD = {name: bad for bad, names in BAD.items() for name in names.split()}
KEY = jax.random.key(0)
RANGE = Uniform(0.1, 0.2)
GO = {"fixation": 0.2, "stimulus 1": 0.2, "response": 0.2}
RELATED = "duration|epochs|boundary|rotation|n_directions|radius|interval|border|value"


def build(kind, **options):
    return (
        kind(WORKSPACE, **options) if "workspace" in inspect.signature(kind).parameters else kind(**options)
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_field_is_what_its_name_says_and_none_or_drawn_only_where_it_may_be(kind, as_users_run):
    default = build(kind)
    for field in dataclasses.fields(kind):
        name, has_check = field.name, field.metadata.get("check") is not None
        bad = BAD.get(name, 1.5 if name.endswith("probability") else 0 if name.startswith("n_") else None)
        shape = np.shape(getattr(default, name)) if name in BAD else ()
        assert has_check or bad is None or name == "grace", name  # which is counted in time steps
        if bad is not None:
            with pytest.raises(ValueError, match=f"`({name}|{RELATED})`"):
                build(kind, **{name: np.full(shape, bad) if shape else bad})
        others = [None] * ("None" not in str(field.type)) + [RANGE] * (not field.metadata.get("is_drawn"))
        for other in ["text", *others] if has_check else []:
            with pytest.raises(ValueError, match=f"`{name}`"):
                build(kind, **{name: other})


def test_the_docstring_says_of_each_field_what_it_is_for():
    for kind in KINDS:
        said = inspect.getdoc(kind).partition("**Arguments:**")[2]
        names = [line.split("`")[1] for line in said.splitlines() if line.startswith("- ")]
        assert sorted(names) == sorted(inspect.signature(kind).parameters) or kind is tasks.MultiTask, kind


def observe(task, condition="choice"):
    return tasks.choice_probabilities(task, task.validation_trials(), condition)


def rule(response="pro", durations=GO, first_shown="stimulus 1", **options):
    return tasks.RingRule(response, durations, first_shown=first_shown, **options)


def stronger(**options):
    return rule("stronger", second_shown="stimulus 1", distance=3.0, **options)


class LouderDecision(tasks.PerceptualDecision):
    """A class of a user with another default of a field of popsim, and a check of its own."""

    noise: jax.Array = eqx.field(kw_only=True, converter=jnp.asarray, default=0.2)

    def __check_init__(self):
        assert self.noise * self.dt > 0


class PlainDecision(tasks.PerceptualDecision):
    """A class of a user with other defaults of fields of popsim; its `width` is none of these."""

    noise: float = 0.2
    n_streams: int = 2
    width: float = -1.0


@pytest.mark.parametrize("kind", [LouderDecision, PlainDecision])
def test_a_field_that_is_declared_anew_is_checked_and_described_as_before(kind, as_users_run):
    assert kind().noise == 0.2
    assert "- `noise`: sigma of" in inspect.getdoc(kind)
    for bad in (-1.0, np.nan):
        with pytest.raises(ValueError, match="`noise`"):
            kind(noise=bad)
    with pytest.raises(ValueError, match="`dt`"):
        kind(dt="1 ms")
    with pytest.raises(ValueError, match="`n_streams`"):
        kind(n_streams=7)
    base = jax.tree.structure(dataclasses.replace(tasks.PerceptualDecision(), n_streams=2))
    assert kind is LouderDecision or base.num_leaves == len(jax.tree.leaves(kind())) - 1


BLOCKS, JUMP, REACH = tasks.BlockDecisions, tasks.TargetJump, tasks.DelayedReaches
SPECIAL = [
    (lambda: tasks.DriftingBandit(decay=1.0), "decay"),
    (lambda: BLOCKS(block_length=0.5), "block_length"),
    (lambda: BLOCKS(contrast=-0.5), "contrast"),
    (lambda: BLOCKS(decision=0.1), "decision"),
    (lambda: tasks.SignalDetection(signal=0.07), "signal"),
    (lambda: tasks.DelayedMatchToCategory(n_directions=7), "n_directions"),
    (lambda: tasks.DelayedMatchToSample(rotation=2), "rotation"),
    (lambda: tasks.DelayedMatchToSample(yes_to="both"), "yes_to"),
    (lambda: tasks.DualDelayedMatchToSample(grace=0.5), "grace"),
    (lambda: tasks.MultisensoryIntegration(noise=0.1), "noise"),
    (lambda: tasks.PulseDecision(probabilities=(0.7, 0.3)), "probabilities"),
    (lambda: tasks.PulseDecision(bin_duration=0.12), "bin_duration"),
    (lambda: tasks.PoissonClicks(total_rate=300.0), "total_rate"),
    (lambda: tasks.PoissonClicks(log_ratio=Choice([[1.0, 2.0]])), "log_ratio"),
    (lambda: tasks.EconomicChoice(offers=[[1.0, 2.2]]), "offers"),
    (lambda: tasks.DelayedComparison(pairs=[[10.0, 10.0]]), "pairs"),
    (lambda: tasks.ContextIntegration(n_outputs=3), "n_outputs"),
    (lambda: tasks.AngleReproduction(n_channels=2), "n_channels"),
    (lambda: tasks.DirectionCategory(boundary=12), "boundary"),
    (lambda: tasks.FlipFlop(n_bits=11), "n_bits"),
    (lambda: tasks.FlipFlop(duration=0.995), "duration"),
    (lambda: tasks.IntervalDiscrimination(durations=[0.3, 0.3, 0.4]), "durations"),
    (lambda: tasks.IntervalDiscrimination(durations=popsim.PerMember([[0.3, 0.4], [0.2, 0.2]])), "durations"),
    (lambda: tasks.OneTwoThreeGo(interval=0.15), "interval"),
    (lambda: tasks.ReadySetGo(weber_fraction=0.3, duration=5.0), "weber_fraction"),
    (lambda: tasks.SineGeneration(frequency=26.0), "frequency"),
    (lambda: tasks.PathIntegration(border=1.1), "border"),
    (lambda: tasks.StaircaseDecision(coherences=(0.2, 0.1)), "coherences"),
    (lambda: tasks.ReactionTimeClicks(error_payoff=popsim.PerMember([0.0, 1.5])), "error_payoff"),
    (lambda: build(tasks.ObstacleAvoidance, distance=Uniform(0.05, 0.2)), "radius"),
    (lambda: build(JUMP, displacement=0.03), "displacement"),
    (lambda: build(REACH, distance=Uniform(-0.1, 0.1)), "distance"),
    (lambda: build(tasks.Tracking, start=3.0), "duration"),
    (lambda: tasks.SumOfSinusoids([0.1, 0.2], [0.6, 0.5]), "amplitudes"),
    (lambda: tasks.SumOfSinusoids([0.1, 0.2], [0.5]), "amplitudes"),
    (lambda: tasks.RandomWalk(speed=0.0), "speed"),
    (lambda: tasks.RingCode(40.0), "n_units"),
    (lambda: tasks.RingCode(np.nan), "n_units"),
    (lambda: tasks.SineCode(2.0), "n_units"),
    (lambda: tasks.RingTask({"go": rule()}, noise=-1.0), "noise"),
    (lambda: tasks.RandomPlayer(0), "n_actions"),
    (lambda: tasks.ModelFreeAgent(learning_rate=1.5), "learning_rate"),
    (lambda: tasks.adaptation_plan("curl field", np.nan, ramp=2), "parameters"),
    (lambda: tasks.channel_trials(stiffness=-1.0), "stiffness"),
    (lambda: tasks.GoResponse(grace=-0.1), "grace"),
    # What is not drawn in each trial, and what the checks of a class compute with.
    (lambda: tasks.SumOfSinusoids(RANGE), "frequencies"),
    (lambda: tasks.SumOfSinusoids([0.1, 0.2], RANGE), "amplitudes"),
    (lambda: tasks.ReversalObserver(reward_probability=RANGE, hazard_rate=0.1), "reward_probability"),
    (lambda: tasks.PerceptualDecision(response="x"), "response"),
    (lambda: tasks.SumOfSinusoids("0.1 Hz"), "frequencies"),
    (lambda: tasks.ReversalObserver(reward_probability="high", hazard_rate=0.1), "reward_probability"),
    (lambda: tasks.StaircaseDecision(coherences=0.5), "coherences"),
    (lambda: tasks.DelayedMatchToSample(n_directions=0.5), "n_directions"),
    # What does not fit into a trial.
    (lambda: tasks.PerceptualDecision(stimulus=0.3, fixation=0.2, delay=0.1, duration=0.6), "duration"),
    (lambda: tasks.GoNoGo(foreperiod=1.2), "duration"),
    (lambda: tasks.ContextIntegration(delay=0.06), "duration"),
    (lambda: tasks.CueSetGo(interval=2.0), "duration"),
    (lambda: tasks.ReadySetGo(gain=2.0), "duration"),
    (lambda: tasks.DelayedMatchToSample(dt=0.035), "duration"),
    (lambda: build(tasks.HeldReach, hold=3.0), "duration|epochs"),
    (lambda: build(REACH, delay=1.4), "duration"),
    (lambda: build(REACH, delay=Uniform(0.1, 2.0)), "epochs"),
    (lambda: build(JUMP, jump_time=1.2), "duration"),
    # What best players and observers cannot know.
    (lambda: observe(tasks.IntervalDiscrimination()), "task"),
    (lambda: observe(tasks.MultisensoryIntegration(), "modality"), "condition"),
    (lambda: observe(tasks.DualDelayedMatchToSample(), "choice"), "condition"),
    (lambda: observe(tasks.MultisensoryIntegration(rate=Uniform(9.0, 16.0))), r"task.draws\(\)"),
    (lambda: tasks.block_prior(BLOCKS(block_length=30.0), [[0, 1]]), "block_length"),
    (lambda: tasks.ReversalObserver(reward_probability=0.3, hazard_rate=0.1), "reward_probability"),
    (lambda: tasks.play(tasks.ThompsonSampling(2), tasks.GoNoGo().validation_trials(), key=KEY), "trials"),
    # Mixtures, suites and protocols.
    (lambda: tasks.MultiTask({}), "tasks"),
    (lambda: tasks.MultiTask((tasks.SineGeneration(),)), "names"),
    (lambda: tasks.MultiTask((tasks.SineGeneration(),), names=("sine", "other")), "names"),
    (lambda: tasks.Mixture([tasks.SineGeneration()], {"0": 1.0}), "shares"),
    (lambda: tasks.MultiTask({"sine": tasks.SineGeneration()}, shares=[1.0, 1.0]), "shares"),
    (lambda: tasks.MultiTask({"sine": tasks.SineGeneration()}, shares={"z": 1.0}), "shares"),
    (lambda: tasks.MultiTask({"sine": tasks.SineGeneration()}, shares=[-1.0]), "shares"),
    (lambda: tasks.yang2019("fdgo"), "rules"),
    (lambda: tasks.yang2019(shares={"juggling": 1.0}), "shares"),
    (lambda: tasks.yang2019(duration=4.0), "duration"),
    (lambda: tasks.RingTask({"go": rule()}, grace=0.2), "grace"),
    (lambda: rule("back"), "response"),
    (lambda: rule(first_shown="stimulus 2"), "durations"),
    (lambda: rule(durations=GO | {"fixation": Uniform(-0.1, 0.2)}), "durations"),
    (lambda: rule("match"), "second_shown"),
    (lambda: rule("match", second_shown="response"), "distance"),
    (lambda: rule(match_probability=0.5), "match_probability"),
    (lambda: stronger(), "coherence"),
    (lambda: stronger(coherence=0.2, rings="1", relevant="2"), "relevant"),
    (lambda: tasks.adaptation_plan("curl field", 5.0, (("a", 1, 0.0), ("a", 2, 1.0))), "phases"),
    (lambda: tasks.adaptation_plan("curl field", 5.0, ramp=201), "ramp"),
    (lambda: tasks.adaptation_plan("curl field", 5.0, null=(0.0, 1.0), ramp=2), "null"),
    (lambda: tasks.adaptation_plan("curl field", Uniform(0.0, 1.0), ramp=2), "parameters"),
]


@pytest.mark.parametrize(("call", "name"), SPECIAL)
def test_what_would_be_wrong_in_silence_is_refused(call, name, as_users_run):
    with pytest.raises(ValueError, match=rf"`({name})(\[.*\])?(`| of )"):
        call()
