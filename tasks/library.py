"""The named tasks of the command line."""

import dataclasses
import inspect
import math
from collections.abc import Callable
from typing import Any

from popsim._checks import short_repr, warn_of_unit
from popsim.distributions import Uniform
from popsim.hand import Workspace
from popsim.plants import TwoLinkArm
from popsim.task import AbstractTask
from popsim.tasks.blocks.block_priors import BlockDecisions
from popsim.tasks.blocks.hierarchical_reasoning import HierarchicalReasoning
from popsim.tasks.choices.decisions import ContextIntegration, PerceptualDecision
from popsim.tasks.choices.detection import DelayedGoNoGo, SignalDetection
from popsim.tasks.choices.directions import AngleReproduction, DirectionCategory
from popsim.tasks.choices.dual_matching import DualDelayedMatchToSample
from popsim.tasks.choices.economic_choice import EconomicChoice
from popsim.tasks.choices.matching import DelayedMatchToCategory, DelayedPairedAssociation
from popsim.tasks.choices.memory import DelayedComparison, DelayedMatchToSample, DelayedResponse
from popsim.tasks.choices.multisensory import MultisensoryIntegration
from popsim.tasks.choices.probabilistic_reasoning import ProbabilisticReasoning
from popsim.tasks.choices.pulses import PoissonClicks, PulseDecision
from popsim.tasks.dynamics.flip_flop import FlipFlop
from popsim.tasks.dynamics.path_integration import PathIntegration
from popsim.tasks.dynamics.sine_generation import SineGeneration
from popsim.tasks.motor.adaptation import adaptation_plan, channel_trials, load_pulses, random_forces
from popsim.tasks.motor.interactive_reaches import HeldReach
from popsim.tasks.motor.interception import GoBeforeYouKnow, Interception
from popsim.tasks.motor.obstacles import ObstacleAvoidance
from popsim.tasks.motor.reach_sequences import SequentialReaches, TargetJump
from popsim.tasks.motor.reaching import CenterOutReaches, DelayedReaches, RandomReaches
from popsim.tasks.motor.tracking import PosturalHold, RandomWalk, Tracking
from popsim.tasks.motor.two_targets import TwoTargetReaches
from popsim.tasks.multi_task import MultiTask
from popsim.tasks.rewards.bandits import BernoulliBandit, DriftingBandit, ReversalLearning
from popsim.tasks.rewards.changing_environment import ChangingEnvironment
from popsim.tasks.rewards.staircase import StaircaseDecision
from popsim.tasks.rewards.timed_clicks import ReactionTimeClicks
from popsim.tasks.rewards.timed_decisions import PostDecisionWager, ReactionTimeDecision
from popsim.tasks.rewards.timed_responses import AntiResponse, GoNoGo
from popsim.tasks.rewards.two_step import TwoStepTask
from popsim.tasks.rings.driscoll_tasks import driscoll2024
from popsim.tasks.rings.yang_tasks import yang2019
from popsim.tasks.timing.interval_production import CueSetGo, OneTwoThreeGo
from popsim.tasks.timing.intervals import IntervalDiscrimination
from popsim.tasks.timing.ready_set_go import ReadySetGo
from popsim.tasks.wrappers import WithInterventions

__all__ = ["COGNITIVE_TASKS", "REWARD_TASKS", "TASKS", "MotorTask", "register_task"]

Range = float | tuple[float, float]
"""A number, or the bounds of a uniform distribution."""


@dataclasses.dataclass(frozen=True)
class MotorTask:
    """A motor task by name, for any workspace.

    - `build`: builds the task, `build(workspace, **arguments)`.
    """

    build: Callable[..., AbstractTask]

    def __call__(self, workspace: Workspace | None = None, **arguments: Any) -> AbstractTask:
        """Build the task.

        **Arguments:**

        - `workspace`: by default that of a two-link arm.
        - `arguments`: those of `build`.
        """
        if workspace is None:
            workspace = TwoLinkArm.arm26_skeleton().workspace
        return self.build(workspace, **arguments)


