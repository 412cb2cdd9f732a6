"""The names of tasks in other libraries, beside those of popsim: one line for each.

`popsim list --like neurogym` prints them, and the site has them as a page.
"""

import dataclasses
from collections.abc import Iterable


@dataclasses.dataclass(frozen=True)
class Counterpart:
    """A task of another library, and the tasks of popsim that are like it.

    - `name`: as the other library spells it.
    - `popsim`: names of `popsim.tasks.TASKS`; none if popsim has no such task.
    - `note`: what differs, or what the task is.
    """

    name: str
    popsim: tuple[str, ...]
    note: str


@dataclasses.dataclass(frozen=True)
class Library:
    """A library of tasks.

    - `title`: its name.
    - `version`: the version, or the state of the repository, whose tasks are listed.
    - `naming`: how it names tasks.
    - `tasks`: all its tasks, in its order.
    """

    title: str
    version: str
    naming: str
    tasks: tuple[Counterpart, ...]


def _counterparts(lines: Iterable[tuple[str, str, str]]) -> tuple[Counterpart, ...]:
    """Return the tasks of lines, each with the names of popsim's tasks separated by blanks."""
    return tuple(Counterpart(name, tuple(alike.split()), note) for name, alike, note in lines)


_NEUROGYM = [
    ("AntiReach-v0", "delayed-response", "with `anti_probability=1`; a fast response: anti-response"),
    ("Bandit-v0", "bandit drifting-bandit", "probabilities are drawn anew in each trial of many choices"),
    ("ContextDecisionMaking-v0", "context-integration", "the context is always shown"),
    ("DawTwoStep-v0", "two-step", "the same probabilities"),
    ("DelayComparison-v0", "delayed-comparison", ""),
    ("DelayMatchCategory-v0", "delayed-match-to-category", "whether sample and test are of one category"),
    ("DelayMatchSample-v0", "delayed-match-to-sample delayed-non-match-to-sample", ""),
    ("DelayMatchSampleDistractor1D-v0", "", "several tests after each other, of which one may match"),
    ("DelayPairedAssociation-v0", "delayed-paired-association", "respond to half of the pairs of stimuli"),
    ("DualDelayMatchSample-v0", "dual-delayed-match-to-sample", "a cue says which of two samples is tested"),
    ("EconomicDecisionMaking-v0", "economic-choice", "offers of two kinds of juice"),
    ("GoNogo-v0", "go-no-go delayed-go-no-go", "in go-no-go a response ends the trial"),
    ("HierarchicalReasoning-v0", "hierarchical-reasoning", "a rule that must be inferred from outcomes"),
    ("IntervalDiscrimination-v0", "interval-discrimination", "which of two intervals is longer"),
    ("MotorTiming-v0", "cue-set-go", "produce the interval that a cue names"),
    ("MultiSensoryIntegration-v0", "multisensory-integration", "evidence of two modalities adds up"),
    ("Null-v0", "", "an environment that asks for nothing"),
    ("OneTwoThreeGo-v0", "one-two-three-go", "reproduce an interval that is shown twice"),
    ("PerceptualDecisionMaking-v0", "perceptual-decision reaction-time-decision", ""),
    ("PerceptualDecisionMakingDelayResponse-v0", "perceptual-decision", "with a `delay`"),
    ("PostDecisionWager-v0", "post-decision-wager", "the same times and rewards, in shorter delays"),
    ("ProbabilisticReasoning-v0", "probabilistic-reasoning", "shapes with weights of evidence"),
    (
        "PulseDecisionMaking-v0",
        "pulse-decision poisson-clicks reaction-time-clicks",
        "count pulses on two sides",
    ),
    ("Reaching1D-v0", "center-out", "popsim's reaches move a body in the plane"),
    ("Reaching1DWithSelfDistraction-v0", "", "the own position hides the target, on a ring"),
    ("ReachingDelayResponse-v0", "delayed-response delayed-reaches", "on a ring of outputs, or with a body"),
    ("ReadySetGo-v0", "ready-set-go", ""),
    ("SpatialSuppressMotion-v0", "", "motion seen by neurons with a surround"),
    ("perceptualdecisionmaking.ibl20-v0", "block-decisions", "the side is likelier in blocks of trials"),
    ("perceptualdecisionmaking.roitman02-v0", "reaction-time-decision", "responses by reaction time"),
    ("yang19.go-v0", "yang2019 delayed-response", "with `anti_probability=0`, without a delay"),
    ("yang19.rtgo-v0", "yang2019 anti-response", "with `anti_probability=0`, on two sides"),
    ("yang19.dlygo-v0", "yang2019 delayed-response", "with `anti_probability=0`"),
    ("yang19.anti-v0", "yang2019 delayed-response", "with `anti_probability=1`, without a delay"),
    ("yang19.rtanti-v0", "yang2019 anti-response", "with `anti_probability=1`, on two sides"),
    ("yang19.dlyanti-v0", "yang2019 delayed-response", "with `anti_probability=1`"),
    ("yang19.dm1-v0", "yang2019 perceptual-decision", ""),
    ("yang19.dm2-v0", "yang2019 perceptual-decision", "the same in a second modality"),
    ("yang19.ctxdm1-v0", "yang2019 context-integration", ""),
    ("yang19.ctxdm2-v0", "yang2019 context-integration", "with the other context"),
    ("yang19.multidm-v0", "yang2019 multisensory-integration", "evidence of two modalities adds up"),
    ("yang19.dlydm1-v0", "yang2019 delayed-comparison", "the stronger of two pulses"),
    ("yang19.dlydm2-v0", "yang2019 delayed-comparison", "the same in a second modality"),
    ("yang19.ctxdlydm1-v0", "yang2019", "the stronger of two pulses in the modality of the context"),
    ("yang19.ctxdlydm2-v0", "yang2019", "the same with the other context"),
    ("yang19.multidlydm-v0", "yang2019", "the stronger of two pulses, in both modalities together"),
    ("yang19.dms-v0", "yang2019 delayed-match-to-sample", ""),
    ("yang19.dnms-v0", "yang2019 delayed-non-match-to-sample", ""),
    ("yang19.dmc-v0", "yang2019 delayed-match-to-category", "whether sample and test are of one category"),
    ("yang19.dnmc-v0", "yang2019", "whether sample and test are of different categories"),
    ("RandomDotMotion-v0", "perceptual-decision", "with PsychoPy: moving dots as pixels"),
    ("VisualSearch-v0", "", "with PsychoPy: find a remembered line among others, in pixels"),
    ("AnnubesEnv", "", "not registered: report light or sound, with catch trials"),
    ("Detection", "signal-detection", "not registered: report a stimulus in noise"),
    ("ToneDetection", "signal-detection", "not registered: also report when the tone came"),
    ("AngleReproduction", "angle-reproduction", "not registered: reproduce angles that were shown"),
    ("ChangingEnvironment", "changing-environment", "not registered: a context that changes unseen"),
    ("CVLearning", "", "not registered: shaping of a delayed decision; see `training.Curriculum`"),
    ("IBL", "block-decisions", "not registered: evidence on two sides"),
    ("IBL_Block", "block-decisions", "not registered: the side is likelier in blocks of trials"),
    ("LeverPress", "", "not registered: press a lever after a cue"),
    ("LeverPressWithPoke", "", "not registered: the same, with a poke for the reward"),
    ("LeverPressWithPokeRest", "", "not registered: the same, with thirst"),
    ("ContextSwitch", "", "not registered: two actions whose meaning is exchanged"),
    ("MatchingPenny", "", "not registered: an opponent that predicts choices; write an environment"),
    ("MemoryRecall", "", "not registered: recall stored patterns"),
    ("Pneumostomeopening", "", "not registered: conditioning of breathing in a snail"),
]

