"""The named tasks of the command line."""

import dataclasses
import inspect
import math
from collections.abc import Callable
from typing import Any

from popsim._shared.checks import short_repr, warn_of_unit
from popsim.distributions import Uniform
from popsim.hand import Workspace
from popsim.plants import TwoLinkArm
from popsim.task import AbstractTask
from popsim.tasks import blocks, choices, dynamics, motor, rewards, rings, timing
from popsim.tasks.multi_task import MultiTask
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
        """Build the task, by default in the workspace of a two-link arm, with arguments of `build`."""
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
) -> motor.Tracking:
    """Track a target on a smooth random walk.

    **Arguments:**

    - `speed`: the root mean square of the target's velocity along each axis, in m/s.
    - `correlation_time`: the correlation time of the velocity, in seconds.
    - `start`: the time before the target moves, in seconds.
    - `ramp`: the time until the full speed of the path, in seconds.
    - `duration`: the duration of a trial, in seconds.
    - `dt`: the time step of the model, in seconds.
    """
    path = motor.RandomWalk(speed, correlation_time)
    return motor.Tracking(workspace, path, start=start, ramp=ramp, duration=duration, dt=dt)


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
    - `hold`: the time before the pulse, in seconds.
    - `pulse`: the duration of the pulse, in seconds.
    - `duration`: the duration of a trial, in seconds.
    - `dt`: the time step of the model, in seconds.
    """
    task = motor.PosturalHold(workspace, hold=_drawn(hold), pulse=_drawn(pulse), duration=duration, dt=dt)
    return WithInterventions(task, [motor.load_pulses(Uniform(*force))])


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
    - `duration`: the duration of a trial, in seconds.
    - `dt`: the time step of the model, in seconds.
    """
    task = motor.RandomReaches(workspace, validation_distance=validation_distance, duration=duration, dt=dt)
    return WithInterventions(task, [motor.random_forces(Uniform(*force))])


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
    - `duration`: the duration of a trial, in seconds.
    - `dt`: the time step of the model, in seconds.
    """
    phases = _phases(baseline, field, washout, field_again)
    plan = motor.adaptation_plan("curl field", strength, phases, unless=("force channel",))
    options = {"distance": distance, "n_directions": n_directions, "duration": duration, "dt": dt}
    task = motor.CenterOutReaches(workspace, **options)
    return WithInterventions(task, [motor.channel_trials(channel_probability), plan])


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
    - `duration`: the duration of a trial, in seconds.
    - `dt`: the time step of the model, in seconds.
    """
    warn_of_unit("angle", angle, "angle")
    phases = _phases(baseline, rotation, washout, rotation_again)
    plan = motor.adaptation_plan("cursor rotation", angle, phases)
    options = {"distance": distance, "n_directions": n_directions, "duration": duration, "dt": dt}
    return WithInterventions(motor.CenterOutReaches(workspace, **options), [plan])


def _phases(*n_batches: int) -> list[tuple[str, int, float]]:
    """Return the phases of `ADAPTATION_PHASES` with other numbers of batches."""
    phases = zip(motor.ADAPTATION_PHASES, n_batches, strict=True)
    return [(name, n, strength) for (name, _, strength), n in phases]


def _drawn(value: Range) -> Any:
    """Return what a task draws from: a number, or a uniform distribution."""
    return Uniform(*value) if isinstance(value, tuple) else value


def _four_tasks() -> MultiTask:
    """A perceptual decision, comparison, match to sample or delayed response, with equal probability."""
    names = ("perceptual-decision", "delayed-comparison", "delayed-match-to-sample", "delayed-response")
    return MultiTask({name: COGNITIVE_TASKS[name]() for name in names})


MOTOR_TASKS: dict[str, Callable[..., AbstractTask]] = {
    "center-out": MotorTask(motor.CenterOutReaches),
    "random-reaches": MotorTask(motor.RandomReaches),
    "delayed-reaches": MotorTask(motor.DelayedReaches),
    "sequential-reaches": MotorTask(motor.SequentialReaches),
    "target-jump": MotorTask(motor.TargetJump),
    "two-target-reaches": MotorTask(motor.TwoTargetReaches),
    "obstacle-avoidance": MotorTask(motor.ObstacleAvoidance),
    "tracking": MotorTask(motor.Tracking),
    "tracking-random-walk": MotorTask(_random_walk),
    "postural-hold": MotorTask(_hold_under_pulses),
    "random-loads": MotorTask(_reach_under_loads),
    "force-field-adaptation": MotorTask(_curl_field_adaptation),
    "visuomotor-rotation": MotorTask(_rotation_adaptation),
    "held-reach": MotorTask(motor.HeldReach),
    "interception": MotorTask(motor.Interception),
    "go-before-you-know": MotorTask(motor.GoBeforeYouKnow),
}
"""Motor tasks, by default in the workspace of a two-link arm."""

