"""Run an experiment into a folder, and resume it."""

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from popsim._compiled import current_engine, record_fallbacks
from popsim._shared.checks import warn_caller
from popsim._shared.plain_values import plain_value
from popsim._shared.text_checks import as_path
from popsim.ensemble import member
from popsim.evaluation import check_trials_of
from popsim.experiments.experiment import AbstractExperiment, Recording, check_experiment, check_recording
from popsim.experiments.registry import describe_experiment
from popsim.experiments.run import Run, open_run
from popsim.experiments.run_config import RunConfig, write_config
from popsim.experiments.run_options import (
    Devices,
    RunOptions,
    RunStopped,
    check_flags,
    check_size,
    engine_of_run,
)
from popsim.per_member import select_member
from popsim.store import MismatchError, RunFolder
from popsim.store.checkpoints import Checkpoints
from popsim.store.files import files_below, finished_name
from popsim.store.json_files import plain_json
from popsim.store.run_folder import DescribedRun, import_option
from popsim.store.run_parts import check_parts, write_summary
from popsim.training import Observer, TaskTrainer
from popsim.training.loop.training_plan import plan_training
from popsim.training.options import CHECKPOINT_SECONDS, Training
from popsim.training.population_updates.divided_population import AbstractDividedPopulation
from popsim.training.trainer import train

__all__ = ["run_experiment", "resume_run", "devices_of_run", "run_or_resume"]

SHARED = "selects_with_others"  # in run.json: it cannot be finished by itself


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
    population: AbstractDividedPopulation | None = None,
    without_lock: bool = False,
    stop: Callable[[], bool] | None = None,
    enable_tensorboard: bool = False,
    observers: Sequence[Observer] = (),
) -> Run:
    """Train an experiment's ensemble and save the run: settings, log, history, checkpoints, summary, figures.

    **Arguments:**

    - `experiment`: the experiment.
    - `out`: the folder of the run.
    - `overwrite`: whether to replace an existing run.
    - `quiet`: whether to hide the progress bar.
    - `recording`: the batches after which to keep the trainable arrays; by default the log points,
        including the last batch.
    - `devices`: the devices over which the members are divided, see `TaskTrainer`. Their number changes the
        last digits of the result, and is stored in the run.
    - `checkpoint_seconds`: the interval between checkpoints in seconds; one is also written at the end.
    - `member_batch_size`: how many members are trained at a time, see `TaskTrainer`.
    - `draws_figures`: whether to draw the figures when the training is finished; `popsim show` draws them
        later.
    - `part_of`: JSON values that are stored with the run, such as the sweep of which it is a part.
    - `population`: of a cell of a sweep, what is known of the others with which its members select.
    - `without_lock`: see `TaskTrainer`.
    - `stop`: called about once a second; the run stops when it returns True.
    - `enable_tensorboard`: whether to write events for TensorBoard into `tensorboard/` in the run; needs
        `popsim[tensorboard]`.
    - `observers`: further observers of the training, see `popsim.training.Observer`.

    **Returns:** the run, as opened by `open_run`.

    **Raises:** `ValueError` if `out` already holds something, cannot be written, or another process writes
    it, or if its settings cannot fit into memory; `SaveError` if the disk is full;
    `RunStopped` if `stop` returned True. What memory ends in the first batch leaves no run.
    """
    check_experiment(experiment)
    recording = Recording() if recording is None else recording
    check_recording(recording)
    recording.batches(experiment.n_batches, experiment.log_step)
    if population is None:
        experiment.check_selection(dict(experiment.grid), experiment.n_members)
    RunFolder.check_free(out, overwrite=overwrite)
    entries = {
        "recording": dataclasses.asdict(recording),
        "checkpoint_seconds": plain_value("checkpoint_seconds", checkpoint_seconds),
        "member_batch_size": plain_value("member_batch_size", member_batch_size),
        "draws_figures": draws_figures,
        **({} if part_of is None else {"part_of": plain_json("part_of", part_of)}),
        **({} if population is None else {SHARED: True}),
    }
    options = RunOptions(quiet, devices, population, without_lock, stop, enable_tensorboard, observers)
    return _begin(experiment, Path(out), entries, options, overwrite=overwrite)