_PSYCHRNN = [
    ("PerceptualDiscrimination", "perceptual-decision", "two streams, as by default in popsim"),
    ("DelayedDiscrimination", "delayed-comparison", "the same pairs of frequencies"),
    ("MatchToCategory", "direction-category", "the category of a direction"),
]

_BRAINTOOLS = [
    ("PerceptualDecisionMaking", "perceptual-decision reaction-time-decision", ""),
    ("PerceptualDecisionMakingDelayResponse", "perceptual-decision", "with a `delay`"),
    ("ContextDecisionMaking", "context-integration", ""),
    ("SingleContextDecisionMaking", "context-integration", "there one context only"),
    (
        "PulseDecisionMaking",
        "pulse-decision poisson-clicks reaction-time-clicks",
        "count pulses on two sides",
    ),
    ("DelayMatchSample", "delayed-match-to-sample delayed-non-match-to-sample", ""),
    ("DualDelayMatchSample", "dual-delayed-match-to-sample", "a cue says which of two samples is tested"),
    ("DelayComparison", "delayed-comparison", ""),
    ("DelayMatchCategory", "delayed-match-to-category", "whether sample and test are of one category"),
    ("DelayPairedAssociation", "delayed-paired-association", "respond to half of the pairs of stimuli"),
    ("GoNoGo", "delayed-go-no-go go-no-go", "in go-no-go a response ends the trial"),
    ("IntervalDiscrimination", "interval-discrimination", "which of two intervals is longer"),
    ("PostDecisionWager", "post-decision-wager", ""),
    ("ReadySetGo", "ready-set-go", ""),
    ("DelayDirectionReproduction", "angle-reproduction", "a direction as cosine and sine, after a delay"),
    ("ImmediateDirectionReproduction", "angle-reproduction", "without a delay"),
    ("DelayDirectionClassification", "direction-category", "the category of a direction, after a delay"),
    ("ImmediateDirectionClassification", "direction-category", "without a delay"),
    ("HierarchicalReasoning", "hierarchical-reasoning", "a rule that must be inferred from outcomes"),
    ("ProbabilisticReasoning", "probabilistic-reasoning", "shapes with weights of evidence"),
    ("AntiReach", "delayed-response", "pro and anti; a fast response: anti-response"),
    ("Reaching1D", "delayed-response delayed-reaches", "on a ring of outputs, or with a body"),
    ("EvidenceAccumulation", "perceptual-decision", "popsim has no spiking networks"),
]

