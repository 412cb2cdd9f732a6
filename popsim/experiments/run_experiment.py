"""Run an experiment into a folder, and resume it."""

import contextlib
import dataclasses
import platform
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax

from popsim._checks import warn_caller
from popsim._compiled import ENGINE, PLAIN_JAX, current_engine, plain_jax, record_fallbacks
from popsim._numeric_flags import different_flags, numeric_flags, unknown_flags
from popsim._plain_values import plain_value
from popsim._text_checks import as_path
from popsim.ensemble import member
from popsim.experiments._figures import save_figures
from popsim.experiments.described_run import differences_from_plan
from popsim.experiments.experiment import AbstractExperiment, Recording, check_experiment, check_recording
from popsim.experiments.memory import check_size
from popsim.experiments.registry import describe_experiment
from popsim.experiments.run import Run, open_run
from popsim.per_member import of_member
from popsim.store import CorruptDataError, MismatchError, RunFolder, lock_folder, write_sealed_json
from popsim.store.checkpoints import Checkpoints
from popsim.store.files import files_below, finished_name
from popsim.store.identity import RUN_ID, new_run_id
from popsim.store.json_files import plain_json
from popsim.store.run_folder import FORMAT, check_resumable, import_option, read_description
from popsim.store.run_parts import check_parts, run_id_of
from popsim.training import SharedPopulation, TaskTrainer
from popsim.training.options import CHECKPOINT_SECONDS
from popsim.version import __version__

__all__ = ["RunStopped", "run_experiment", "resume_run", "devices_of_run", "run_or_resume"]

Devices = Sequence[jax.Device]  # pyright: ignore[reportInvalidTypeForm]
FLAGS = "jax_flags"  # in run.json and sweep.json: those that change numbers
SHARED = "selects_with_others"  # in run.json: it cannot be finished by itself


class RunStopped(Exception):
    """A run was stopped. Its progress is saved; `resume_run` continues it.

    **Arguments:**

    - `path`: the folder of the run.
    - `n_batches`: the number of batches trained so far.
    """

    def __init__(self, path: Path, n_batches: int):
        super().__init__(
            f"the run {path} stopped after {n_batches} batches; to continue: {RunFolder(path).resume_command}"
        )
        self.path = path
        self.n_batches = n_batches


def run_experiment(
    experiment: AbstractExperiment,
    out: str | Path,
    *,
    overwrite: bool = False,
    quiet: bool = False,
    recording: Recording | None = None,
    devices: Devices | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    member_batch_size: int | None = None,
    draws_figures: bool = True,
    part_of: Mapping[str, Any] | None = None,
    population: SharedPopulation | None = None,
    without_lock: bool = False,
    stop: Callable[[], bool] | None = None,
) -> Run:
    """Train an experiment's ensemble and save the run: settings, log, history, checkpoints, summary, figures.

    **Arguments:**

    - `experiment`: the experiment.
    - `out`: the folder of the run.
    - `overwrite`: whether to replace an existing run.
    - `quiet`: whether to hide the progress bar.
    - `recording`: the batches after which to keep the trainable arrays; by default the logging points,
        including the last batch.
    - `devices`: the devices over which the members are divided, see `TaskTrainer`. Their number changes the
        last digits of the result, and is stored in the run.
    - `checkpoint_seconds`: the interval between checkpoints in seconds; one is also written at the end.
    - `member_batch_size`: how many members are trained at a time, see `TaskTrainer`.
    - `draws_figures`: whether to draw the figures when the training is finished; `popsim show` draws them
        later.
    - `part_of`: JSON values that are stored with the run, such as the sweep of which it is a part.
    - `population`: the runs with whose members those of this one select, see `SharedPopulation`.
    - `without_lock`: see `TaskTrainer`.
    - `stop`: called about once a second; the run stops when it returns True.

    **Returns:** the run, as opened by `open_run`.

    **Raises:** `ValueError` if `out` already holds something, cannot be written, or another process writes
    it, or if its settings cannot fit into memory; `SaveError` if the disk is full;
    `RunStopped` if `stop` returned True. What memory ends in the first batch leaves no run.
    """
    _check_kinds(experiment, recording)
    recording = recording or Recording()
    checkpoint_seconds = plain_value("checkpoint_seconds", checkpoint_seconds)
    member_batch_size = plain_value("member_batch_size", member_batch_size)
    part_of = None if part_of is None else plain_json("part_of", part_of)
    recording.batches(experiment.n_batches, experiment.log_step)
    if population is None:
        experiment.check_selection(dict(experiment.grid), experiment.n_members)
    RunFolder.check_free(out, overwrite=overwrite)
    described = describe_experiment(experiment)
    trainer = experiment.build_trainer(
        chkpt_dir=Path(out),
        devices=devices,
        checkpoint_seconds=checkpoint_seconds,
        member_batch_size=member_batch_size,
        stop=stop,
        **_further_options(experiment, without_lock),
    )
    described = {
        **described,
        "recording": dataclasses.asdict(recording),
        "checkpoint_seconds": checkpoint_seconds,
        "member_batch_size": member_batch_size,
        "draws_figures": draws_figures,
        **({} if part_of is None else {"part_of": part_of}),
        **({} if population is None else {SHARED: True}),
    }
    described = plain_json("experiment", described)  # before a folder is made, or a run is deleted
    check_size(experiment, member_batch_size=member_batch_size, devices=devices)
    untrained = experiment.build_ensemble()
    member(untrained, 0).check(of_member(experiment.build_task(), 0).validation_trials())
    RunFolder.make(Path(out))
    with lock_folder(Path(out), without_lock=without_lock):
        folder = RunFolder.create(Path(out), overwrite=overwrite)
        write_sealed_json(
            folder.description,
            {
                "format": FORMAT,
                RUN_ID: new_run_id(),
                **described,
                **_circumstances(devices, experiment),
            },
        )
        run = Run(folder, experiment)
        try:
            on_begin = partial(_write_engine, run)
            return _train(run, trainer, untrained, on_begin, quiet=quiet, stop=stop, population=population)
        except (MemoryError, jax.errors.JaxRuntimeError) as error:
            _remove_if_untrained(folder, error)
            raise


