"""The commands that train: `train`, and on sweeps `sweep EXPERIMENT`, `sweep run` and `sweep script`."""

import collections
import dataclasses
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro
from tqdm import tqdm

from popsim import experiments
from popsim._shared.text_checks import as_path, count_text
from popsim.cli._devices import training_devices
from popsim.cli._options import CellOptions, Flag, TrainingOptions
from popsim.cli._signals import EXIT_CODE, stop_on_signals, stop_when_input_ends
from popsim.experiments import AbstractExperiment, Recording, RunStopped, run_experiment, run_or_resume
from popsim.experiments.experiment import Grid
from popsim.experiments.run_config import read_run_config
from popsim.experiments.settings import setting_types
from popsim.store import RunFolder
from popsim.sweeps import Sweep, SweepFolder, make_sweep, open_sweep, overview, run_cell, run_sweep
from popsim.sweeps.cell_training import check_no_selection
from popsim.sweeps.folder import parse_axes, read_config, read_seeds
from popsim.sweeps.opened_sweep import read_sweep
from popsim.sweeps.running import check_sweep
from popsim.sweeps.slurm import SlurmOptions, write_slurm_script
from popsim.training.observers import check_tensorboard

SweepPath = Annotated[
    tyro.conf.Positional[Path], tyro.conf.arg(metavar="SWEEP", help="the folder of the sweep")
]
DESCRIBED = ("experiment", "axes", "seeds", "n_members", "n_cells")  # in sweep.json
MOST_EXAMINED = 1000  # cells, each of which takes some milliseconds


def finish(path: Path, train: Callable[[Callable[[], bool]], experiments.Run], *, resumes: bool) -> None:
    """Train, which may be stopped by a signal, and print the results; say so if all was finished before."""

    def on_idle() -> str:
        folder = RunFolder(path)
        begun, none = f"to continue: {folder.resume_command}", f"there is no run in {path} yet"
        how = begun if folder.description.exists() else none
        return f"popsim: stopped before the first batch; {how}"

    was_finished = resumes and RunFolder(path).is_finished
    try:
        with stop_on_signals(on_idle) as stop:
            run = train(stop)
    except RunStopped as stopped:
        print(f"popsim: {stopped}", file=sys.stderr)
        sys.exit(EXIT_CODE)
    print(run.results())
    if was_finished:
        print("the run was finished before: nothing was left to train")
    if run.log:
        print(f"trained in {run.log[-1]['seconds']:.0f} s")
    print(f"run: {run.folder.path}")
    for figure in sorted(run.folder.figures.glob("*.png")):
        print(figure)
    print(f"Next: {run.folder.command('show')}")


def settings_of(kind: type[Any]) -> type[Any]:
    """Return the settings of an experiment, or of what is kept, as options for tyro, with their metadata."""
    hints: dict[str, Any] = {**setting_types(kind), "grid": tyro.conf.Suppress[Grid]}
    described: list[Any] = []
    for field in dataclasses.fields(kind):
        if "help" in field.metadata or field.name == "n_members":
            name = "members" if field.name == "n_members" else None
            about = tyro.conf.arg(name=name, help=field.metadata.get("help", "number of networks"))
            described.append((field.name, Annotated[hints[field.name], about], field))
    namespace = {"__doc__": kind.__doc__}
    return dataclasses.make_dataclass("Settings", described, bases=(kind,), namespace=namespace, frozen=True)


def as_kind(kind: type[Any], settings: Any) -> Any:
    """Return an experiment of a kind with the settings of another, such as some `settings_of` its kind."""
    return kind(**{field.name: getattr(settings, field.name) for field in dataclasses.fields(kind)})


def config_command(file: str, words: list[str]) -> tuple[type, str, list[str]]:
    """Return the command, its name and options, that trains what a file says, with options in some words."""
    if not file:
        raise ValueError("--config must be followed by a file.")
    experiment, options = read_run_config(as_path("config", file))
    name = experiment.name
    if words and not words[0].startswith("-"):
        if words[0] != name:
            raise ValueError(
                f"`experiment` in {file} must be {words[0]!r}, as the command names it, got {name!r}."
            )
        words = words[1:]
    return train_command(type(experiment), experiment, options), f"popsim train {name}", words


