"""The named tasks of the command line."""

from collections.abc import Callable

import jax.numpy as jnp

from popsim.distributions import Uniform
from popsim.hand import Workspace
from popsim.plants import TwoLinkArm
from popsim.task import AbstractTask
from popsim.tasks.adaptation import adaptation_plan, channel_trials, load_pulses, random_forces
from popsim.tasks.decisions import ContextIntegration, PerceptualDecision
from popsim.tasks.flip_flop import FlipFlop
from popsim.tasks.memory import DelayedComparison, DelayedMatchToSample, DelayedResponse
from popsim.tasks.multi_task import MultiTask
from popsim.tasks.reach_sequences import SequentialReaches, TargetJump
from popsim.tasks.reaching import CenterOutReaches, DelayedReaches, RandomReaches
from popsim.tasks.timing import ReadySetGo, SineGeneration
from popsim.tasks.tracking import PosturalHold, RandomWalk, Tracking
from popsim.tasks.wrappers import WithInterventions

__all__ = ["COGNITIVE_TASKS", "TASKS"]


def _arm_workspace() -> Workspace:
    """Return the workspace of a two-link arm."""
    return TwoLinkArm.arm26_skeleton().workspace


def _with_arm_workspace(task: Callable[[Workspace], AbstractTask]) -> Callable[[], AbstractTask]:
    """Return a builder of a motor task in the workspace of a two-link arm."""
    return lambda: task(_arm_workspace())


def _random_walk() -> Tracking:
    """Track a target on a smooth random walk."""
    return Tracking(_arm_workspace(), RandomWalk())


def _hold_under_pulses() -> AbstractTask:
    """Hold the hand still under force pulses of 1 to 4 N in all directions."""
    return WithInterventions(PosturalHold(_arm_workspace()), [load_pulses(Uniform(1.0, 4.0))])


def _reach_under_loads() -> AbstractTask:
    """Reach between random points under constant forces of up to 4 N in all directions."""
    return WithInterventions(RandomReaches(_arm_workspace()), [random_forces(Uniform(0.0, 4.0))])


def _curl_field_adaptation() -> AbstractTask:
    """Baseline, curl field, washout, curl field; a tenth of the trials in a force channel."""
    field = adaptation_plan("curl field", 10.0, unless=("force channel",))
    return WithInterventions(CenterOutReaches(_arm_workspace()), [channel_trials(0.1), field])


def _rotation_adaptation() -> AbstractTask:
    """Baseline, rotation, washout, rotation: the cursor is rotated by 30 degrees about the start."""
    rotation = adaptation_plan("cursor rotation", jnp.pi / 6)
    return WithInterventions(CenterOutReaches(_arm_workspace()), [rotation])


def _non_match() -> DelayedMatchToSample:
    """Sample, delay, test: after the go cue, report whether the test differs from the sample."""
    return DelayedMatchToSample(yes_to="non-match")


def _four_tasks() -> MultiTask:
    """A perceptual decision, comparison, match to sample or delayed response, with equal probability."""
    names = ("perceptual-decision", "delayed-comparison", "delayed-match-to-sample", "delayed-response")
    return MultiTask({name: COGNITIVE_TASKS[name]() for name in names})


MOTOR_TASKS: dict[str, Callable[[], AbstractTask]] = {
    "center-out": _with_arm_workspace(CenterOutReaches),
    "random-reaches": _with_arm_workspace(RandomReaches),
    "delayed-reaches": _with_arm_workspace(DelayedReaches),
    "sequential-reaches": _with_arm_workspace(SequentialReaches),
    "target-jump": _with_arm_workspace(TargetJump),
    "tracking": _with_arm_workspace(Tracking),
    "tracking-random-walk": _random_walk,
    "postural-hold": _hold_under_pulses,
    "random-loads": _reach_under_loads,
    "force-field-adaptation": _curl_field_adaptation,
    "visuomotor-rotation": _rotation_adaptation,
}
"""Motor tasks, in the workspace of a two-link arm."""

COGNITIVE_TASKS: dict[str, Callable[[], AbstractTask]] = {
    "flip-flop": FlipFlop,
    "context-integration": ContextIntegration,
    "perceptual-decision": PerceptualDecision,
    "delayed-comparison": DelayedComparison,
    "delayed-match-to-sample": DelayedMatchToSample,
    "delayed-non-match-to-sample": _non_match,
    "delayed-response": DelayedResponse,
    "ready-set-go": ReadySetGo,
    "sine-generation": SineGeneration,
    "multi-task": _four_tasks,
}
"""Tasks for networks without a body."""

TASKS: dict[str, Callable[[], AbstractTask]] = {**MOTOR_TASKS, **COGNITIVE_TASKS}
"""All tasks."""