def _check_kinds(experiment: Any, recording: Any) -> None:
    check_experiment(experiment)
    if recording is not None:
        check_recording(recording)


def _remove_if_untrained(folder: RunFolder, error: Exception) -> None:
    """Remove a run of which nothing is trained, so that one with smaller settings can take its folder."""
    if not Checkpoints(folder.checkpoints).steps():
        RunFolder.create(folder.path, overwrite=True)
        if not folder.figures.exists():  # those of a run that this one replaced need its description
            folder.description.unlink()
        # In place of notes on how to resume what is gone.
        error.__notes__ = [f"Nothing was trained: {folder.path} can be used again."]


def _further_options(experiment: AbstractExperiment, without_lock: bool) -> dict[str, Any]:
    """Return the options of a trainer that only some trainings have: a selection, a disk without locks."""
    options = {} if experiment.selection is None else {"population_updates": [experiment.selection]}
    return options | ({"without_lock": True} if without_lock else {})


def resume_run(
    path: str | Path,
    *,
    build: Callable[..., AbstractExperiment] | None = None,
    quiet: bool = False,
    devices: Devices | None = None,
    without_lock: bool = False,
    stop: Callable[[], bool] | None = None,
) -> Run:
    """Finish an interrupted run: the result equals that of an uninterrupted run bit for bit.

    **Arguments:**

    - `path`: the folder of the run. A finished run is returned unchanged if all its parts exist.
    - `build`: see `open_run`.
    - `quiet`, `stop`, `without_lock`: see `run_experiment`.
    - `devices`: the devices over which the members are divided; None for one. Bitwise equality requires the
        same number as before, see `devices_of_run`.

    **Returns:** the finished run.

    **Raises:** as `open_run` and `run_experiment`; `CorruptDataError` if all checkpoints are damaged, or a
    part is missing; `MismatchError` if the experiment is not the interrupted one, or a part is of another
    run.
    """
    run = open_run(path, build=build)
    return finish_run(run, quiet=quiet, devices=devices, without_lock=without_lock, stop=stop)


