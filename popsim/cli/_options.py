"""Options that several commands have."""

import dataclasses
from typing import Any

import tyro

Flag = tyro.conf.FlagCreatePairsOff[bool]


@dataclasses.dataclass(frozen=True)
class DiskOptions:
    """What a training writes, and how."""

    without_lock: Flag = False
    """write to a disk that cannot lock files; only if no other process writes there"""
    tensorboard: Flag = False
    """write events for TensorBoard (popsim[tensorboard]) into the folder tensorboard of each run"""

    @property
    def disk_options(self) -> dict[str, Any]:
        """These options as those of `run_experiment`."""
        return {"without_lock": self.without_lock, "enable_tensorboard": self.tensorboard}


@dataclasses.dataclass(frozen=True)
class TrainingOptions(DiskOptions):
    """How and where is trained."""

    devices: int | None = None
    """number of devices over which the networks are divided; by default all, in
    processes of their own one, and for what has begun as many as before, for the same bits"""
    quiet: Flag = False
    """show no progress"""
