"""The tasks by name, each as it comes without settings, for the command line."""

from collections.abc import Callable

from popsim.plants import TwoLinkArm
from popsim.task import AbstractTask
from popsim.tasks.center_out import CenterOutReaches
from popsim.tasks.random_reaches import RandomReaches
from popsim.workspace import Workspace


def _workspace() -> Workspace:
    """Where a two-link arm reaches."""
    return TwoLinkArm.arm26().workspace


TASKS: dict[str, Callable[[], AbstractTask]] = {
    "center-out": lambda: CenterOutReaches(_workspace()),
    "random-reaches": lambda: RandomReaches(_workspace()),
}
