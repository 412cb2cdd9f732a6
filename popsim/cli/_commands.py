"""The commands and their arguments.

They import what they need when they run, so that help and refusals take no time for JAX.
"""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import tyro

from popsim.cli._options import CellOptions, Flag

AsJson = Annotated[
    Flag, tyro.conf.arg(help="print one JSON value, whose keys are documented, for other programs")
]
RunPath = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN", help="the folder of the run")]
Named = Annotated[
    tyro.conf.Positional[str],
    tyro.conf.arg(metavar="EXPERIMENT", help="what to train, see popsim list; or --config FILE"),
]


@dataclasses.dataclass(frozen=True)
class Train:
    """Train an ensemble: `popsim train EXPERIMENT --help` lists the settings of an experiment.

    `popsim train --config RUN --seed 1` trains with the settings of another run, or of a YAML file.
    """

    experiment: Named


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Train an ensemble at every combination of some settings: `popsim sweep EXPERIMENT --help` lists these.

    `popsim sweep run SWEEP --cell 17` trains a part of it, on any machine that sees its folder.
    """

    experiment: Named


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resume(CellOptions):
    """Finish an interrupted run, or what is missing of a sweep: the result is the same, bit for bit."""

    path: RunPath

    def run(self) -> None:
        from popsim.cli._devices import training_devices
        from popsim.cli._train import finish, train_cells
        from popsim.experiments import devices_of_run, resume_run
        from popsim.sweeps import SweepFolder

        if SweepFolder(self.path).is_sweep:
            train_cells(self, self.path)
            return
        for name in ("workers", "scheduler"):
            if (value := getattr(self, name)) is not None:
                raise ValueError(f"`{name}` must be given for a sweep only, got {value!r}.")
        devices = training_devices(devices_of_run(self.path) if self.devices is None else self.devices)
        options: Any = {"devices": devices, **self.run_options}
        finish(self.path, lambda stop: resume_run(self.path, stop=stop, **options), resumes=True)


@dataclasses.dataclass(frozen=True)
class Info:
    """Print the contents of a run or a sweep, finished or not, and its progress."""

    path: RunPath
    verify: Flag = False
    """read all that has a checksum, and print what was not checked; exit code 2 if something is damaged"""
    json: AsJson = False

    def run(self) -> None:
        from popsim.store import CorruptDataError
        from popsim.sweeps import SweepFolder

        if SweepFolder(self.path).is_sweep:
            from popsim.cli._train import sweep_info as info
        else:
            from popsim.cli._outputs import run_info as info
        described, text, damage, unchecked = info(self.path, self.verify)
        if self.json:
            print_json(described | ({"damage": damage} if self.verify else {}))
        else:
            print(text)
            if self.verify and not damage:
                print("\nwhat was checked is as it was written")
            for name, problem in damage.items():
                print(f"DAMAGED: {name}: {problem}")
            if self.verify:
                print(f"not checked: {unchecked}")
        if damage:
            raise CorruptDataError(f"damaged in {self.path}: {', '.join(damage)}")


@dataclasses.dataclass(frozen=True)
class Show:
    """Print the table of a run or a sweep, draw its figures, and write a report that opens in any browser."""

    path: RunPath
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """where report.html and figures/ are written; by default into the run"""
    score: Annotated[str | None, tyro.conf.arg(metavar="COLUMN")] = None
    """of a sweep: what settings are compared by, such as training_loss; by default the validation_loss"""
    json: AsJson = False

    def run(self) -> None:
        from popsim._shared.waiting import waiting_line
        from popsim.experiments import open_run
        from popsim.sweeps import SweepFolder, open_sweep

        is_sweep, score = SweepFolder(self.path).is_sweep, self.score or "validation_loss"
        if self.score is not None and not is_sweep:
            raise ValueError(f"`score` must be given for a sweep only, got {self.score!r}.")
        opened: Any = open_sweep(self.path) if is_sweep else open_run(self.path)
        with waiting_line("drawing the figures"):
            from popsim.report import report_run, report_sweep

            report = report_sweep(opened, self.out, score=score) if is_sweep else report_run(opened, self.out)
        if not self.json:
            _print(report)
            return
        described = {
            "kind": "sweep" if is_sweep else "run",
            "path": opened.folder.path,
            "experiment": (opened.sweep if is_sweep else opened).experiment.name,
            "is_finished": opened.is_finished,
            **({"score": score} if is_sweep else {"summary": opened.summary}),
            "results": opened.summary().to_dict("records") if is_sweep else opened.results(),
        }
        print_json({**described, "figures": report.figures, "report": report.page})


@dataclasses.dataclass(frozen=True)
class Compare:
    """Print the differences and results of runs, draw them together, and write a report."""

    paths: Annotated[
        tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN RUN ...", help="folders of runs")
    ]
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("comparison")
    """where comparison.html and figures/ are written"""
    names: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="NAME NAME ...")] = None
    """names of the runs; by default the names of their folders"""

    def run(self) -> None:
        from popsim.report import compare_runs

        _print(compare_runs(self.paths, self.out, names=self.names))


def _print(report: Any) -> None:
    from popsim._shared.text_checks import size_text

    print(report.table, *report.figures, f"{report.page} ({size_text(report.n_bytes)})", sep="\n")


@dataclasses.dataclass(frozen=True)
class ShowTask:
    """Print the parts of a task, and draw a few of its trials."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK", help="see popsim list")]
    trials: int = 4
    """number of trials to draw"""
    seed: int = 0
    """seed of the trials"""
    batch: int | None = None
    """training batch of the trials; by default one after all schedules have ended"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """the figure, PNG, PDF or SVG; by default figures/TASK.png"""
    overwrite: Flag = False
    """replace an existing figure"""

    def run(self) -> None:
        from popsim.cli._tasks import show_task

        print(f"\n{show_task(self)}")


@dataclasses.dataclass(frozen=True)
class Animate:
    """Write a movie of the body of a run: members side by side, or early, middle and late training."""

    path: RunPath
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """the movie, GIF, HTML or, by ffmpeg, MP4; by default figures/movie.gif in the run"""
    members: Annotated[tuple[int, ...], tyro.conf.arg(metavar="NUMBER ...")] = (0,)
    """the networks that are shown side by side"""
    batches: Annotated[tuple[str, ...], tyro.conf.arg(metavar="BATCH ...")] = ("last",)
    """stages of training that are shown: start, first, middle, last, or numbers of batches that were kept"""
    trials: Annotated[tuple[int, ...] | None, tyro.conf.arg(metavar="NUMBER ...")] = None
    """validation trials that are played one after another; by default the first"""
    conditions: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="NAME=VALUE ...")] = None
    """in place of their numbers, conditions of the trials, such as direction=1.57"""
    speed: float = 1.0
    """1 is real time, 0.25 slow motion"""
    frames_per_second: float = 25.0
    """pictures per second of the movie, in a GIF at most 50"""
    trail: float = 2.0
    """how much of the path of the hand is shown, in s"""
    without_noise: Flag = False
    """show the networks without noise"""
    overwrite: Flag = False
    """replace an existing movie"""

    def run(self) -> None:
        from popsim.cli._outputs import write_movie

        print(write_movie(self))


@dataclasses.dataclass(frozen=True)
class Export:
    """Export a run (ensemble, history, states, figures) or the results of a sweep for other software."""

    path: RunPath
    model: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """the trained ensemble, as safetensors"""
    history: Annotated[Path | None, tyro.conf.arg(metavar="FILE.nc|FILE.mat")] = None
    """losses and recorded weights, as NetCDF-4 or for MATLAB"""
    figures: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """all figures, as PNG and PDF"""
    states: Annotated[Path | None, tyro.conf.arg(metavar="FILE.nc|FILE.mat")] = None
    """activity, hand, muscles and all other states on the validation trials, as NetCDF-4 or for MATLAB"""
    summary: Annotated[Path | None, tyro.conf.arg(metavar="FILE.csv")] = None
    """of a sweep: settings and results, a row for each network"""
    overwrite: Flag = False
    """replace existing files"""

    def run(self) -> None:
        from popsim.cli._outputs import export

        export(self)


@dataclasses.dataclass(frozen=True)
class Init:
    """Write a small project of your own: a task, an experiment that trains at once, and a test."""

    path: Annotated[
        tyro.conf.Positional[Path],
        tyro.conf.arg(metavar="FOLDER", help="a new folder, whose name becomes that of the package"),
    ]

    def run(self) -> None:
        from popsim.cli._init import write_project

        write_project(self.path)


@dataclasses.dataclass(frozen=True)
class List:
    """Print the available experiments, tasks, plants and networks."""

    json: AsJson = False

    def run(self) -> None:
        from popsim._shared.text_checks import align
        from popsim.cli._tasks import listed

        kinds = listed()
        if self.json:
            print_json({title.partition(" (")[0]: summaries for title, summaries in kinds.items()})
            return
        for title, summaries in kinds.items():
            rows = [(f"  {name}", summary) for name, summary in summaries.items()]
            print(title, *align(rows, at_least=[29]), sep="\n")


def print_json(value: Any) -> None:
    """Print a value as JSON, with null for numbers that are not finite."""
    import msgspec

    def as_plain(value: Any) -> Any:
        if isinstance(value, range):
            return [*value]
        return value.tolist() if hasattr(value, "tolist") else str(value)  # of an array, of a path

    encoded = msgspec.json.encode(value, enc_hook=as_plain)
    print(msgspec.json.format(encoded, indent=2).decode())


COMMANDS = {
    "train": Train,
    "sweep": Sweep,
    "resume": Resume,
    "info": Info,
    "show": Show,
    "compare": Compare,
    "show-task": ShowTask,
    "animate": Animate,
    "export": Export,
    "init": Init,
    "list": List,
}
