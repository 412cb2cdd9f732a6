"""The tasks by name, each as it comes without settings, for the command line."""

from collections.abc import Callable

from popsim.plants import TwoLinkArm
from popsim.task import AbstractTask
from popsim.tasks.center_out import CenterOutReaches
from popsim.tasks.delayed_reaches import DelayedReaches
from popsim.tasks.postural_hold import PosturalHold
from popsim.tasks.random_reaches import RandomReaches
from popsim.tasks.sequential_reaches import SequentialReaches
from popsim.tasks.target_jump import TargetJump
from popsim.tasks.target_paths import RandomWalk
from popsim.tasks.tracking import Tracking
from popsim.workspace import Workspace


def _in_reach(task: Callable[..., AbstractTask], *settings: object) -> Callable[[], AbstractTask]:
    """A motor task where a two-link arm reaches."""

    def build() -> AbstractTask:
        workspace: Workspace = TwoLinkArm.arm26().workspace
        return task(workspace, *settings)

    return build


MOTOR_TASKS: dict[str, Callable[[], AbstractTask]] = {
    "center-out": _in_reach(CenterOutReaches),
    "random-reaches": _in_reach(RandomReaches),
    "delayed-reaches": _in_reach(DelayedReaches),
    "sequential-reaches": _in_reach(SequentialReaches),
    "target-jump": _in_reach(TargetJump),
    "tracking": _in_reach(Tracking),
    "tracking-random-walk": _in_reach(Tracking, RandomWalk()),
    "postural-hold": _in_reach(PosturalHold),
}
"""Tasks for a hand; here that of a two-link arm."""

TASKS: dict[str, Callable[[], AbstractTask]] = {**MOTOR_TASKS}
"""All tasks."""