COGNITIVE_TASKS: dict[str, Callable[..., AbstractTask]] = {
    "flip-flop": dynamics.FlipFlop,
    "context-integration": choices.ContextIntegration,
    "perceptual-decision": choices.PerceptualDecision,
    "delayed-comparison": choices.DelayedComparison,
    "delayed-match-to-sample": choices.DelayedMatchToSample,
    "delayed-non-match-to-sample": choices.DelayedNonMatchToSample,
    "delayed-response": choices.DelayedResponse,
    "delayed-match-to-category": choices.DelayedMatchToCategory,
    "delayed-paired-association": choices.DelayedPairedAssociation,
    "dual-delayed-match-to-sample": choices.DualDelayedMatchToSample,
    "delayed-go-no-go": choices.DelayedGoNoGo,
    "signal-detection": choices.SignalDetection,
    "multisensory-integration": choices.MultisensoryIntegration,
    "pulse-decision": choices.PulseDecision,
    "poisson-clicks": choices.PoissonClicks,
    "economic-choice": choices.EconomicChoice,
    "ready-set-go": timing.ReadySetGo,
    "sine-generation": dynamics.SineGeneration,
    "interval-discrimination": choices.IntervalDiscrimination,
    "cue-set-go": timing.CueSetGo,
    "one-two-three-go": timing.OneTwoThreeGo,
    "probabilistic-reasoning": choices.ProbabilisticReasoning,
    "angle-reproduction": choices.AngleReproduction,
    "direction-category": choices.DirectionCategory,
    "block-decisions": blocks.BlockDecisions,
    "hierarchical-reasoning": blocks.HierarchicalReasoning,
    "path-integration": dynamics.PathIntegration,
    "multi-task": _four_tasks,
    "yang2019": rings.yang2019,
    "driscoll2024": rings.driscoll2024,
}
"""Tasks for networks without a body."""

REWARD_TASKS: dict[str, Callable[..., AbstractTask]] = {
    "bandit": rewards.BernoulliBandit,
    "drifting-bandit": rewards.DriftingBandit,
    "reversal-learning": rewards.ReversalLearning,
    "two-step": rewards.TwoStepTask,
    "changing-environment": rewards.ChangingEnvironment,
    "staircase": rewards.StaircaseDecision,
    "reaction-time-decision": rewards.ReactionTimeDecision,
    "reaction-time-clicks": rewards.ReactionTimeClicks,
    "post-decision-wager": rewards.PostDecisionWager,
    "go-no-go": rewards.GoNoGo,
    "anti-response": rewards.AntiResponse,
}
"""Tasks for networks without a body that learn from reward."""

TASKS: dict[str, Callable[..., AbstractTask]] = {**MOTOR_TASKS, **COGNITIVE_TASKS, **REWARD_TASKS}
"""All tasks, those of `register_task` among them."""


def register_task(name: str) -> Callable[[Any], Any]:
    """Register a task by name for the command line; a decorator.

    It decorates a subclass of `AbstractTask`, or a function that returns a task. All arguments need defaults,
    but for the `workspace` that a motor task has first; plain values become options of `popsim train NAME`.
    The first line of the docstring is shown by `popsim list`, and what it says under **Arguments** by `popsim
    train NAME --help`.

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
        kinds = "a subclass of AbstractTask, or a function that returns a task"
        raise ValueError(f"the task {name!r} must be {kinds}, got {short_repr(build)}.")
    parameters = [*inspect.signature(build).parameters.values()]
    is_motor = bool(parameters) and parameters[0].name == "workspace"
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    needed = [parameter for parameter in parameters[is_motor:] if parameter.default is parameter.empty]
    if without := [parameter.name for parameter in needed if parameter.kind not in variable]:
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
