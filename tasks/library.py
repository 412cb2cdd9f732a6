"""The tasks by name, each with its default settings."""

from collections.abc import Callable

from popsim.task import AbstractTask
from popsim.tasks.context_integration import ContextIntegration
from popsim.tasks.delayed_comparison import DelayedComparison
from popsim.tasks.delayed_match import DelayedMatchToSample
from popsim.tasks.delayed_response import DelayedResponse
from popsim.tasks.flip_flop import FlipFlop
from popsim.tasks.multi_task import MultiTask
from popsim.tasks.perceptual_decision import PerceptualDecision
from popsim.tasks.ready_set_go import ReadySetGo
from popsim.tasks.sine_generation import SineGeneration


def _non_match() -> DelayedMatchToSample:
    return DelayedMatchToSample(yes_to="non-match")


def _four_tasks() -> MultiTask:
    """A perceptual decision, a comparison, a match to sample and a delayed response, as likely."""
    names = ("perceptual-decision", "delayed-comparison", "delayed-match-to-sample", "delayed-response")
    return MultiTask({name: COGNITIVE_TASKS[name]() for name in names})


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

TASKS: dict[str, Callable[[], AbstractTask]] = {**COGNITIVE_TASKS}
"""All tasks."""
