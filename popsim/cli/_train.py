"""The commands that train: `train` and `resume`."""

import dataclasses
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro

from popsim._shared.text_checks import as_path
from popsim.cli._commands import Flag, TrainingOptions
from popsim.cli._devices import training_devices
from popsim.cli._signals import EXIT_CODE, stop_on_signals
from popsim.experiments import (
    AbstractExperiment,
    NewRunOptions,
    Recording,
    Run,
    RunStopped,
    devices_of_run,
    run_experiment,
    run_or_resume,
)
from popsim.experiments.experiment import HELP, Grid
from popsim.experiments.run_config import read_run_config
from popsim.experiments.settings import setting_types
from popsim.store import RunFolder

Keep = Annotated[str, tyro.conf.arg(metavar="BATCHES", help=f"when to keep the weights: {HELP}")]
Float16 = Annotated[Flag, tyro.conf.arg(help="keep them with half the digits")]


def finish(path: Path, train: Callable[[Callable[[], bool]], Run], *, resumes: bool) -> None:
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


def settings_of(kind: type[AbstractExperiment]) -> type[AbstractExperiment]:
    """Return the settings of a kind of experiment as options for tyro, with the help of their metadata."""
    hints: dict[str, Any] = {**setting_types(kind), "grid": tyro.conf.Suppress[Grid]}
    described: list[Any] = []
    for field in dataclasses.fields(kind):
        if "help" in field.metadata or field.name == "n_members":
            name = "members" if field.name == "n_members" else None
            about = tyro.conf.arg(name=name, help=field.metadata.get("help", "number of networks"))
            described.append((field.name, Annotated[hints[field.name], about], field))
    namespace = {"__doc__": kind.__doc__}
    return dataclasses.make_dataclass("Settings", described, bases=(kind,), namespace=namespace, frozen=True)


def as_experiment(kind: type[AbstractExperiment], settings: AbstractExperiment) -> AbstractExperiment:
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
    stated: NewRunOptions = NewRunOptions(),  # noqa: B008
) -> type:
    """Return the command that trains an experiment, as a dataclass for tyro, with the defaults of a file."""
    settings = settings_of(kind)
    default: Any = {} if experiment is None else {"default": as_experiment(settings, experiment)}

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
        keep: Keep = stated.recording.trainables
        float16: Float16 = stated.recording.float16
        checkpoint_seconds: float = stated.entries["checkpoint_seconds"]
        """seconds between checkpoints; one is also written at the end, and when stopped"""
        training: TrainingOptions = TrainingOptions()

        def run(self) -> None:
            """Train, save, and print."""
            if self.resume and self.overwrite:
                raise ValueError("`resume` and `overwrite` must not be given together: got both.")
            experiment = as_experiment(kind, self.experiment)
            out = self.out or Path("runs") / f"{experiment.name}-{experiment.seed}"
            devices = self.training.devices
            if devices is None and self.resume and RunFolder(out).description.exists():
                devices = devices_of_run(out)
            options: dict[str, Any] = {
                "quiet": self.training.quiet,
                "recording": Recording(self.keep, self.float16),
                "devices": training_devices(devices),
                "checkpoint_seconds": self.checkpoint_seconds,
                **self.training.disk_options,
            }
            train = run_or_resume if self.resume else partial(run_experiment, overwrite=self.overwrite)
            finish(out, lambda stop: train(experiment, out, stop=stop, **options), resumes=self.resume)

    TrainExperiment.__doc__ = kind.__doc__
    return TrainExperiment