def finish_run(
    run: Run,
    *,
    quiet: bool,
    devices: Devices | None,
    checkpoint_seconds: float | None = None,
    population: SharedPopulation | None = None,
    without_lock: bool = False,
    stop: Callable[[], bool] | None,
) -> Run:
    """Finish a run that is already open; other arguments and errors as for `resume_run`.

    **Arguments:**

    - `checkpoint_seconds`: see `run_experiment`; None for the interval the run began with.
    - `population`: see `run_experiment`.

    **Raises:** `ValueError` if the run began with a population and there is none; `MismatchError` if it has a
    format that is only read.
    """
    if run.is_finished:
        check_parts(run.folder)
        if not read_description(run.folder.description).get("finished"):  # killed after the summary
            with lock_folder(run.folder.path, without_lock=without_lock):
                _finish(run)
        return run
    check_resumable(run.folder.description)
    check_flags(read_description(run.folder.description), run.folder.description)
    if read_description(run.folder.description).get("finished"):
        warn_caller(f"there must be a file {run.folder.summary}; it is missing: it is made again.")
    if (seconds := checkpoint_seconds) is None:
        seconds = _written_down(run.folder, "checkpoint_seconds", float)
    described = read_description(run.folder.description)
    options = {"devices": devices, "checkpoint_seconds": seconds, "stop": stop}
    if (size := described.get("member_batch_size")) is not None:
        options["member_batch_size"] = size
    if described.get(SHARED) and population is None:
        command = f"popsim {import_option(described)}"
        raise ValueError(
            f"`path` must not be a cell that selects among the members of others, got {run.folder.path}: "
            f"{command}resume SWEEP continues all of them, {command}sweep run SWEEP --cell NUMBER one."
        )
    options |= _further_options(run.experiment, without_lock)
    trainer = run.experiment.build_trainer(chkpt_dir=run.folder.path, **options)
    with lock_folder(run.folder.path, without_lock=without_lock), _as_it_began(run):
        check_size(run.experiment, member_batch_size=size, devices=devices)
        untrained, on_begin = run.experiment.build_ensemble(), partial(_write_circumstances, run, devices)
        return _train(run, trainer, untrained, on_begin, quiet=quiet, stop=stop, population=population)


def _circumstances(devices: Devices | None, experiment: AbstractExperiment) -> dict[str, Any]:
    """Return the software and hardware of a run, which affect the last digits of its result, or more."""
    return {
        "popsim": __version__,
        "jax": jax.__version__,
        "python": platform.python_version(),
        "devices": 1 if devices is None else min(len(devices), experiment.n_members),
        "device_kind": (devices or jax.devices())[0].device_kind,
        "engine": current_engine(),
        FLAGS: numeric_flags(),
    }


def check_flags(described: Mapping[str, Any], source: Path) -> list[str]:
    """Check that a run, or a sweep, was begun under the flags of JAX that are in force now.

    **Arguments:**

    - `described`: the content of its run.json or sweep.json.
    - `source`: the path of this file, for the error message.

    **Returns:** the names of the flags that it does not tell, which are unknown and not compared.

    **Raises:** `MismatchError` naming the flags that differ; `CorruptDataError` if they are not flags.
    """
    flags = described.get(FLAGS, {})
    if not isinstance(flags, dict):
        raise CorruptDataError(f"{source} must tell flags of JAX by name, got {flags!r:.100}.")
    if different := different_flags(flags):
        raise MismatchError(
            f"{source} must be of a training under the present flags of JAX, got others: {different}."
        )
    return unknown_flags(flags)


def _write_circumstances(run: Run, devices: Devices | None, n_batches: int) -> None:
    """Record in run.json the batch after which a run continues under changed circumstances."""
    description = read_description(run.folder.description)
    resumed, now = _resumptions(run, description), _circumstances(devices, run.experiment)
    # A run that does not tell its engine is older than the choice between the two.
    before = {"engine": ENGINE, **description, **(resumed[-1] if resumed else {})}
    if any(before.get(name) != value for name, value in now.items()):
        resumed = [*resumed, {"after_batches": n_batches, **now}]
        write_sealed_json(run.folder.description, {**description, "resumed": resumed})


def _as_it_began(run: Run) -> contextlib.AbstractContextManager[None]:
    """Return the context in which a run continues with plain JAX if it did so before, for the same bits."""
    description = read_description(run.folder.description)
    resumed = _resumptions(run, description)
    engine = {**description, **(resumed[-1] if resumed else {})}.get("engine")
    return plain_jax() if engine == PLAIN_JAX else contextlib.nullcontext()