def _begin(
    experiment: AbstractExperiment,
    out: Path,
    entries: Mapping[str, Any],
    options: RunOptions,
    *,
    overwrite: bool,
) -> Run:
    """Check all that can be checked before a folder is made, or a run is deleted; then train."""
    entries = {**describe_experiment(experiment), **entries}
    trainer = options.build_trainer(experiment, out, entries)
    stored = plain_json("experiment", entries)
    with options.building(experiment):
        check_size(experiment, trainer)
        untrained = experiment.build_ensemble()
        check_trials_of(member(untrained, 0), select_member(experiment.build_task(), 0).validation_trials())
    RunFolder.make(out)
    with options.lock(out):
        folder = RunFolder.create(out, overwrite=overwrite)
        described = DescribedRun.create(folder, stored | options.circumstances(experiment))
        described = _with_config(described, experiment)
        run = Run(described, experiment)
        try:
            return _train(run, trainer, untrained, options, _write_engine)
        except (MemoryError, jax.errors.JaxRuntimeError) as error:
            _remove_if_untrained(folder, error)
            raise


def _write_engine(run: Run, _: int) -> DescribedRun:
    """Record in run.json that the engine did not know an operation, which is seen when it is traced."""
    engine, described = current_engine(), run.described
    return described if described.content.get("engine") == engine else described.write(engine=engine)


def _with_config(described: DescribedRun, experiment: AbstractExperiment) -> DescribedRun:
    """Return a run with its run.yaml, which a kill may have kept from being written."""
    if described.content.get(SHARED):  # which is not trained by itself
        return described
    recording = described.entry("recording", lambda settings: Recording(**settings))
    return write_config(
        described, RunConfig(experiment, recording, described.entry("checkpoint_seconds", float))
    )


def _remove_if_untrained(folder: RunFolder, error: Exception) -> None:
    """Remove a run in which nothing is trained, so that one with smaller settings can take its folder."""
    if not Checkpoints(folder.checkpoints).steps():
        RunFolder.create(folder.path, overwrite=True)
        if not folder.figures.exists():  # those of a run that this one replaced need its description
            folder.description.unlink()
        # In place of notes on how to resume what is gone.
        error.__notes__ = [f"Nothing was trained: {folder.path} can be used again."]


def resume_run(
    path: str | Path,
    *,
    build: Callable[..., AbstractExperiment] | None = None,
    quiet: bool = False,
    devices: Devices | None = None,
    without_lock: bool = False,
    stop: Callable[[], bool] | None = None,
    enable_tensorboard: bool = False,
    observers: Sequence[Observer] = (),
) -> Run:
    """Finish an interrupted run: the result equals that of an uninterrupted run bit for bit.

    **Arguments:**

    - `path`: the folder of the run. A finished run is returned unchanged if all its parts exist.
    - `build`: see `open_run`.
    - `quiet`, `stop`, `without_lock`, `enable_tensorboard`, `observers`: see `run_experiment`.
    - `devices`: the devices over which the members are divided; None for one. Bitwise equality requires the
        same number as before, see `devices_of_run`.

    **Returns:** the finished run.

    **Raises:** as `open_run` and `run_experiment`; `CorruptDataError` if all checkpoints are damaged, or a
    part is missing; `MismatchError` if the experiment is not the interrupted one, or a part is of another
    run.
    """
    run = open_run(path, build=build)
    options = RunOptions(quiet, devices, None, without_lock, stop, enable_tensorboard, observers)
    return finish_run(run, options)


def finish_run(run: Run, options: RunOptions, *, checkpoint_seconds: float | None = None) -> Run:
    """Finish a run that is already open, by default with the interval between checkpoints it began with."""
    described, folder = run.described, run.folder
    if run.is_finished:
        check_parts(described)
        if described.content.get("finished"):
            return run
        with options.lock(folder.path):  # killed after the summary
            return _finish(Run(described.reread(), run.experiment), options)
    check_flags(described.content, described.path)
    if described.content.get("finished"):
        warn_caller(f"there must be a file {folder.summary}; it is missing: it is made again.")
    if described.content.get(SHARED) and options.population is None:
        command = f"popsim {import_option(described.content)}"
        raise ValueError(
            f"`path` must not be a cell that selects among the members of others, got {folder.path}. "
            f"To continue it with all of them: {command}resume SWEEP"
        )
    if checkpoint_seconds is None:
        checkpoint_seconds = described.entry("checkpoint_seconds", float)
    entries = {**described.content, "checkpoint_seconds": checkpoint_seconds}
    trainer = options.build_trainer(run.experiment, folder.path, entries)
    with options.lock(folder.path):
        # Another process may have continued it before the lock was free.
        run = Run(described.reread(), run.experiment)
        with engine_of_run(run.described):
            run = Run(_with_config(run.described, run.experiment), run.experiment)
            with options.building(run.experiment):
                check_size(run.experiment, trainer)
                untrained = run.experiment.build_ensemble()
            return _train(run, trainer, untrained, options, options.write_resumption)


def devices_of_run(path: str | Path) -> int:
    """Return the number of devices over which a run was divided."""
    return RunFolder.open(path).entry("devices", int)


