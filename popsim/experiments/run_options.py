"""How a run is trained now, on what, and what of this is written into its `run.json`."""

import contextlib
import dataclasses
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from popsim._compiled import PLAIN_JAX, current_engine, plain_jax
from popsim._shared.checks import bytes_of, memory_of_machine
from popsim._shared.named_values import different_flags, missing_flags, numeric_flags
from popsim._shared.text_checks import count_text
from popsim._shared.user_code import code_digest, code_of_modules, users_modules
from popsim._shared.waiting import waiting_line
from popsim.ensemble import member
from popsim.experiments.experiment import AbstractExperiment
from popsim.experiments.registry import described_modules
from popsim.experiments.run import Run
from popsim.model import simulate
from popsim.per_member import select_member
from popsim.randomness import seed_key
from popsim.store import MismatchError, RunFolder, lock_folder
from popsim.store.run_folder import DescribedRun
from popsim.training import Observer, TaskTrainer
from popsim.training.population_updates.divided_population import AbstractDividedPopulation
from popsim.training.progress import progress_observer
from popsim.version import __version__

__all__ = ["Devices", "RunOptions", "RunStopped", "check_flags", "check_size", "code_of_experiment"]

Devices = Sequence[jax.Device]  # pyright: ignore[reportInvalidTypeForm]
FLAGS = "jax_flags"  # in run.json and sweep.json: those that change numbers
CODE = "code"  # in run.json: a digest of the user's modules


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
    population: AbstractDividedPopulation | None = None
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
        trainer = experiment.build_trainer(**options)
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

    def circumstances(self, experiment: AbstractExperiment) -> dict[str, Any]:
        """Return the software and hardware on which an experiment would be trained now."""
        return {
            "popsim": __version__,
            "jax": jax.__version__,
            "python": platform.python_version(),
            "devices": 1 if self.devices is None else min(len(self.devices), experiment.n_members),
            "device_kind": (self.devices or jax.devices())[0].device_kind,
            "engine": current_engine(),
            FLAGS: numeric_flags(),
            CODE: code_digest(code_of_experiment(experiment)),
        }

    def write_resumption(self, run: Run, n_batches: int) -> DescribedRun:
        """Record in run.json after which batch a run continues, if its circumstances have changed."""
        described, now = run.described, self.circumstances(run.experiment)
        before = _latest_description(described)
        if all(before.get(name) == value for name, value in now.items()):
            return described
        resumed = described.content.get("resumed", [])
        return described.write(resumed=[*resumed, {"after_batches": n_batches, **now}])

    def check_not_stopped(self, run: Run) -> None:
        """Raise `RunStopped` if `stop` returns True; `resume_run` repeats what follows the training."""
        if self.stop is not None and self.stop():
            raise RunStopped(run.folder.path, run.experiment.n_batches)


def _latest_description(described: DescribedRun) -> dict[str, Any]:
    """Return the description of a run with the circumstances under which it was last resumed."""
    return {**described.content, **(described.content.get("resumed") or [{}])[-1]}


def engine_of_run(described: DescribedRun) -> contextlib.AbstractContextManager[None]:
    """Return the context in which a run continues with plain JAX if it did so before, for the same bits."""
    is_plain = _latest_description(described).get("engine") == PLAIN_JAX
    return plain_jax() if is_plain else contextlib.nullcontext()


def code_of_experiment(experiment: AbstractExperiment) -> dict[str, str]:
    """Return the digests of what the user's modules define that make an experiment known, by name."""
    modules = described_modules(experiment)
    names = [modules["module"], *modules.get("network_modules", ())]
    return code_of_modules(users_modules(names))


def check_flags(described: Mapping[str, Any], source: Path) -> list[str]:
    """Return flags of JAX that a description does not tell; raise `MismatchError` for those that differ."""
    flags = described.get(FLAGS, {})
    if different := different_flags(flags):
        raise MismatchError(
            f"{source} must be of a training under the present flags of JAX, got others: {different}."
        )
    return missing_flags(flags)


def check_size(experiment: AbstractExperiment, trainer: TaskTrainer | None = None) -> None:
    """Check that validation trials, ensemble, and one batch with its states fit into memory, or the device's.

    A training that is not refused may take several times as much. `trainer` says how many members are trained
    at a time, and on which devices.
    """

    def validation_trials() -> Any:
        return select_member(experiment.build_task(), 0).validation_trials()

    def one_trial() -> Any:
        key = seed_key(0)
        trial = select_member(experiment.build_task(), 0).trial(batch=0, key=key)
        return trial, simulate(member(experiment.build_ensemble(), 0), trial, key=key)

    def check(part: str, build: Callable[[], Any], n: int = 1) -> None:
        n_bytes = n * bytes_of(eqx.filter_eval_shape(build))
        if memory is not None and n_bytes > memory:
            raise ValueError(
                f"the settings of {experiment.name} must fit into the {memory / 1e9:.3g} GB of memory: "
                f"its {part} would take {n_bytes / 1e9:.3g} GB."
            )

    trainer = trainer or experiment.build_trainer()
    device = (trainer.devices or jax.local_devices())[0]
    on_device = None if device.platform == "cpu" else (device.memory_stats() or {}).get("bytes_limit")
    memory = memory_of_machine() if device.platform == "cpu" else on_device
    check("trials", validation_trials)
    check("ensemble", experiment.build_ensemble)
    n_trials = experiment.batch_size // trainer.n_minibatches
    n_members = min(trainer.member_batch_size or 1, experiment.n_members)
    part = f"batch of {n_trials} trials" + (f" of {n_members} members" if n_members > 1 else "")
    check(part, one_trial, n_members * n_trials)
