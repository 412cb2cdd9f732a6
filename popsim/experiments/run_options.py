"""How a run is trained now: what it is called with, and what is not stored in it."""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from popsim._text_checks import count_text
from popsim._waiting import waiting_line
from popsim.experiments.circumstances import Devices, circumstances, write_resumption
from popsim.experiments.experiment import AbstractExperiment, build_trainer_of
from popsim.experiments.run import Run
from popsim.store import RunFolder, lock_folder
from popsim.store.run_folder import DescribedRun
from popsim.training import Observer, SharedPopulation, TaskTrainer
from popsim.training.progress import progress_observer

__all__ = ["RunOptions", "RunStopped"]


class RunStopped(Exception):
    """A run was stopped. Its progress is saved; `resume_run` continues it.

    **Arguments:**

    - `path`: the folder of the run.
    - `n_batches`: the number of batches trained so far.
    """

    def __init__(self, path: Path, n_batches: int):
        super().__init__(
            f"the run {path} stopped after {count_text(n_batches, 'batch')}; "
            f"to continue: {RunFolder(path).resume_command}"
        )
        self.path = path
        self.n_batches = n_batches


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """How a run is trained now; what it says of itself in run.json is no part of it. See `run_experiment`."""

    quiet: bool = False
    devices: Devices | None = None
    population: SharedPopulation | None = None
    without_lock: bool = False
    stop: Callable[[], bool] | None = None
    enable_tensorboard: bool = False
    observers: Sequence[Observer] = ()

    def build_trainer(
        self, experiment: AbstractExperiment, folder: Path, entries: Mapping[str, Any]
    ) -> TaskTrainer:
        """Build the trainer of a run in a folder, with the options in some entries of its run.json."""
        options: dict[str, Any] = {"checkpoint_seconds": entries["checkpoint_seconds"]}
        if (size := entries.get("member_batch_size")) is not None:
            options["member_batch_size"] = size
        if experiment.selection is not None:
            options["population_updates"] = [experiment.selection]
        if self.without_lock:
            options["without_lock"] = True
        if self.enable_tensorboard:
            options |= {"enable_tensorboard": True, "tensorboard_logdir": RunFolder(folder).tensorboard}
        options |= {"chkpt_dir": folder, "devices": self.devices, "stop": self.stop}
        trainer = build_trainer_of(experiment, **options)
        progress = [] if self.quiet else [progress_observer()]
        return dataclasses.replace(trainer, observers=[*trainer.observers, *progress, *self.observers])

    def waiting(self, what: str) -> contextlib.AbstractContextManager[None]:
        """Return the context in which a line says what is being done, such as "drawing the figures"."""
        return waiting_line(what, disable=self.quiet)

    def building(self, experiment: AbstractExperiment) -> contextlib.AbstractContextManager[None]:
        """Return the context in which a line says that the networks are being built."""
        return self.waiting(f"building {count_text(experiment.n_members, 'network')}")

    def lock(self, folder: Path) -> contextlib.AbstractContextManager[None]:
        """Return the context in which the folder of a run is locked."""
        return lock_folder(folder, without_lock=self.without_lock)

    def write_resumption(self, run: Run, n_batches: int) -> DescribedRun:
        """Record in run.json after which batch a run continues, if its circumstances have changed."""
        return write_resumption(run.described, n_batches, circumstances(self.devices, run.experiment))

    def check_not_stopped(self, run: Run) -> None:
        """Raise `RunStopped` if `stop` returns True; `resume_run` repeats what follows the training."""
        if self.stop is not None and self.stop():
            raise RunStopped(run.folder.path, run.experiment.n_batches)
