"""The commands on sweeps: `sweep EXPERIMENT`, `sweep run`, `sweep script`."""

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tqdm import tqdm

from popsim._shared.text_checks import count_text
from popsim.cli._as_json import info_of_sweep, print_json
from popsim.cli._devices import training_devices
from popsim.cli._messages import print_damage, refuse_damaged
from popsim.cli._options import Flag, TrainingOptions
from popsim.cli._signals import EXIT_CODE, stop_on_signals, stop_when_input_ends
from popsim.cli._train import Float16, Keep, as_experiment, finish, settings_of
from popsim.experiments import AbstractExperiment, Recording, RunStopped
from popsim.sweeps import (
    OpenedSweep,
    Sweep,
    SweepFolder,
    make_sweep,
    open_sweep,
    run_cell,
    run_in_processes,
    run_sweep,
    verify_sweep,
)
from popsim.sweeps.cell_training import check_no_selection
from popsim.sweeps.executors import default_workers
from popsim.sweeps.folder import parse_axes, read_config, read_seeds
from popsim.sweeps.opened_sweep import read_sweep
from popsim.sweeps.overview import UNCHECKED_OF_SWEEP, UNCHECKED_WITHOUT_PLAN, plan_table, state_text
from popsim.sweeps.running import check_sweep, check_workers
from popsim.sweeps.slurm import SlurmOptions, write_slurm_script
from popsim.training.observers import check_tensorboard

SweepPath = Annotated[
    tyro.conf.Positional[Path], tyro.conf.arg(metavar="SWEEP", help="the folder of the sweep")
]


MOST_EXAMINED = 1000  # cells, each of which takes some milliseconds
WORKERS = (
    "train this many cells at a time, or all: one per accelerator, or per core; each in a process of its "
    "own, over one device unless --devices says more; by default one after the other in this process"
)
SCHEDULER = (
    "train cells in such processes on a Dask cluster (popsim[dask]), such as tcp://node1:8786, or the file "
    "that its scheduler wrote"
)


@dataclasses.dataclass(frozen=True)
class Engine(TrainingOptions):
    """Where the cells of a sweep are trained."""

    workers: Annotated[int | Literal["all"] | None, tyro.conf.arg(metavar="NUMBER|all", help=WORKERS)] = None
    scheduler: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS", help=SCHEDULER)] = None

    def check(self) -> None:
        """Raise `ValueError` if options do not go together."""
        check_workers(self.n_workers, self.scheduler)
        if self.tensorboard:
            check_tensorboard()

    @property
    def n_workers(self) -> int | None:
        """The number of processes at a time, if one is given."""
        return default_workers() if self.workers == "all" else self.workers

    @property
    def is_here(self) -> bool:
        """Whether this process trains the cells."""
        return self.workers is None and self.scheduler is None

    @property
    def cell_options(self) -> dict[str, Any]:
        """The options of `run_cell` in this process, whose devices are looked up."""
        devices = {"devices": training_devices(self.devices), "keeps_devices": self.devices is None}
        return {**devices, **self.disk_options}

    def train(self, path: Path, cells: list[int] | None) -> OpenedSweep:
        """Train cells of a sweep, by default those that are not finished."""
        self.check()
        stopped = f"popsim: stopped; to continue: {SweepFolder(path).command('resume')}"

        def tell(line: str) -> None:
            if not self.quiet:
                tqdm.write(line, file=sys.stderr)  # above a bar, if there is one
                sys.stderr.flush()

        try:
            with stop_on_signals(lambda: stopped) as stop:
                told: dict[str, Any] = {"quiet": self.quiet, "stop": stop, "tell": tell}
                if self.is_here:
                    return run_sweep(path, cells, **told, **self.cell_options)
                where = {"n_workers": self.n_workers, "scheduler": self.scheduler, "devices": self.devices}
                return run_in_processes(path, cells, **where, **told, **self.disk_options)
        except RunStopped:
            print(stopped, file=sys.stderr)
            sys.exit(EXIT_CODE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """What is done with a sweep."""

    engine: Engine
    dry_run: Flag = False
    """print the cells, and do nothing"""
    only_make: Flag = False
    """make the folder, and train nothing yet"""

    def make_and_train(self, sweep: Sweep, out: Path) -> None:
        """Make a sweep and train its cells, or only print its cells."""
        self.engine.check()
        if self.dry_run:
            print(plan_table(sweep))
            check_sweep(sweep, out)
            return
        opened = make_sweep(sweep, out, without_lock=self.engine.without_lock)
        print(f"{count_text(sweep.n_cells, 'cell')}, {count_text(sweep.n_members, 'network')}: {out}")
        if self.only_make:
            run, script = (opened.folder.command(f"sweep {verb}") for verb in ("run", "script"))
            if not sweep.selects_across_cells:
                print(f"To train one cell: {run} --cell NUMBER")
                print(f"To write a job script: {script} --slurm")
            print(f"Next, to train all cells: {run}")
        else:
            print_trained_sweep(self.engine.train(out, None))


def sweep_command(kind: type[AbstractExperiment]) -> type:
    """Return the command that sweeps over settings of one kind of experiment, as a dataclass for tyro."""

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
        keep: Keep = "logged"
        float16: Float16 = False

        def run(self) -> None:
            """Make the sweep and train its cells."""
            experiment = as_experiment(kind, self.experiment)
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
                Recording(self.keep, self.float16),
            )
            out = self.out or Path("sweeps") / experiment.name
            self.make_and_train(sweep, out)

    SweepExperiment.__doc__ = kind.__doc__
    return SweepExperiment


