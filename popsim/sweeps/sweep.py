"""The plan of a sweep: an experiment, axes of settings, seeds, and the cells into which they are divided."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from popsim._shared.checks import LARGEST_INT, check_non_negative_int, check_positive_int, is_number
from popsim._shared.plain_values import plain_value
from popsim._shared.text_checks import suggestion
from popsim.experiments import AbstractExperiment, Recording
from popsim.experiments.experiment import check_experiment, check_recording
from popsim.experiments.settings import as_setting, setting_types
from popsim.per_member import MOST_MEMBERS

__all__ = ["Cell", "Sweep"]

MOST_CELLS = 20_000
NOT_AXES = {
    "n_members": "`seeds` says how many there are",
    "first_member": "`seeds` says which there are",
    "grid": "the axes are the grid",
    "seed": "`seeds` are the seeds of a sweep; the seed of the experiment belongs to all of them",
    "select_every": "the members of a population select at the same batches",
}
SHARED_SETTINGS = ("seed", "select_every")  # which a sweep has, but no axis can be


@dataclasses.dataclass(frozen=True)
class Cell:
    """A part of a sweep that is trained by itself, as an ordinary run.

    - `number`: its number, from 0, which names it.
    - `settings`: the settings of the axes that all its members share.
    - `experiment`: the experiment, with its members.
    """

    number: int
    settings: Mapping[str, Any]
    experiment: AbstractExperiment

    def __str__(self) -> str:
        """Describe the cell, such as "n_units = 32; learning_rate = 0.001, 0.003; seeds 0 to 19"."""
        shared = [f"{name} = {value}" for name, value in self.settings.items()]
        grid = [f"{name} = {', '.join(map(str, values))}" for name, values in self.experiment.grid]
        first, n_seeds = self.experiment.first_member, self.experiment.members.shape[-1]
        seeds = f"seed {first}" if n_seeds == 1 else f"seeds {first} to {first + n_seeds - 1}"
        return "; ".join([*shared, *grid, seeds])


@dataclasses.dataclass(frozen=True)
class Division:
    """How each population is divided into cells: every piece of values with every piece of seeds.

    - `member_axes`: by axis along which the members of a cell may differ, how many values are in each piece.
    - `seeds`: how many seeds are in each piece.
    """

    member_axes: Mapping[str, Sequence[int]]
    seeds: Sequence[int]

    @property
    def n_parts(self) -> int:
        """The number of cells of a population."""
        return len(self.seeds) * math.prod(map(len, self.member_axes.values()))

    @functools.cached_property
    def parts(self) -> list[tuple[slice, ...]]:
        """Which of the values of each axis, and of the seeds, are in each cell of a population."""
        pieces = []
        for lengths in (*self.member_axes.values(), self.seeds):
            ends = itertools.pairwise([0, *itertools.accumulate(lengths)])
            pieces.append(itertools.starmap(slice, ends))
        return [*itertools.product(*pieces)]

    @functools.cached_property
    def places(self) -> list[np.ndarray]:
        """The places of the members of each cell in their population."""
        shape = [*map(sum, (*self.member_axes.values(), self.seeds))]
        grid = np.arange(math.prod(shape)).reshape(shape)
        return [grid[part].ravel() for part in self.parts]

    @functools.cached_property
    def order(self) -> np.ndarray:
        """For each place of a population, the number of its member where cells follow one another."""
        return np.argsort(np.concatenate(self.places))


def divide(axes: Mapping[str, Sequence[Any]], seeds: range, most: int | None) -> Division:
    """Divide members into cells of at most `most`, as evenly as possible, along the first axes first."""
    lengths = {name: len(values) for name, values in axes.items()}
    most = most or math.prod(lengths.values()) * len(seeds)
    pieces: dict[str, list[int]] = {}
    for place, (name, length) in enumerate(lengths.items()):
        n_per_value = math.prod([*lengths.values()][place + 1 :])
        pieces[name] = _even(length, max(1, most // n_per_value))
    n_per_piece = math.prod(map(max, pieces.values()))
    return Division(pieces, _even(len(seeds), max(1, most // n_per_piece) if n_per_piece <= most else 1))


def _even(n: int, most: int) -> list[int]:
    """Divide `n` into numbers of at most `most`, as evenly as possible."""
    n_parts = -(-n // most)
    return np.diff(n * np.arange(n_parts + 1) // n_parts).tolist()


@dataclasses.dataclass(frozen=True)
class Sweep:
    """An experiment at every combination of some settings, each with the same seeds.

    What one program can train becomes members of one ensemble: the settings that the experiment lists in
    `member_settings`, where their values are numbers. Every combination of the others is a *cell* of its own,
    and so is what is wider than `members_per_cell`. Networks do not depend on how a sweep is divided: member
    128 of a population draws the same numbers in any cell.

    If the experiment has `select_every`, the members select among one another across cells: those that differ
    in seeds and in settings of the trainer are one *population*. Every combination of the other settings is a
    population of its own, as losses do not compare between them.

    ```python
    sweep = Sweep(CenterOut(), {"learning_rate": [1e-3, 3e-3], "n_units": [32, 64]}, seeds=range(20))
    make_sweep(sweep, "sweeps/lr")  # two cells of 40 members
    ```

    **Arguments:**

    - `experiment`: the experiment, with the settings that are no axes.
    - `axes`: by setting, its values.
    - `seeds`: the seeds, whole numbers without gaps: `range(20)`, or the numbers in order.
    - `members_per_cell`: the largest number of members of a cell; None for no limit.
    - `member_batch_size`: how many members are trained at a time, see `TaskTrainer`. The last digits of
        results depend on it; None leaves it to each machine.
    - `recording`: which weights are kept.

    Its `division` into cells follows from these and from the experiment, and is written into `sweep.json`.
    """

    experiment: AbstractExperiment
    axes: Mapping[str, Sequence[Any]]
    seeds: range
    members_per_cell: int | None = None
    member_batch_size: int | None = None
    recording: Recording = Recording()
    division: Division = dataclasses.field(init=False, compare=False, repr=False)

    def __post_init__(self):
        check_experiment(self.experiment)
        check_recording(self.recording)
        object.__setattr__(self, "axes", as_axes(type(self.experiment), self.axes))
        object.__setattr__(self, "seeds", as_seeds(self.seeds))
        for name in ("members_per_cell", "member_batch_size"):
            if (number := plain_value(name, getattr(self, name))) is not None:
                check_positive_int(name, number)
            object.__setattr__(self, name, number)
        if self.experiment.grid:
            raise ValueError("`experiment` must have no grid of its own: the axes are the grid.")
        # Refused before any is made, as a few letters ask for billions.
        _check_extent("members", self.n_members, MOST_MEMBERS, "fewer values of `axes`, or of `seeds`")
        divisible = self._divisible_axes()
        object.__setattr__(self, "division", divide(divisible, self.seeds, self.members_per_cell))
        _check_extent("cells", self.n_cells, MOST_CELLS, "a larger `members_per_cell`, or fewer `axes`")
        n_per_population = len(self.seeds) * math.prod(map(len, divisible.values()))
        self.experiment.check_selection(divisible, n_per_population)

    def _divisible_axes(self) -> dict[str, Sequence[Any]]:
        """Return the axes in which members of one cell may differ, as the experiment is now."""
        kinds = ("trainer",) if self.experiment.select_every else ("model", "task", "trainer")
        return {
            name: values
            for name, values in self.axes.items()
            if self.experiment.member_settings.get(name) in kinds and all(map(_is_numeric, values))
        }

    def with_division(self, division: Division) -> "Sweep":
        """Return the sweep with a division that was written down, whatever the experiment says now."""
        sweep = dataclasses.replace(self)
        object.__setattr__(sweep, "division", division)
        return sweep

    @property
    def member_axes(self) -> tuple[str, ...]:
        """The axes in which members of one cell may differ."""
        return tuple(self.division.member_axes)

    @property
    def cell_axes(self) -> tuple[str, ...]:
        """The axes whose values are trained in different cells."""
        return tuple(name for name in self.axes if name not in self.member_axes)

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return self.division.n_parts * math.prod(len(self.axes[name]) for name in self.cell_axes)

    @property
    def n_members(self) -> int:
        """The number of members of all cells."""
        return len(self.seeds) * math.prod(map(len, self.axes.values()))

    @property
    def selects_across_cells(self) -> bool:
        """Whether members of different cells select among one another."""
        return self.experiment.select_every is not None and self.division.n_parts > 1

    def population_of(self, number: int) -> range:
        """Return the cells with which a cell makes up a population, see `Sweep`: itself among them."""
        first = number // self.division.n_parts * self.division.n_parts
        return range(first, first + self.division.n_parts)

    def places_of(self, number: int) -> np.ndarray:
        """Return the places of the members of a cell in their population."""
        return self.division.places[number % self.division.n_parts]

    def members_at_places(self, number: int) -> np.ndarray:
        """Return for each place of the population of a cell the number of the member there in the sweep."""
        order = self.division.order
        return number // self.division.n_parts * order.size + order

    def members_of(self, number: int) -> np.ndarray:
        """Return the numbers of the members of a cell in the sweep, which follow one another."""
        order = self.division.order
        return number // self.division.n_parts * order.size + order[self.places_of(number)]

    @functools.cached_property
    def _population_settings(self) -> list[tuple[Any, ...]]:
        return [*itertools.product(*(self.axes[name] for name in self.cell_axes))]

    def settings_of(self, number: int) -> dict[str, Any]:
        """Return the settings of the axes that all members of a cell share."""
        values = self._population_settings[number // self.division.n_parts]
        return dict(zip(self.cell_axes, values, strict=True))

    def grid_of(self, number: int) -> dict[str, Sequence[Any]]:
        """Return the values of the other axes in a cell, and its seeds, of which it has all combinations."""
        values = {name: self.axes[name] for name in self.member_axes} | {"seed": self.seeds}
        pieces = zip(values.items(), self.division.parts[number % self.division.n_parts], strict=True)
        return {name: own[piece] for (name, own), piece in pieces}

    def labels_of(self, number: int) -> dict[str, list[Any]]:
        """Return for each axis, and for "seed", the value of each member of a cell."""
        values = {name: [value] for name, value in self.settings_of(number).items()} | self.grid_of(number)
        columns = zip(values, zip(*itertools.product(*values.values()), strict=True), strict=True)
        labels = {name: [*column] for name, column in columns}
        return {name: labels[name] for name in (*self.axes, "seed")}

    def cell(self, number: int) -> Cell:
        """Return a cell."""
        self.check_number(number)
        settings, grid = self.settings_of(number), self.grid_of(number)
        seeds = grid.pop("seed")
        experiment = dataclasses.replace(
            self.experiment,
            **settings,
            n_members=len(self.places_of(number)),
            first_member=seeds[0],
            grid=tuple(grid.items()),
        )
        return Cell(number, settings, experiment)

    def cells(self) -> Iterator[Cell]:
        """Yield all cells, each made when it is asked for."""
        return map(self.cell, range(self.n_cells))

    def check_number(self, number: int) -> None:
        """Raise `ValueError` unless there is a cell of this number."""
        check_non_negative_int("cell", number)
        if number >= self.n_cells:
            raise ValueError(f"`cell` must be 0 to {self.n_cells - 1}, got {number}.")


def _is_numeric(value: Any) -> bool:
    return all(map(_is_numeric, value)) if isinstance(value, tuple) else is_number(value)


def as_axes(kind: type[AbstractExperiment], axes: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return the values of each axis as settings of an experiment, see `as_setting`."""
    types = {name: hint for name, hint in setting_types(kind).items() if name not in NOT_AXES}
    settings: dict[str, tuple[Any, ...]] = {}
    for name, values in axes.items():
        argument = f"axes[{name!r}]"
        if name in NOT_AXES:
            raise ValueError(f"`axes` must not have {name!r}: {NOT_AXES[name]}.")
        if name not in types:
            raise ValueError(
                f"`axes` must be settings of {kind.name}, got {name!r}.{suggestion(name, types)}"
            )
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            raise ValueError(f"`{argument}` must be a list of values, got {values!r:.100}.")
        own = tuple(as_setting(f"{argument}[{at}]", one, types[name]) for at, one in enumerate(values))
        if not own:
            raise ValueError(f"`{argument}` must have at least one value, got none.")
        if len({*map(repr, own)}) < len(own):
            raise ValueError(f"`{argument}` must have different values, got {own!r:.200}.")
        settings[name] = own
    return settings


def as_seeds(seeds: Any) -> range:
    """Return the seeds of a sweep, a range or whole numbers in order, as a range."""
    numbers = seeds if isinstance(seeds, range) else plain_value("seeds", seeds)
    if isinstance(numbers, tuple) and numbers and all(type(number) is int for number in numbers):
        consecutive = range(numbers[0], numbers[0] + len(numbers))
        numbers = consecutive if tuple(consecutive) == numbers else None
    if not isinstance(numbers, range) or numbers.step != 1 or numbers.start < 0 or not numbers:
        raise ValueError(
            f"`seeds` must be whole numbers without gaps, such as range(20), got {seeds!r:.100}."
        )
    if numbers.stop - 1 > LARGEST_INT:
        raise ValueError(f"`seeds` must be below 2**31, got {numbers.stop - 1}.")
    return numbers


def _check_extent(what: str, n: int, most: int, advice: str) -> None:
    if n > most:
        raise ValueError(f"a sweep must have at most {most} {what}, got {n}: give {advice}.")