def _random_walk(
    workspace: Workspace,
    *,
    speed: float = 0.08,
    correlation_time: float = 0.2,
    start: float = 0.2,
    ramp: float = 0.5,
    duration: float = 3.0,
    dt: float = 0.01,
) -> Tracking:
    """Track a target on a smooth random walk.

    **Arguments:**

    - `speed`: the root mean square of the target's velocity along each axis, in m/s.
    - `correlation_time`: the correlation time of the velocity, in seconds.
    - `start`: the time before the target moves, in seconds.
    - `ramp`: the time until the full speed of the path, in seconds.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    """
    path = RandomWalk(speed, correlation_time)
    return Tracking(workspace, path, start=start, ramp=ramp, duration=duration, dt=dt)


def _hold_under_pulses(
    workspace: Workspace,
    *,
    force: tuple[float, float] = (1.0, 4.0),
    hold: Range = (0.2, 0.5),
    pulse: Range = 0.1,
    duration: float = 1.2,
    dt: float = 0.01,
) -> AbstractTask:
    """Hold the hand still under force pulses of 1 to 4 N in all directions.

    **Arguments:**

    - `force`: the lowest and the highest force of a pulse, in N.
    - `hold`, `pulse`: the time before the pulse and the duration of the pulse, in seconds.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    """
    task = PosturalHold(workspace, hold=_drawn(hold), pulse=_drawn(pulse), duration=duration, dt=dt)
    return WithInterventions(task, [load_pulses(Uniform(*force))])


def _reach_under_loads(
    workspace: Workspace,
    *,
    force: tuple[float, float] = (0.0, 4.0),
    validation_distance: float = 0.1,
    duration: float = 1.0,
    dt: float = 0.01,
) -> AbstractTask:
    """Reach between random points under constant forces of up to 4 N in all directions.

    **Arguments:**

    - `force`: the lowest and the highest force, in N.
    - `validation_distance`: the distance of targets in the validation trials, in m.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    """
    task = RandomReaches(workspace, validation_distance=validation_distance, duration=duration, dt=dt)
    return WithInterventions(task, [random_forces(Uniform(*force))])


def _curl_field_adaptation(
    workspace: Workspace,
    *,
    strength: float = 10.0,
    channel_probability: float = 0.1,
    baseline: int = 100,
    field: int = 500,
    washout: int = 200,
    field_again: int = 500,
    distance: float = 0.1,
    n_directions: int | None = 8,
    duration: float = 1.0,
    dt: float = 0.01,
) -> AbstractTask:
    """Baseline, curl field, washout, curl field; a tenth of the trials in a force channel.

    **Arguments:**

    - `strength`: the force per speed of the hand, in N s/m.
    - `channel_probability`: the fraction of trials in a force channel.
    - `baseline`: the number of training batches without a field, at first.
    - `field`: the number of training batches of the field.
    - `washout`: the number of training batches without a field, after it.
    - `field_again`: the number of training batches of the second field; it continues to the end.
    - `distance`: the distance from centre to target, in m.
    - `n_directions`: the number of targets; None for the whole circle.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    """
    phases = _phases(baseline, field, washout, field_again)
    plan = adaptation_plan("curl field", strength, phases, unless=("force channel",))
    task = CenterOutReaches(workspace, distance=distance, n_directions=n_directions, duration=duration, dt=dt)
    return WithInterventions(task, [channel_trials(channel_probability), plan])


def _rotation_adaptation(
    workspace: Workspace,
    *,
    angle: float = math.pi / 6,
    baseline: int = 100,
    rotation: int = 500,
    washout: int = 200,
    rotation_again: int = 500,
    distance: float = 0.1,
    n_directions: int | None = 8,
    duration: float = 1.0,
    dt: float = 0.01,
) -> AbstractTask:
    """Baseline, rotation, washout, rotation: the cursor is rotated by 30 degrees about the start.

    **Arguments:**

    - `angle`: the counter-clockwise rotation of the cursor, in rad.
    - `baseline`: the number of training batches without a rotation, at first.
    - `rotation`: the number of training batches of the rotation.
    - `washout`: the number of training batches without a rotation, after it.
    - `rotation_again`: the number of training batches of the second rotation; it continues to the end.
    - `distance`: the distance from centre to target, in m.
    - `n_directions`: the number of targets; None for the whole circle.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    """
    warn_of_unit("angle", angle, "angle")
    plan = adaptation_plan("cursor rotation", angle, _phases(baseline, rotation, washout, rotation_again))
    task = CenterOutReaches(workspace, distance=distance, n_directions=n_directions, duration=duration, dt=dt)
    return WithInterventions(task, [plan])


