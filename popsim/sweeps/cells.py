"""A sweep on disk and its cells, with the checks that each is what the plan says and has lost no file."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from popsim.experiments import AbstractExperiment, Recording
from popsim.experiments.registry import rebuild_experiment
from popsim.experiments.running import differences_from_plan, differences_text
from popsim.store import CorruptDataError, MismatchError
from popsim.store.files import missing_file
from popsim.store.run_folder import DescribedRun
from popsim.store.run_parts import read_parts, read_summary
from popsim.sweeps.division import Division
from popsim.sweeps.folder import CellFolder, SweepFolder
from popsim.sweeps.sweep import Sweep
from popsim.training import SharedPopulation

__all__ = ["DescribedSweep", "SweepCell", "read_cell_description"]


@dataclasses.dataclass(frozen=True)
class DescribedSweep:
    """A sweep on disk, with its description, which is read and checked once.

    - `folder`: the folder.
    - `content`: what is in `sweep.json`.
    - `sweep`: the plan that this describes.
    """

    folder: SweepFolder
    content: Mapping[str, Any]
    sweep: Sweep

    @classmethod
    def read(cls, folder: SweepFolder) -> "DescribedSweep":
        """Read the description and rebuild the plan of the sweep.

        **Raises:** as `SweepFolder.read_plain`; `ValueError` if its experiment is not registered;
        `MismatchError` if its experiment no longer trains cells such as its own.
        """
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
                f"the experiment {experiment.name} must train the cells that {folder.description} has: "
                f"{error}"
            ) from None
        return cls(folder, content, sweep)

    @property
    def sweep_id(self) -> str:
        """The identity of the sweep."""
        return self.content["sweep_id"]

    def cell(self, number: int) -> "SweepCell":
        """Return a cell, whether or not it is started; raises `ValueError` if there is none."""
        self.sweep.check_number(number)
        return SweepCell(self, number)


def _sweep_of(content: Mapping[str, Any], experiment: AbstractExperiment) -> Sweep:
    """Return the sweep that the content of a `sweep.json` describes."""
    axes = {str(name): tuple(values) for name, values in content["axes"].items()}
    first, end = content["seeds"]
    sweep = Sweep(
        experiment,
        axes,
        range(first, end),
        content["members_per_cell"],
        content["member_batch_size"],
        Recording(**content["recording"]),
    )
    return sweep.with_division(Division.parse(content["division"], sweep.axes, len(sweep.seeds)))


@dataclasses.dataclass(frozen=True)
class SweepCell:
    """A cell of a sweep on disk, whether or not it is started.

    - `of_sweep`: the sweep.
    - `number`: the number of the cell.
    """

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

    @property
    def is_locked(self) -> bool:
        """Whether a process trains the cell."""
        return self.of_sweep.folder.holder(self.number) is not None

    def shared_population(self, keeps_waiting: Callable[[Sequence[int]], bool]) -> SharedPopulation:
        """Return the population of the cell, of a sweep that selects across cells."""
        sweep = self.of_sweep.sweep
        cells = sweep.population_of(self.number)
        return SharedPopulation(
            self.of_sweep.folder.selections(cells),
            self.number - cells[0],
            tuple(map(sweep.places_of, cells)),
            run_id=self.of_sweep.sweep_id,
            keeps_waiting=keeps_waiting,
            population=cells[0],
        )

    def read(self) -> DescribedRun:
        """Read the description of the run, which must be what the plan says of it, before the run is used.

        **Raises:** `MismatchError` if the run is another cell, or of another experiment or of other settings;
        `CorruptDataError` if its `run.json` is missing or was changed.
        """
        run, sweep = read_cell_description(self.folder, self.part_of), self.of_sweep.sweep
        differences = differences_from_plan(run.content, self.experiment, sweep.recording)
        batch_size = run.content.get("member_batch_size", sweep.member_batch_size)
        if batch_size != sweep.member_batch_size:
            differences.append(("member_batch_size", batch_size, sweep.member_batch_size))
        if differences:
            text = differences_text(differences)
            raise MismatchError(
                f"{run.path} must be as {self.of_sweep.folder.description} plans it: {text:.500}."
            )
        _ = run.run_id
        return run

    def visible_damage(self) -> str:
        """Return what is wrong with the cell, as far as is seen without reading it all; empty if nothing is.

        Damage within files is not seen: `verify_sweep` reads them.
        """
        try:
            run = self.read()
            damage = read_parts(run).damage(every_byte=False)
            if run.is_finished:
                read_summary(run)
        except (ValueError, OSError) as error:
            return str(error)
        return next((f"{error}" for error in damage.values()), "")


def read_cell_description(folder: CellFolder, part_of: Mapping[str, Any]) -> DescribedRun:
    """Read the `run.json` of a cell, which must be this part of its sweep.

    **Raises:** `MismatchError` if the run is another cell; `CorruptDataError` if its `run.json` is missing or
    was changed.
    """
    if not folder.description.exists():
        raise missing_file(folder.description)
    run = DescribedRun.read(folder)
    if (described := run.content.get("part_of")) != part_of:
        raise MismatchError(
            f"{folder.path} must be cell {part_of['cell']} of this sweep, got a part of {described!r:.200}."
        )
    return run