@record_fallbacks()
def _train(
    run: Run,
    trainer: TaskTrainer,
    untrained: Any,
    options: RunOptions,
    on_begin: Callable[[Run, int], DescribedRun],
) -> Run:
    """Train the remaining batches and finish the run; `on_begin` writes down how it continues."""
    described, experiment = run.described, run.experiment
    recording = described.entry("recording", lambda settings: Recording(**settings))

    def begin(n_batches: int) -> None:
        nonlocal described
        described = on_begin(run, n_batches)

    training = Training(
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
        disable_tqdm=True,  # the options have their own bar, which knows how long a compilation takes
        members=experiment.members if experiment.grid or experiment.first_member else None,
        population=options.population,
        on_begin=begin,
        key=experiment.key("training"),
    )
    ensemble, history = train(plan_training(trainer, training))
    is_inactive = (history.frozen_from >= 0) | (history.stopped_from >= 0)
    has_ended = options.population is None and bool(is_inactive.all())  # before the last batch
    if history.batch.size < experiment.n_batches and not has_ended:
        raise RunStopped(run.folder.path, history.batch.size)
    options.check_not_stopped(run)
    with options.waiting("measuring the trained networks"):
        summary: dict[str, Any] = experiment.summarize(ensemble)
    options.check_not_stopped(run)
    write_summary(described, plain_json("summarize", summary))
    return _finish(Run(described, experiment), options)


def _finish(run: Run, options: RunOptions) -> Run:
    """Draw the figures of a run that has a summary, and record in run.json that it is finished.

    The names of the figures are recorded too, so that lost ones are noticed.
    """
    described = run.described
    if described.content.get("draws_figures", True):
        from popsim.experiments.run_figures import save_figures  # which loads matplotlib

        with options.waiting("drawing the figures"):
            save_figures(run, run.folder.figures)
    figures = sorted(name for name, _ in files_below(run.folder.figures) if finished_name(name) is None)
    return Run(described.write(finished=True, figures=figures), run.experiment)


def run_or_resume(
    experiment: AbstractExperiment,
    out: str | Path,
    *,
    recording: Recording | None = None,
    checkpoint_seconds: float | None = None,
    **options: Any,
) -> Run:
    """Finish the run of an experiment: start it, continue it, or return it if it is finished.

    **Arguments:**

    - `out`: the folder of the run. An existing run must have the same experiment, settings and recording.
    - `checkpoint_seconds`: None for the interval the run began with.
    - `options`: see `run_experiment`. Bitwise equality requires as many `devices` as before, see
        `devices_of_run`.

    **Returns:** the finished run.

    **Raises:** `MismatchError` if `out` holds another run, naming the settings that differ; otherwise as
    `run_experiment` and `resume_run`.
    """
    inspect.signature(run_experiment).bind(experiment, out, **options)  # also where the run is there
    check_experiment(experiment)
    recording = Recording() if recording is None else recording
    check_recording(recording)
    folder = RunFolder(as_path("out", out))
    if not folder.description.exists():
        seconds = CHECKPOINT_SECONDS if checkpoint_seconds is None else checkpoint_seconds
        return run_experiment(experiment, out, recording=recording, checkpoint_seconds=seconds, **options)
    described = DescribedRun.read(folder)
    if differences := differences_from_plan(described.content, experiment, recording):
        raise MismatchError(
            f"`out` must hold a run like this one, to continue it, got {folder.path}: "
            f"{differences_text(differences)}."
        )
    of_now = {field.name for field in dataclasses.fields(RunOptions)}
    now = RunOptions(**{name: value for name, value in options.items() if name in of_now})
    return finish_run(Run(described, experiment), now, checkpoint_seconds=checkpoint_seconds)


def differences_from_plan(
    description: Mapping[str, Any], experiment: AbstractExperiment, recording: Recording
) -> list[tuple[str, Any, Any]]:
    """Return what differs between a `run.json` and a plan: name, described value, planned value."""
    if (name := description.get("experiment")) != experiment.name:
        return [("experiment", name, experiment.name)]
    differences = []
    for part, planned in (("settings", experiment), ("recording", recording)):
        described, plain = description[part], plain_json(part, dataclasses.asdict(planned))
        pairs = {
            name: (described.get(name, "not"), plain.get(name, "not")) for name in {**plain, **described}
        }
        differences += [(name, *values) for name, values in pairs.items() if values[0] != values[1]]
    return differences


def differences_text(differences: Iterable[tuple[str, Any, Any]]) -> str:
    """Return the entries that differ in words."""
    return "; ".join(f"`{name}` is {before!r} there and {now!r} here" for name, before, now in differences)