_NEURALRNN = [
    ("mante", "context-integration", "alias siegel_miller; all trials of a grid of conditions"),
    ("mante2", "context-integration", "alias lr_mante; one output, as by default in popsim"),
    ("rdm", "perceptual-decision", "alias two_afc; with `n_streams=1`"),
    ("raposo", "multisensory-integration", "evidence of two modalities, and which of them counts"),
    ("dms", "delayed-match-to-sample", ""),
    ("dms_continuous", "delayed-match-to-sample", "there the sign of a coherence must match"),
    ("wm_angle", "angle-reproduction", "alias parametric_wm; an angle as cosine and sine, after a delay"),
    ("wm_frequency", "delayed-comparison", "alias romo"),
    ("go_nogo", "delayed-go-no-go", "there whether a value is above 0.5"),
    ("checkerboard", "", "a majority of colours, and the side on which that colour is the target"),
    ("multitask_yang", "yang2019", "20 tasks with a rule input"),
    ("multitask_flexible", "driscoll2024", "15 tasks with a rule input"),
]

LIBRARIES = {
    "neurogym": Library(
        "NeuroGym",
        "2.2.0",
        "Names for `ngym.make`; those without an ending are classes that it does not register.",
        _counterparts(_NEUROGYM),
    ),
    "psychrnn": Library(
        "PsychRNN", "aff98e1 (November 2023)", "Classes of `psychrnn.tasks`.", _counterparts(_PSYCHRNN)
    ),
    "braintools": Library(
        "braintools", "57d33c2 (June 2026)", "Classes of `braintools.cogtask`.", _counterparts(_BRAINTOOLS)
    ),
    "neuralrnn": Library(
        "NeuralRNN",
        "fc2394b (August 2026)",
        "Names for `CognitiveTaskDataset.from_task`.",
        _counterparts(_NEURALRNN),
    ),
}
"""Libraries by the name that `popsim list --like` takes."""
