"""How a run is trained, on what, and what of this is written into its `run.json`."""

import dataclasses
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from popsim._compiled import current_engine
from popsim._shared.checks import bytes_of, check_positive, memory_of_machine
from popsim._shared.named_values import describe_differences, numeric_flags
from popsim._shared.plain_values import plain_value
from popsim._shared.text_checks import count_text
from popsim._shared.user_code import code_digest, users_code
from popsim.ensemble import member
from popsim.experiments.experiment import AbstractExperiment, Recording, check_recording
from popsim.model import simulate
from popsim.networks.registry import NETWORKS
from popsim.per_member import select_member
from popsim.randomness import seed_key
from popsim.store import MismatchError, RunFolder
from popsim.store.json_files import plain_json
from popsim.store.run_folder import import_option
from popsim.training import Observer, TaskTrainer
from popsim.training.options import CHECKPOINT_SECONDS
from popsim.training.population_updates.divided_population import AbstractDividedPopulation
from popsim.training.progress import progress_observer
from popsim.version import __version__

__all__ = ["NewRunOptions", "RunOptions", "RunStopped"]

Devices = Sequence[jax.Device]  # pyright: ignore[reportInvalidTypeForm]
FLAGS = "jax_flags"  # in run.json and sweep.json: those that change numbers
CODE = "code"  # in run.json: a digest of the user's modules
OF_TRAINER = ("devices", "stop", "without_lock", "enable_tensorboard")  # options that it takes as they are
SHARED = "selects_with_others"  # in run.json: it cannot be finished by itself


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
    """How a run is trained now, given to `run_experiment`, `resume_run` and `run_or_resume` by name.

    - `quiet`: whether to hide the progress bar.
    - `devices`: the devices over which the members are divided, see `TaskTrainer`; None for one. Their number
        changes the last digits of the result, and is stored in the run.
    - `population`: of a cell of a sweep, what is known of the others with which its members select.
    - `without_lock`: see `TaskTrainer`.
    - `stop`: called about once a second; the run stops when it returns True.
    - `enable_tensorboard`: whether to write events for TensorBoard into `tensorboard/` in the run; needs
        `popsim[tensorboard]`.
    - `observers`: further observers of the training, see `popsim.training.Observer`.
    """

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
        selection = experiment.selection
        options = {name: getattr(self, name) for name in OF_TRAINER} | {
            "chkpt_dir": folder,
            "checkpoint_seconds": entries["checkpoint_seconds"],
            "member_batch_size": entries.get("member_batch_size"),
            "population_updates": selection and [selection],
            "tensorboard_logdir": self.enable_tensorboard and RunFolder(folder).tensorboard,
        }
        given = {name: value for name, value in options.items() if value is not None and value is not False}
        trainer = experiment.build_trainer(**given)
        progress = [] if self.quiet else [progress_observer()]
        return dataclasses.replace(trainer, observers=[*trainer.observers, *progress, *self.observers])

    def check_population(self, folder: Path, description: Mapping[str, Any]) -> None:
        """Raise `ValueError` for a run whose members select among those of others, without these."""
        if description.get(SHARED) and self.population is None:
            raise ValueError(
                f"`path` must not be a cell that selects among the members of others, got {folder}. "
                f"To continue it with all of them: popsim {import_option(description)}resume SWEEP"
            )

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


@dataclasses.dataclass(frozen=True)
class NewRunOptions(RunOptions):
    """The options of a new run: those of `RunOptions`, and what its `run.json` says of it.

    - `recording`: the batches after which to keep the trainable arrays; by default the log points, including
        the last batch.
    - `checkpoint_seconds`: the interval between checkpoints in seconds; one is also written at the end. By
        default a minute, or of a run that continues, that with which it began.
    - `member_batch_size`: how many members are trained at a time, see `TaskTrainer`.
    - `draws_figures`: whether to draw the figures when the training is finished; `popsim show` draws them
        later.
    - `part_of`: JSON values that are stored with the run, such as the sweep of which it is a part.
    """

    recording: Recording = Recording()
    checkpoint_seconds: float | None = None
    member_batch_size: int | None = None
    draws_figures: bool = True
    part_of: Mapping[str, Any] | None = None

    def __post_init__(self):
        check_recording(self.recording)
        if self.checkpoint_seconds is not None:
            check_positive("checkpoint_seconds", self.checkpoint_seconds)

    @property
    def entries(self) -> dict[str, Any]:
        """What run.json says of the options."""
        seconds = CHECKPOINT_SECONDS if self.checkpoint_seconds is None else self.checkpoint_seconds
        return {
            "recording": dataclasses.asdict(self.recording),
            "checkpoint_seconds": plain_value("checkpoint_seconds", seconds),
            "member_batch_size": plain_value("member_batch_size", self.member_batch_size),
            "draws_figures": self.draws_figures,
            **({} if self.part_of is None else {"part_of": plain_json("part_of", self.part_of)}),
            **({} if self.population is None else {SHARED: True}),
        }


def code_of_experiment(experiment: AbstractExperiment) -> dict[str, str]:
    """Return the digests of the user's functions and classes of which an experiment is made, by name."""
    return users_code(experiment, NETWORKS)  # all of these: cells of one sweep may have different networks


def check_flags(described: Mapping[str, Any], source: Path) -> list[str]:
    """Return flags of JAX that a description does not tell; raise `MismatchError` for those that differ."""
    flags, now = described.get(FLAGS, {}), numeric_flags()
    both = ({name: values[name] for name in now if name in flags} for values in (flags, now))
    if different := describe_differences(*both):
        raise MismatchError(
            f"{source} must be of a training under the present flags of JAX, got others: {different}."
        )
    return [name for name in now if name not in flags]


def check_size(experiment: AbstractExperiment, trainer: TaskTrainer | None = None) -> None:
    """Check that validation trials, ensemble, and one batch with its states fit into memory, or the device's.

    A training that is not refused may take several times as much. `trainer` says how many members are trained
    at a time, and on which devices.
    """
    trainer, key = trainer or experiment.build_trainer(), seed_key(0)

    def one_trial() -> Any:
        trial = select_member(experiment.build_task(), 0).trial(batch=0, key=key)
        return trial, simulate(member(experiment.build_ensemble(), 0), trial, key=key)

    device = (trainer.devices or jax.local_devices())[0]
    is_cpu = device.platform == "cpu"
    memory = memory_of_machine() if is_cpu else (device.memory_stats() or {}).get("bytes_limit")
    n_trials = experiment.batch_size // trainer.n_minibatches
    n_members = min(trainer.member_batch_size or 1, experiment.n_members)
    batch = f"batch of {n_trials} trials" + (f" of {n_members} members" if n_members > 1 else "")
    for part, build, n in (
        ("trials", lambda: select_member(experiment.build_task(), 0).validation_trials(), 1),
        ("ensemble", experiment.build_ensemble, 1),
        (batch, one_trial, n_members * n_trials),
    ):
        n_bytes = n * bytes_of(eqx.filter_eval_shape(build))
        if memory is not None and n_bytes > memory:
            raise ValueError(
                f"the settings of {experiment.name} must fit into the {memory / 1e9:.3g} GB of memory: "
                f"its {part} would take {n_bytes / 1e9:.3g} GB."
            )
