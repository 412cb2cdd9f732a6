"""A sweep on disk and its cells, with the checks that each is what the plan says and has lost no file."""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from popsim._shared.text_checks import as_path
from popsim.experiments import AbstractExperiment, Recording
from popsim.experiments.registry import rebuild_experiment
from popsim.experiments.running import differences_from_plan, differences_text
from popsim.store import CorruptDataError, MismatchError
from popsim.store.files import missing_file
from popsim.store.run_folder import DescribedRun
from popsim.store.run_parts import read_parts, read_summary
from popsim.sweeps.folder import CellFolder, SweepFolder
from popsim.sweeps.sweep import Division, Sweep

__all__ = ["DescribedSweep", "SweepCell", "read_cell_description", "read_plan"]


@dataclasses.dataclass(frozen=True, eq=False)
class DescribedSweep:
    """A sweep on disk: its folder, what is in `sweep.json`, and the plan that this describes."""

    folder: SweepFolder
    content: Mapping[str, Any]
    sweep: Sweep

    @property
    def sweep_id(self) -> str:
        """The identity of the sweep."""
        return self.content["sweep_id"]

    def cell(self, number: int) -> "SweepCell":
        """Return a cell, whether or not it is started; raises `ValueError` if there is none."""
        self.sweep.check_number(number)
        return SweepCell(self, number)


def read_plan(path: str | Path) -> DescribedSweep:
    """Read the description of a sweep and rebuild its plan; errors as `open_sweep`."""
    folder = SweepFolder(as_path("path", path))
    content = folder.read_plain()
    experiment = rebuild_experiment(content, folder.description)
    try:
        sweep = _sweep_of(content, experiment)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CorruptDataError(f"{folder.description} must describe a sweep: {error}") from None
    try:
        sweep.cell(0)
    except ValueError as error:
        raise MismatchError(
            f"the experiment {experiment.name} must train the cells that {folder.description} has: {error}"
        ) from None
    return DescribedSweep(folder, content, sweep)


def _sweep_of(content: Mapping[str, Any], experiment: AbstractExperiment) -> Sweep:
    axes = {str(name): tuple(values) for name, values in content["axes"].items()}
    sizes = (content["members_per_cell"], content["member_batch_size"])
    sweep = Sweep(experiment, axes, range(*content["seeds"]), *sizes, Recording(**content["recording"]))
    return sweep.with_division(Division.parse(content["division"], sweep.axes, len(sweep.seeds)))


@dataclasses.dataclass(frozen=True, eq=False)
class SweepCell:
    """A cell of a sweep on disk, whether or not it is started."""

    of_sweep: DescribedSweep
    number: int

    @functools.cached_property
    def folder(self) -> CellFolder:
        """The folder of its run."""
        return self.of_sweep.folder.cell(self.number)

    @functools.cached_property
    def experiment(self) -> AbstractExperiment:
        """The experiment that the plan has for the cell, with its members."""
        return self.of_sweep.sweep.cell(self.number).experiment

    @property
    def part_of(self) -> dict[str, Any]:
        """What its run says of its place in the sweep."""
        return {"sweep": self.of_sweep.sweep_id, "cell": self.number}

    def read(self) -> DescribedRun:
        """Read the description of the run, which must be what the plan says of it, before the run is used."""
        run, sweep = read_cell_description(self.folder, self.part_of), self.of_sweep.sweep
        differences = differences_from_plan(run.content, self.experiment, sweep.recording)
        batch_size = run.content.get("member_batch_size", sweep.member_batch_size)
        if batch_size != sweep.member_batch_size:
            differences.append(("member_batch_size", batch_size, sweep.member_batch_size))
        if differences:
            raise MismatchError(
                f"{run.path} must be as {self.of_sweep.folder.description} plans it: "
                f"{differences_text(differences):.500}."
            )
        return run

    def visible_damage(self) -> str:
        """Return what is wrong with the cell, as far as is seen without reading it all; empty if nothing."""
        try:
            run = self.read()
            damage = read_parts(run).damage(every_byte=False)
            if run.is_finished:
                read_summary(run)
        except (ValueError, OSError) as error:
            return str(error)
        return next(map(str, damage.values()), "")


def read_cell_description(folder: CellFolder, part_of: Mapping[str, Any]) -> DescribedRun:
    """Read the `run.json` of a cell, which must be this part of its sweep."""
    if not folder.description.exists():
        raise missing_file(folder.description)
    run = DescribedRun.read(folder)
    if (described := run.content.get("part_of")) != part_of:
        raise MismatchError(
            f"{folder.path} must be cell {part_of['cell']} of this sweep, got a part of {described!r:.200}."
        )
    return run