def _phases(baseline: int, field: int, washout: int, field_again: int) -> list[tuple[str, int, float]]:
    """Return the phases of `ADAPTATION_PHASES` with other numbers of batches."""
    return [
        ("baseline", baseline, 0.0),
        ("field", field, 1.0),
        ("washout", washout, 0.0),
        ("field again", field_again, 1.0),
    ]


def _drawn(value: Range) -> Any:
    """Return what a task draws from: a number, or a uniform distribution."""
    return Uniform(*value) if isinstance(value, tuple) else value


def _non_match(
    *,
    n_directions: int = 2,
    match_probability: float = 0.5,
    noise: float = 0.01,
    sample: Range = 0.2,
    delay: Range = (0.1, 0.4),
    test: Range = 0.2,
    duration: float = 1.2,
    dt: float = 0.05,
) -> DelayedMatchToSample:
    """Sample, delay, test: after the go cue, report whether the test differs from the sample.

    **Arguments:**

    - `n_directions`: the number of evenly spaced directions, at least two.
    - `match_probability`: the fraction of trials in which the test matches.
    - `noise`: sigma of each unit, in s^0.5; the standard deviation in a time step is sigma / dt^0.5.
    - `sample`, `delay`, `test`: durations of these epochs, in seconds; the decision takes the rest.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    """
    return DelayedMatchToSample(
        n_directions=n_directions,
        yes_to="non-match",
        match_probability=match_probability,
        noise=noise,
        sample=_drawn(sample),
        delay=_drawn(delay),
        test=_drawn(test),
        duration=duration,
        dt=dt,
    )


def _four_tasks() -> MultiTask:
    """A perceptual decision, comparison, match to sample or delayed response, with equal probability."""
    names = ("perceptual-decision", "delayed-comparison", "delayed-match-to-sample", "delayed-response")
    return MultiTask({name: COGNITIVE_TASKS[name]() for name in names})


MOTOR_TASKS: dict[str, Callable[..., AbstractTask]] = {
    "center-out": MotorTask(CenterOutReaches),
    "random-reaches": MotorTask(RandomReaches),
    "delayed-reaches": MotorTask(DelayedReaches),
    "sequential-reaches": MotorTask(SequentialReaches),
    "target-jump": MotorTask(TargetJump),
    "two-target-reaches": MotorTask(TwoTargetReaches),
    "obstacle-avoidance": MotorTask(ObstacleAvoidance),
    "tracking": MotorTask(Tracking),
    "tracking-random-walk": MotorTask(_random_walk),
    "postural-hold": MotorTask(_hold_under_pulses),
    "random-loads": MotorTask(_reach_under_loads),
    "force-field-adaptation": MotorTask(_curl_field_adaptation),
    "visuomotor-rotation": MotorTask(_rotation_adaptation),
    "held-reach": MotorTask(HeldReach),
    "interception": MotorTask(Interception),
    "go-before-you-know": MotorTask(GoBeforeYouKnow),
}
"""Motor tasks, by default in the workspace of a two-link arm."""