def _resumptions(run: Run, description: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the circumstances under which a run was resumed, from its description."""
    resumed = description.get("resumed", [])
    if not isinstance(resumed, list) or not all(isinstance(entry, dict) for entry in resumed):
        raise CorruptDataError(
            f"{run.folder.description} must list how the run went on, got {resumed!r:.100}."
        )
    return resumed


def _write_engine(run: Run, n_batches: int) -> None:
    """Record in run.json that the engine did not know an operation, which is seen when it is traced."""
    description = read_description(run.folder.description)
    if description.get("engine") != (engine := current_engine()):
        write_sealed_json(run.folder.description, {**description, "engine": engine})


def devices_of_run(path: str | Path) -> int:
    """Return the number of devices over which a run was divided."""
    return _written_down(RunFolder.open(path), "devices", int)


def _written_down(folder: RunFolder, name: str, make: Callable[[Any], Any]) -> Any:
    """Read an entry of run.json; raises `CorruptDataError` if `make` cannot convert it."""
    described = read_description(folder.description)
    try:
        return make(described[name])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        message = f"{folder.description} must have {name!r} as popsim writes it: {error!r}."
        raise CorruptDataError(message) from None


@record_fallbacks()
def _train(
    run: Run,
    trainer: TaskTrainer,
    untrained: Any,
    on_begin: Callable[[int], None],
    *,
    quiet: bool,
    stop: Callable[[], bool] | None,
    population: SharedPopulation | None,
) -> Run:
    """Train the remaining batches and finish the run."""
    folder, experiment = run.folder, run.experiment
    recording = _written_down(folder, "recording", lambda settings: Recording(**settings))
    ensemble, history = trainer(
        experiment.build_task(),
        untrained,
        experiment.n_batches,
        experiment.batch_size,
        experiment.where_train,
        ensembled=True,
        log_step=experiment.log_step,
        save_model_trainables=recording.batches(experiment.n_batches, experiment.log_step),
        trainables_dtype=recording.dtype,
        restore_checkpoint=True,
        disable_tqdm=quiet,
        members=experiment.members if experiment.grid or experiment.first_member else None,
        population=population,
        on_begin=on_begin,
        key=experiment.key("training"),
    )
    is_held = (history.frozen_from >= 0) | (history.stopped_from >= 0)
    has_ended = population is None and bool(is_held.all())  # before the last batch
    if history.batch.size < experiment.n_batches and not has_ended:
        raise RunStopped(folder.path, history.batch.size)
    _leave_if_told(run, stop)
    summary: dict[str, Any] = experiment.summarize(ensemble)
    _leave_if_told(run, stop)
    finished = Run(folder, experiment)
    folder.check_plain()
    write_sealed_json(folder.summary, {**plain_json("summarize", summary), RUN_ID: run_id_of(folder)})
    _finish(finished)
    return finished


def _finish(run: Run) -> None:
    """Draw the figures of a run that has a summary, and record in run.json that it is finished.

    The names of the figures are recorded too, so that lost ones are noticed. A figure that cannot be drawn
    is not tried again by every `resume`.
    """
    description = read_description(run.folder.description)
    if description.get("draws_figures", True):
        save_figures(run)
    figures = sorted(name for name, _ in files_below(run.folder.figures) if finished_name(name) is None)
    write_sealed_json(run.folder.description, {**description, "finished": True, "figures": figures})


def _leave_if_told(run: Run, stop: Callable[[], bool] | None) -> None:
    """Raise `RunStopped` if `stop` returns True; `resume_run` repeats what follows the training."""
    if stop is not None and stop():
        raise RunStopped(run.folder.path, run.experiment.n_batches)


def run_or_resume(
    experiment: AbstractExperiment,
    out: str | Path,
    *,
    quiet: bool = False,
    recording: Recording | None = None,
    devices: Devices | None = None,
    checkpoint_seconds: float | None = None,
    population: SharedPopulation | None = None,
    without_lock: bool = False,
    stop: Callable[[], bool] | None = None,
    **new: Any,
) -> Run:
    """Finish the run of an experiment: start it, continue it, or return it if it is finished.

    **Arguments:**

    - `out`: the folder of the run. An existing run must have the same experiment, settings and recording.
    - `checkpoint_seconds`: None for the interval the run began with.
    - `new`: further arguments of `run_experiment`, for a run that does not exist yet.
    - others: see `run_experiment`. Bitwise equality requires as many `devices` as before, see
        `devices_of_run`.

    **Returns:** the finished run.

    **Raises:** `MismatchError` if `out` holds another run, naming the settings that differ; otherwise as
    `run_experiment` and `resume_run`.
    """
    _check_kinds(experiment, recording)
    folder = RunFolder(as_path("out", out))
    folder.check_plain()
    recording = recording or Recording()
    how: dict[str, Any] = {"quiet": quiet, "devices": devices, "population": population, "stop": stop}
    how["without_lock"] = without_lock
    if not folder.description.exists():
        seconds = CHECKPOINT_SECONDS if checkpoint_seconds is None else checkpoint_seconds
        how |= {"checkpoint_seconds": seconds, "recording": recording, **new}
        return run_experiment(experiment, out, **how)
    description = read_description(folder.description)
    _check_same(description, experiment, recording, folder)
    return finish_run(Run(folder, experiment), checkpoint_seconds=checkpoint_seconds, **how)


def _check_same(
    description: Mapping[str, Any], experiment: AbstractExperiment, recording: Recording, folder: RunFolder
) -> None:
    """**Raises:** `MismatchError` naming what differs."""
    if differ := differences_from_plan(description, experiment, recording):
        differences = "; ".join(
            f"`{name}` is {stored!r} there and {planned!r} here" for name, stored, planned in differ
        )
        raise MismatchError(
            f"`out` must hold a run like this one, to continue it, got {folder.path}: {differences}."
        )