def train_command(
    kind: type[AbstractExperiment],
    experiment: AbstractExperiment | None = None,
    stated: experiments.NewRunOptions = experiments.NewRunOptions(),  # noqa: B008
) -> type:
    """Return the command that trains an experiment, as a dataclass for tyro, with the defaults of a file."""
    settings, kept = settings_of(kind), settings_of(Recording)
    default: Any = {} if experiment is None else {"default": as_kind(settings, experiment)}

    @dataclasses.dataclass(frozen=True)
    class TrainExperiment:
        experiment: settings = dataclasses.field(**default)  # pyright: ignore[reportInvalidTypeForm]
        """the settings of the experiment"""

        out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
        """the folder of the run; by default runs/EXPERIMENT-SEED"""
        overwrite: Flag = False
        """replace an existing run"""
        resume: Flag = False
        """continue the same run if it exists; a finished one is only printed"""
        recording: kept = as_kind(kept, stated.recording)  # pyright: ignore[reportInvalidTypeForm]
        """which weights are kept"""
        checkpoint_seconds: float = stated.entries["checkpoint_seconds"]
        """seconds between checkpoints; one is also written at the end, and when stopped"""
        training: TrainingOptions = TrainingOptions()

        def run(self) -> None:
            """Train, save, and print."""
            if self.resume and self.overwrite:
                raise ValueError("`resume` and `overwrite` must not be given together: got both.")
            experiment = as_kind(kind, self.experiment)
            out = self.out or Path("runs") / f"{experiment.name}-{experiment.seed}"
            devices = self.training.devices
            if devices is None and self.resume and RunFolder(out).description.exists():
                devices = experiments.devices_of_run(out)
            options: dict[str, Any] = {
                **self.training.run_options,
                "recording": as_kind(Recording, self.recording),
                "devices": training_devices(devices),
                "checkpoint_seconds": self.checkpoint_seconds,
            }
            train = run_or_resume if self.resume else partial(run_experiment, overwrite=self.overwrite)
            finish(out, lambda stop: train(experiment, out, stop=stop, **options), resumes=self.resume)

    TrainExperiment.__doc__ = kind.__doc__
    return TrainExperiment


def _options_here(options: CellOptions) -> dict[str, Any]:
    """Return the options of `run_cell` in this process, whose devices are looked up."""
    devices = {"devices": training_devices(options.devices), "keeps_devices": options.devices is None}
    return {**devices, **options.run_options}