COGNITIVE_TASKS: dict[str, Callable[..., AbstractTask]] = {
    "flip-flop": FlipFlop,
    "context-integration": ContextIntegration,
    "perceptual-decision": PerceptualDecision,
    "delayed-comparison": DelayedComparison,
    "delayed-match-to-sample": DelayedMatchToSample,
    "delayed-non-match-to-sample": _non_match,
    "delayed-response": DelayedResponse,
    "delayed-match-to-category": DelayedMatchToCategory,
    "delayed-paired-association": DelayedPairedAssociation,
    "dual-delayed-match-to-sample": DualDelayedMatchToSample,
    "delayed-go-no-go": DelayedGoNoGo,
    "signal-detection": SignalDetection,
    "multisensory-integration": MultisensoryIntegration,
    "pulse-decision": PulseDecision,
    "poisson-clicks": PoissonClicks,
    "economic-choice": EconomicChoice,
    "ready-set-go": ReadySetGo,
    "sine-generation": SineGeneration,
    "interval-discrimination": IntervalDiscrimination,
    "cue-set-go": CueSetGo,
    "one-two-three-go": OneTwoThreeGo,
    "probabilistic-reasoning": ProbabilisticReasoning,
    "angle-reproduction": AngleReproduction,
    "direction-category": DirectionCategory,
    "block-decisions": BlockDecisions,
    "hierarchical-reasoning": HierarchicalReasoning,
    "path-integration": PathIntegration,
    "multi-task": _four_tasks,
    "yang2019": yang2019,
    "driscoll2024": driscoll2024,
}
"""Tasks for networks without a body."""

REWARD_TASKS: dict[str, Callable[..., AbstractTask]] = {
    "bandit": BernoulliBandit,
    "drifting-bandit": DriftingBandit,
    "reversal-learning": ReversalLearning,
    "two-step": TwoStepTask,
    "changing-environment": ChangingEnvironment,
    "staircase": StaircaseDecision,
    "reaction-time-decision": ReactionTimeDecision,
    "reaction-time-clicks": ReactionTimeClicks,
    "post-decision-wager": PostDecisionWager,
    "go-no-go": GoNoGo,
    "anti-response": AntiResponse,
}
"""Tasks for networks without a body that learn from reward."""

TASKS: dict[str, Callable[..., AbstractTask]] = {**MOTOR_TASKS, **COGNITIVE_TASKS, **REWARD_TASKS}
"""All tasks, those of `register_task` among them."""


def register_task(name: str) -> Callable[[Any], Any]:
    """Register a task by name for the command line; a decorator.

    It decorates a subclass of `AbstractTask`, or a function that returns a task. All arguments need defaults;
    those that are plain values become options of `popsim train NAME`. A motor task has `workspace` as its
    first argument, without a default, and gets that of the body. The first line of the docstring is shown by
    `popsim list`, and what it says under **Arguments** by `popsim train NAME --help`.

    **Arguments:**

    - `name`: the name, such as "set-shifting".
    """
    if not isinstance(name, str) or not name.replace("-", "_").isidentifier():
        raise ValueError(f"`name` of a task must be a word such as 'set-shifting', got {short_repr(name)}.")

    def register(build: Any) -> Any:
        named = _named_builder(name, build)
        if TASKS.setdefault(name, named) != named:
            raise ValueError(f"`name` of a task must be one that no other has, got {name!r} again.")
        return build

    return register


def _named_builder(name: str, build: Any) -> Callable[..., AbstractTask]:
    """Return what `TASKS` holds for a class or a function; raise `ValueError` if it is no task's."""
    if not inspect.isfunction(build) and not (inspect.isclass(build) and issubclass(build, AbstractTask)):
        raise ValueError(
            f"the task {name!r} must be a subclass of AbstractTask, or a function that returns a task, "
            f"got {short_repr(build)}."
        )
    parameters = [*inspect.signature(build).parameters.values()]
    is_motor = bool(parameters) and parameters[0].name == "workspace"
    without = [
        parameter.name
        for parameter in parameters[is_motor:]
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    ]
    if without:
        raise ValueError(
            f"the task {name!r} must have defaults for all arguments but `workspace`, which a motor task has "
            f"first, got {', '.join(without)} without."
        )
    named: Callable[..., Any] = build
    return MotorTask(named) if is_motor else named


def task_definition(name: str) -> Callable[..., AbstractTask]:
    """Return the class, or the function, that was registered as the task of this name."""
    named = TASKS[name]
    return named.build if isinstance(named, MotorTask) else named
