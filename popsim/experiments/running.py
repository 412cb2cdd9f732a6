"""Run an experiment into a folder, and resume it."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import jax

from popsim._compiled import PLAIN_JAX, plain_jax, record_fallbacks
from popsim._shared.checks import warn_caller
from popsim._shared.text_checks import as_path, count_text
from popsim._shared.waiting import waiting_line
from popsim.ensemble import member
from popsim.evaluation import check_trials_of
from popsim.experiments.experiment import AbstractExperiment, Recording, check_experiment
from popsim.experiments.registry import describe_experiment
from popsim.experiments.run import Run, open_run
from popsim.experiments.run_options import NewRunOptions, RunOptions, RunStopped, check_flags, check_size
from popsim.per_member import select_member
from popsim.store import MismatchError, RunFolder, lock_folder
from popsim.store.checkpoints import Checkpoints
from popsim.store.files import files_below, finished_name
from popsim.store.json_files import plain_json
from popsim.store.run_folder import DescribedRun
from popsim.store.run_parts import check_parts, write_summary
from popsim.training import TaskTrainer
from popsim.training.loop.training_plan import plan_training
from popsim.training.options import Training
from popsim.training.trainer import train

__all__ = ["run_experiment", "resume_run", "devices_of_run", "run_or_resume"]


def run_experiment(
    experiment: AbstractExperiment, out: str | Path, *, overwrite: bool = False, **options: Any
) -> Run:
    """Train an experiment's ensemble and save the run: settings, log, history, checkpoints, summary, figures.

    **Arguments:**

    - `experiment`: the experiment.
    - `out`: the folder of the run.
    - `overwrite`: whether to replace an existing run.
    - `options`: those of `NewRunOptions`, such as `quiet` and `recording`.

    **Returns:** the run, as opened by `open_run`.

    **Raises:** `SaveError` if the disk is full; `RunStopped` if `stop` returned True. What memory ends in the
    first batch leaves no run.
    """
    check_experiment(experiment)
    return _begin(experiment, out, NewRunOptions(**options), overwrite=overwrite)


def _begin(
    experiment: AbstractExperiment, out: str | Path, options: NewRunOptions, *, overwrite: bool = False
) -> Run:
    """Check all that can be checked before a folder is made, or a run is deleted; then train."""
    options.recording.batches(experiment.n_batches, experiment.log_step)
    if options.population is None:
        experiment.check_selection(dict(experiment.grid), experiment.n_members)
    RunFolder.check_free(out, overwrite=overwrite)
    entries = plain_json("experiment", {**describe_experiment(experiment), **options.entries})
    trainer = options.build_trainer(experiment, Path(out), entries)
    untrained = _build_untrained(experiment, trainer, options)
    check_trials_of(member(untrained, 0), select_member(experiment.build_task(), 0).validation_trials())
    RunFolder.make(out)
    with lock_folder(Path(out), without_lock=options.without_lock):
        folder = RunFolder.create(out, overwrite=overwrite)
        described = DescribedRun.create(folder, entries | options.circumstances(experiment))
        try:
            return _train(Run(described, experiment), trainer, untrained, options)
        except (MemoryError, jax.errors.JaxRuntimeError) as error:
            _remove_if_untrained(folder, error)
            raise


def _build_untrained(experiment: AbstractExperiment, trainer: TaskTrainer, options: RunOptions) -> Any:
    """Return the untrained ensemble, if it fits into memory with what is needed to train it."""
    with waiting_line(f"building {count_text(experiment.n_members, 'network')}", disable=options.quiet):
        check_size(experiment, trainer)
        return experiment.build_ensemble()


def _remove_if_untrained(folder: RunFolder, error: Exception) -> None:
    """Remove a run in which nothing is trained, so that one with smaller settings can take its folder."""
    if not Checkpoints(folder.checkpoints).steps():
        RunFolder.create(folder.path, overwrite=True)
        if not folder.figures.exists():  # those of a run that this one replaced need its description
            folder.description.unlink()
        # In place of notes on how to resume what is gone.
        error.__notes__ = [f"Nothing was trained: {folder.path} can be used again."]


def resume_run(
    path: str | Path, *, build: Callable[..., AbstractExperiment] | None = None, **options: Any
) -> Run:
    """Finish an interrupted run: the result equals that of an uninterrupted run bit for bit.

    **Arguments:**

    - `path`: the folder of the run. A finished run is returned unchanged if all its parts exist.
    - `build`: see `open_run`.
    - `options`: those of `RunOptions`. Bitwise equality requires as many `devices` as before, see
        `devices_of_run`.

    **Returns:** the finished run.

    **Raises:** as `open_run` and `run_experiment`; `MismatchError` also if the experiment is not the
    interrupted one.
    """
    run_options = RunOptions(**options)
    return finish_run(open_run(path, build=build), run_options)


def finish_run(run: Run, options: RunOptions, *, checkpoint_seconds: float | None = None) -> Run:
    """Finish a run that is already open, by default with the interval between checkpoints it began with."""
    described, folder, experiment = run.described, run.folder, run.experiment
    content, lock = described.content, lock_folder(folder.path, without_lock=options.without_lock)
    if run.is_finished:
        check_parts(described)
        if content.get("finished"):
            return run
        with lock:  # killed after the summary
            return _finish(Run(described.reread(), experiment), options)
    check_flags(content, described.path)
    if content.get("finished"):
        warn_caller(f"there must be a file {folder.summary}; it is missing: it is made again.")
    options.check_population(folder.path, content)
    seconds = content["checkpoint_seconds"] if checkpoint_seconds is None else checkpoint_seconds
    trainer = options.build_trainer(experiment, folder.path, {**content, "checkpoint_seconds": seconds})
    with lock:
        # Another process may have continued it before the lock was free.
        run = Run(described.reread(), experiment)
        is_plain = _latest_description(run.described).get("engine") == PLAIN_JAX
        with plain_jax() if is_plain else contextlib.nullcontext():  # as before, for the same bits
            return _train(run, trainer, _build_untrained(experiment, trainer, options), options)


def devices_of_run(path: str | Path) -> int:
    """Return the number of devices over which a run was divided."""
    return RunFolder.open(path).content["devices"]


@record_fallbacks()
def _train(run: Run, trainer: TaskTrainer, untrained: Any, options: RunOptions) -> Run:
    """Train the remaining batches, finish the run, and write down how it continues."""
    described, experiment = run.described, run.experiment
    recording = Recording(**described.content["recording"])

    def begin(n_batches: int) -> None:
        nonlocal described
        described = _write_circumstances(described, options.circumstances(experiment), n_batches)

    def check_not_stopped() -> None:
        if options.stop is not None and options.stop():
            raise RunStopped(run.folder.path, experiment.n_batches)  # what follows, `resume_run` repeats

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
    check_not_stopped()
    with waiting_line("measuring the trained networks", disable=options.quiet):
        summary: dict[str, Any] = experiment.summarize(ensemble)
    check_not_stopped()
    write_summary(described, plain_json("summarize", summary))
    return _finish(Run(described, experiment), options)


def _latest_description(described: DescribedRun) -> dict[str, Any]:
    """Return the description of a run with the circumstances under which it was last resumed."""
    return {**described.content, **(described.content.get("resumed") or [{}])[-1]}


def _write_circumstances(described: DescribedRun, now: Mapping[str, Any], n_batches: int) -> DescribedRun:
    """Record in run.json after how many batches a run continues, if its circumstances have changed.

    Those of a run of which nothing is trained, too: which engine it has is seen when it is traced.
    """
    before = _latest_description(described)
    if all(before.get(name) == value for name, value in now.items()):
        return described
    resumed = [*described.content.get("resumed", []), {"after_batches": n_batches, **now}]
    return described.write(**now) if n_batches == 0 else described.write(resumed=resumed)


def _finish(run: Run, options: RunOptions) -> Run:
    """Draw the figures of a run that has a summary, and record in run.json that it is finished.

    The names of the figures are recorded too, so that lost ones are noticed.
    """
    described = run.described
    if described.content.get("draws_figures", True):
        from popsim.experiments.run_figures import save_figures  # which loads matplotlib

        with waiting_line("drawing the figures", disable=options.quiet):
            save_figures(run, run.folder.figures)
    figures = sorted(name for name, _ in files_below(run.folder.figures) if finished_name(name) is None)
    return Run(described.write(finished=True, figures=figures), run.experiment)


def run_or_resume(experiment: AbstractExperiment, out: str | Path, **options: Any) -> Run:
    """Finish the run of an experiment: start it, continue it, or return it if it is finished.

    **Arguments:**

    - `out`: the folder of the run. An existing run must have the same experiment, settings and recording.
    - `options`: those of `NewRunOptions`. Bitwise equality requires as many `devices` as before, see
        `devices_of_run`.

    **Returns:** the finished run.

    **Raises:** `MismatchError` if `out` holds another run, naming the settings that differ; otherwise as
    `run_experiment` and `resume_run`.
    """
    check_experiment(experiment)
    run_options, folder = NewRunOptions(**options), RunFolder(as_path("out", out))
    if not folder.description.exists():
        return _begin(experiment, out, run_options)
    described = DescribedRun.read(folder)
    if differences := differences_from_plan(described.content, experiment, run_options.recording):
        raise MismatchError(
            f"`out` must hold a run like this one, to continue it, got {folder.path}: "
            f"{differences_text(differences)}."
        )
    seconds = run_options.checkpoint_seconds
    return finish_run(Run(described, experiment), run_options, checkpoint_seconds=seconds)


def differences_from_plan(
    description: Mapping[str, Any], experiment: AbstractExperiment, recording: Recording
) -> list[tuple[str, Any, Any]]:
    """Return what differs between a `run.json` and a plan: name, described value, planned value."""
    if (name := description.get("experiment")) != experiment.name:
        return [("experiment", name, experiment.name)]
    differences = []
    for part, planned in (("settings", experiment), ("recording", recording)):
        both = description[part], plain_json(part, dataclasses.asdict(planned))
        names = {**both[1], **both[0]}
        rows = [(name, *(entries.get(name, "not") for entries in both)) for name in names]
        differences += [row for row in rows if row[1] != row[2]]
    return differences


def differences_text(differences: Iterable[tuple[str, Any, Any]]) -> str:
    """Return the entries that differ in words."""
    return "; ".join(f"`{name}` is {before!r} there and {now!r} here" for name, before, now in differences)