def train_cells(options: CellOptions, path: Path, cells: list[int] | None = None) -> None:
    """Train cells of a sweep, by default those that are not finished, and print the state of the sweep."""
    stopped = f"popsim: stopped; to continue: {SweepFolder(path).command('resume')}"

    def tell(line: str) -> None:
        if not options.quiet:
            tqdm.write(line, file=sys.stderr)  # above a bar, if there is one
            sys.stderr.flush()

    try:
        with stop_on_signals(lambda: stopped) as stop:
            where: dict[str, Any] = {"n_workers": options.workers, "scheduler": options.scheduler}
            where |= options.run_options | {"n_devices": options.devices}
            where = _options_here(options) if options.is_here else where
            opened = run_sweep(path, cells, stop=stop, tell=tell, **where)
    except RunStopped:
        print(stopped, file=sys.stderr)
        sys.exit(EXIT_CODE)
    print(f"cells: {opened.counts_text}")
    print(f"sweep: {opened.folder.path}")
    print(f"Next: {opened.folder.command('show' if opened.is_finished else 'resume')}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """What is done with a sweep."""

    cells: CellOptions
    dry_run: Flag = False
    """print the cells, and do nothing"""
    only_make: Flag = False
    """make the folder, and train nothing yet"""

    def make_and_train(self, sweep: Sweep, out: Path) -> None:
        """Make a sweep and train its cells, or only print its cells."""
        if self.dry_run:
            print(overview.plan_table(sweep))
            check_sweep(sweep, out)
            return
        opened = make_sweep(sweep, out, without_lock=self.cells.without_lock)
        print(f"{count_text(sweep.n_cells, 'cell')}, {count_text(sweep.n_members, 'network')}: {out}")
        if self.only_make:
            run, script = (opened.folder.command(f"sweep {verb}") for verb in ("run", "script"))
            if not sweep.selects_across_cells:
                print(f"To train one cell: {run} --cell NUMBER")
                print(f"To write a job script: {script} --slurm")
            print(f"Next, to train all cells: {run}")
        else:
            train_cells(self.cells, out)


def sweep_command(kind: type[AbstractExperiment]) -> type:
    """Return the command that sweeps over settings of one kind of experiment, as a dataclass for tyro."""
    kept = settings_of(Recording)

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class SweepExperiment(SweepOptions):
        experiment: settings_of(kind)  # pyright: ignore[reportInvalidTypeForm]
        """the settings that are no axes"""

        grid: Annotated[
            tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="SETTING=VALUE,VALUE")
        ] = ()
        """an axis: a setting, named as its option, and its values; repeat it for further axes"""
        seeds: Annotated[str | None, tyro.conf.arg(metavar="FIRST:END")] = None
        """the seeds of each combination: 0:20 leaves out 20, and 7 is one seed, that of network 7, where
        0:7 are seven; by default one per network (--members)"""
        out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
        """the folder of the sweep; by default sweeps/EXPERIMENT"""
        members_per_cell: int | None = None
        """the largest number of networks that are trained together"""
        member_batch_size: int | None = None
        """number of networks that are trained at a time; the last digits of results depend on it"""
        recording: kept = kept()  # pyright: ignore[reportInvalidTypeForm]
        """which weights are kept"""

        def run(self) -> None:
            """Make the sweep and train its cells."""
            experiment = as_kind(kind, self.experiment)
            first, n_members = experiment.first_member, experiment.n_members
            axes = parse_axes(kind, self.grid)
            for field in dataclasses.fields(kind):
                value = getattr(experiment, field.name)
                if field.name in axes and value != field.default:
                    raise ValueError(
                        f"`{field.name}` must be given once, got {value} and values of it in --grid."
                    )
            sweep = Sweep(
                experiment,
                axes,
                range(first, first + n_members) if self.seeds is None else read_seeds(self.seeds),
                self.members_per_cell,
                self.member_batch_size,
                as_kind(Recording, self.recording),
            )
            out = self.out or Path("sweeps") / experiment.name
            self.make_and_train(sweep, out)

    SweepExperiment.__doc__ = kind.__doc__
    return SweepExperiment


@dataclasses.dataclass(frozen=True, kw_only=True)
class SweepConfig(SweepOptions):
    """Train the sweep that a YAML file describes, or another sweep anew."""

    config: Annotated[Path, tyro.conf.arg(metavar="FILE|SWEEP")]
    """the file, or the folder of a sweep"""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """the folder of the sweep"""

    def run(self) -> None:
        is_sweep = self.config.is_dir()
        self.make_and_train(read_sweep(self.config).sweep if is_sweep else read_config(self.config), self.out)


@dataclasses.dataclass(frozen=True)
class SweepRun:
    """Train cells of a sweep that are not finished, by default all of them."""

    path: SweepPath
    cells: CellOptions
    cell: Annotated[tyro.conf.UseAppendAction[tuple[int, ...]], tyro.conf.arg(metavar="NUMBER")] = ()
    """a cell to train or to continue; nothing is done where it is finished. Repeat it for further ones"""
    until_input_ends: Flag = False
    """stop with a checkpoint when standard input ends, as it does when the process that started this dies"""

    def run(self) -> None:
        if self.until_input_ends:
            stop_when_input_ends()
        elif self.cell:
            check_no_selection(read_sweep(self.path), "cell")
        if len(self.cell) != 1 or not self.cells.is_here:
            train_cells(self.cells, self.path, list(self.cell) or None)
            return
        (number,) = self.cell
        cell = read_sweep(self.path).cell(number)
        options = _options_here(self.cells)
        finish(cell.folder.path, lambda stop: run_cell(self.path, number, stop=stop, **options), resumes=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SweepScript:
    """Write a job script that trains a sweep on a cluster with SLURM: a job array without Dask."""

    path: SweepPath
    slurm: Flag = False
    """write a script for sbatch"""
    options: Annotated[SlurmOptions, tyro.conf.UseAppendAction, tyro.conf.FlagCreatePairsOff] = SlurmOptions()
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """the script; by default sweep.sbatch in the folder of the sweep"""
    overwrite: Flag = False
    """replace an existing script"""

    def run(self) -> None:
        if not self.slurm:
            raise ValueError("popsim sweep script must be given --slurm: there is no other kind of script.")
        if self.options.tensorboard:
            check_tensorboard()
        print(write_slurm_script(open_sweep(self.path), self.options, self.out, overwrite=self.overwrite))


VERBS: dict[str, type] = {"run": SweepRun, "script": SweepScript}


def sweep_info(path: Path, verify: bool) -> tuple[dict[str, Any], str, dict[str, str], str]:
    """Return what a sweep is as plain data and as text, what is damaged, and what was not checked."""
    damage = overview.verify_sweep(path) if verify else {}
    opened = read_sweep(path, is_known=False).with_notes()
    is_examined = verify or opened.n_cells <= MOST_EXAMINED
    opened = opened.examine() if is_examined else opened
    states = [note.present_state for note in opened.notes]
    described = {
        "kind": "sweep",
        "path": opened.folder.path,
        **{name: opened.content.get(name) for name in DESCRIBED},
        "counts": collections.Counter(states),
        "cells": [
            {"cell": number, "state": state, "problem": opened.notes[number].problem or None}
            for number, state in enumerate(states)
        ],
        "resume_command": None if opened.is_finished else opened.folder.command("resume"),
    }
    hint = "" if is_examined else "\n--verify looks for lost and damaged files of cells"
    for number in opened.cells_in("damaged"):  # of which no file is named yet
        name = opened.folder.cell(number).path.relative_to(opened.folder.path).as_posix()
        if not any(file.startswith(f"{name}/") for file in damage):
            damage[name] = opened.problem_of(number)
    unchecked = overview.UNCHECKED_WITHOUT_PLAN if opened.plan is None else overview.UNCHECKED_OF_SWEEP
    return described, overview.state_text(opened) + hint, damage, unchecked