@dataclasses.dataclass(frozen=True, kw_only=True)
class SweepConfig(SweepOptions):
    """Train the sweep that a YAML file describes, as `popsim sweep` writes it into the folder of a sweep."""

    config: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """the file"""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """the folder of the sweep"""

    def run(self) -> None:
        """Make the sweep and train its cells."""
        self.make_and_train(read_config(self.config), self.out)


def print_trained_sweep(opened: OpenedSweep) -> None:
    """Print the state and the results of a trained sweep."""
    print(f"cells: {opened.counts_text}")
    print(f"sweep: {opened.folder.path}")
    print(f"Next: {opened.folder.command('show' if opened.is_finished else 'resume')}")


@dataclasses.dataclass(frozen=True)
class SweepRun:
    """Train cells of a sweep that are not finished, by default all of them."""

    path: SweepPath
    engine: Engine
    cell: Annotated[tyro.conf.UseAppendAction[tuple[int, ...]], tyro.conf.arg(metavar="NUMBER")] = ()
    """a cell to train or to continue; nothing is done where it is finished. Repeat it for further ones"""
    until_input_ends: Flag = False
    """stop with a checkpoint when standard input ends, as it does when the process that started this dies"""

    def run(self) -> None:
        """Train the cells."""
        self.engine.check()
        if self.until_input_ends:
            stop_when_input_ends()
        elif self.cell:
            check_no_selection(read_sweep(self.path), "cell")
        if len(self.cell) != 1 or not self.engine.is_here:
            print_trained_sweep(self.engine.train(self.path, list(self.cell) or None))
            return
        (number,) = self.cell
        cell = read_sweep(self.path).cell(number)
        options = {"quiet": self.engine.quiet, **self.engine.cell_options}
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
        """Write the script and print its path."""
        if not self.slurm:
            raise ValueError("popsim sweep script must be given --slurm: there is no other kind of script.")
        if self.options.tensorboard:
            check_tensorboard()
        print(write_slurm_script(open_sweep(self.path), self.options, self.out, overwrite=self.overwrite))


VERBS: dict[str, type] = {"run": SweepRun, "script": SweepScript}


def print_sweep(path: Path, *, verify: bool) -> None:
    """Print the state of a sweep and the cells that are not finished; with `verify`, check its files."""
    damage = verify_sweep(path) if verify else {}
    opened = read_sweep(path, is_known=False).with_notes()
    is_examined = verify or opened.n_cells <= MOST_EXAMINED
    opened = opened.examine() if is_examined else opened
    print(state_text(opened))
    if not is_examined:
        print("--verify looks for lost and damaged files of cells")
    damage |= _damaged_cells(opened, damage)
    unchecked = UNCHECKED_OF_SWEEP if opened.plan is not None else UNCHECKED_WITHOUT_PLAN
    print_damage(damage, unchecked=unchecked if verify else None)
    refuse_damaged(path, damage)


def print_sweep_as_json(path: Path, *, verify: bool) -> None:
    """Print the state of a sweep as JSON; with `verify`, check the files of its cells."""
    damage = verify_sweep(path) if verify else {}
    opened = read_sweep(path, is_known=False).with_notes()
    print_json(info_of_sweep(opened) | ({"damage": damage} if verify else {}))
    refuse_damaged(path, damage | _damaged_cells(opened, damage))


def _damaged_cells(opened: OpenedSweep, damage: Mapping[str, str]) -> dict[str, str]:
    """Return what is wrong with damaged cells of which no file is named yet, by their folder."""
    found = {}
    for number in opened.cells_in("damaged"):
        name = opened.folder.cell(number).path.relative_to(opened.folder.path).as_posix()
        if not any(file.startswith(f"{name}/") for file in damage):
            found[name] = opened.problem_of(number)
    return found
