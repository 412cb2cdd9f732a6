"""The options of commands that train. They need no JAX, so that help and refusals take no time for it."""

import dataclasses
from typing import Annotated, Any, Literal

import tyro

Flag = tyro.conf.FlagCreatePairsOff[bool]
DEVICES = (  # no docstring: of one with two lines, tyro prints two
    "number of devices over which the networks are divided; by default all, or as many as before for what "
    "has begun, for the same bits"
)
WORKERS = (
    "of a sweep: train this many cells at a time, or all: one per accelerator, or per core; each in a "
    "process of its own, over one device unless --devices says more; by default one after the other here"
)
SCHEDULER = (
    "of a sweep: train cells in such processes on a Dask cluster (popsim[dask]), such as tcp://node1:8786, "
    "or the file that its scheduler wrote"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
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
    def run_options(self) -> dict[str, Any]:
        names = {"quiet": "quiet", "without_lock": "without_lock", "enable_tensorboard": "tensorboard"}
        return {option: getattr(self, name) for option, name in names.items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class CellOptions(TrainingOptions):
    """Where the cells of a sweep are trained, what is shown, and how they write."""

    workers: Annotated[int | Literal["all"] | None, tyro.conf.arg(metavar="NUMBER|all", help=WORKERS)] = None
    scheduler: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS", help=SCHEDULER)] = None

    def __post_init__(self):
        if self.workers is not None:
            from popsim.sweeps.running import check_workers

            check_workers(self.workers, self.scheduler)
        if self.tensorboard:
            from popsim.training.observers import check_tensorboard

            check_tensorboard()

    @property
    def is_here(self) -> bool:
        return self.workers is None and self.scheduler is None
