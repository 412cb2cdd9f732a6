"""Options that the commands that train have: `train`, `resume`, `sweep` and `sweep run`."""

import dataclasses
from typing import Annotated, Any

import tyro

Flag = tyro.conf.FlagCreatePairsOff[bool]
DEVICES = (  # no docstring: of one with two lines, tyro prints two
    "number of devices over which the networks are divided; by default all, or as many as before for what "
    "has begun, for the same bits"
)


@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    """Where a training runs, what it shows, and how it writes."""

    devices: Annotated[int | None, tyro.conf.arg(help=DEVICES)] = None
    quiet: Flag = False
    """show no progress"""
    without_lock: Flag = False
    """write to a disk that cannot lock files; only if no other process writes there"""
    tensorboard: Flag = False
    """write events for TensorBoard (popsim[tensorboard]) into the folder tensorboard of each run"""

    @property
    def disk_options(self) -> dict[str, Any]:
        """The options on what is written, as those of `run_experiment`."""
        return {"without_lock": self.without_lock, "enable_tensorboard": self.tensorboard}
