"""The interface of an experiment: task, model and training as plain values."""

import abc
import dataclasses
import itertools
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Array, Int, Key

from popsim._shared.checks import check_instance, check_non_negative_int, check_positive_int
from popsim.ensemble import Members, grid_of_seeds, make_ensemble, members_at
from popsim.experiments.results import ResultTable, RunFigure
from popsim.experiments.settings import convert_settings, converting_first, setting
from popsim.model import AbstractModel
from popsim.per_member import MOST_MEMBERS, PerMember
from popsim.randomness import check_seed, key_of_seed
from popsim.task import AbstractTask
from popsim.training import PopulationBasedTraining, TaskTrainer
from popsim.training.loop.batches import every_nth_batch, log_spaced_batches

__all__ = ["Recording", "AbstractExperiment"]


BATCHES = '"logged" (at the log points), "all", "none", "every 10", "log 50" (log-spaced), or "0 9 99"'


@dataclasses.dataclass(frozen=True)
class Recording:
    """The batches after which a run stores the trainable arrays, and their precision.

    - `keep`: "logged" for the log points, "all", "none", "every 10" for every tenth batch, "log 50" for 50
        log-spaced ones, or the numbers of batches: "0 9 99".
    - `float16`: whether to store them with half the digits in half the space. Models rebuilt from them are
        then not exact.
    """

    keep: str = setting("logged", f"when to keep the weights: {BATCHES}")
    float16: bool = setting(False, "keep them with half the digits")

    def __post_init__(self):
        convert_settings(self)
        pattern = r"logged|all|none|every [1-9]\d{0,8}|log [1-9]\d{0,8}|\d{1,9}( \d{1,9})*"
        if not re.fullmatch(pattern, self.keep):
            raise ValueError(f"`keep` must be {BATCHES}, got {self.keep!r:.200}.")

    def batches(self, n_batches: int, log_step: int) -> Int[np.ndarray, " kept"]:
        """Return the numbers of the batches, for a training of `n_batches` that logs every `log_step`."""
        match self.keep.split():
            case ["none"]:
                return np.zeros(0, int)
            case ["log", n]:
                return log_spaced_batches(n_batches, int(n))
            case ["logged" | "all" as which]:
                return every_nth_batch(n_batches, log_step if which == "logged" else 1)
            case ["every", n]:
                return every_nth_batch(n_batches, int(n))
            case numbers:
                batches = np.unique(np.array(numbers, int))
        if batches[-1] >= n_batches:
            raise ValueError(f"`keep` must be batches from 0 to {n_batches - 1}, got {batches[-1]}.")
        return batches

    @property
    def dtype(self) -> str | None:
        """The stored dtype; None to keep the original dtypes."""
        return "float16" if self.float16 else None


Grid = tuple[tuple[str, tuple[Any, ...]], ...]


@dataclasses.dataclass(frozen=True)
class AbstractExperiment(abc.ABC):
    """A frozen dataclass of plain values that builds everything a training needs.

    A subclass supplies `name`, further settings with defaults (see `setting`), and the abstract methods;
    `popsim train` finds it after `register_experiment`.

    `member_settings` names the settings in which members of one ensemble may differ, and what each of them
    changes. Of a "model", `build_model` is called with each value. For what all members share, the "trainer"
    or the "task", the methods that build it read the setting by `self.per_member(name)`. In a sweep, values
    of all other settings are trained in separate cells.

    Settings become plain values when an experiment is made, before its `__post_init__`: scalars of NumPy and
    JAX become numbers, arrays and lists tuples, and paths text.
    """

    name: ClassVar[str]
    member_settings: ClassVar[Mapping[str, Literal["model", "task", "trainer"]]] = {}

    n_members: int = setting(5, "number of networks")
    n_batches: int = setting(1000, "number of training batches")
    batch_size: int = setting(64, "number of trials per network and batch")
    seed: int = setting(0, "seed of all random numbers: initial weights, trials and noise")
    log_step: int = setting(
        100, "batches between log points, at which the networks are tested and the trainables kept"
    )
    first_member: int = setting(
        0,
        "number of the first network in a larger population, whose networks do not depend on how many are "
        "trained together",
    )
    select_every: int | None = setting(
        None,
        "batches between selections, in which the worst networks take the weights and settings of the best, "
        "with these settings changed; by default none",
    )
    grid: Grid = setting(
        (), "values of settings in which the members differ; each combination has the same seeds"
    )

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        if not hasattr(cls.__post_init__, "converts_settings"):
            cls.__post_init__ = converting_first(cls.__post_init__)

    @converting_first
    def __post_init__(self):
        for name in ("n_members", "n_batches", "batch_size", "log_step"):
            check_positive_int(name, getattr(self, name))
        check_non_negative_int("first_member", self.first_member)
        check_seed("seed", self.seed)
        if self.n_members > MOST_MEMBERS:
            raise ValueError(f"`n_members` must be at most {MOST_MEMBERS}, got {self.n_members}.")
        if (every := self.select_every) is not None:
            check_positive_int("select_every", every)
            if every >= self.n_batches:
                raise ValueError(f"`select_every` must be below the {self.n_batches} batches, got {every}.")
        for name, values in self.grid:
            if name not in self.member_settings:
                known = sorted(self.member_settings)
                raise ValueError(
                    f"`grid` must be of settings in which members may differ, {known}, got {name!r}."
                )
            if not values:
                raise ValueError(f"`grid` must have values of {name!r}, got none.")
        if self.n_members % (n_combinations := math.prod(len(values) for _, values in self.grid)):
            raise ValueError(
                f"`n_members` must be a multiple of the {n_combinations} combinations of settings in `grid`, "
                f"got {self.n_members}."
            )
        if self.grid:
            self._combinations([name for name, _ in self.grid])  # each checks itself

    def _combinations(self, names: list[str]) -> list[Any]:
        """Return an experiment for each combination of values of some settings of the grid."""
        grid = itertools.product(*(choices for name, choices in self.grid if name in names))
        seeds: Any = {"grid": (), "n_members": self._n_seeds}
        combinations = [dict(zip(names, values, strict=True)) for values in grid]
        return [dataclasses.replace(self, **seeds, **settings) for settings in combinations]

    @property
    def _n_seeds(self) -> int:
        return self.n_members // math.prod(len(values) for _, values in self.grid)

    @property
    def members(self) -> Members:
        """The seeds of the members, from `first_member` on, and their settings."""
        seeds = range(self.first_member, self.first_member + self._n_seeds)
        return grid_of_seeds(seeds, dict(self.grid))

    def per_member(self, name: str) -> Any:
        """Return a setting for what all members share: its value, or a `PerMember` if the members differ."""
        if name in dict(self.grid):
            return PerMember(self.members.settings[name])
        return getattr(self, name)

    @property
    def selection(self) -> PopulationBasedTraining | None:
        """The selection among the members that `select_every` asks for; override it for another rule."""
        return None if self.select_every is None else PopulationBasedTraining(self.select_every)

    def check_selection(self, names: Iterable[str], n_members: int) -> None:
        """Raise `ValueError` if there is a selection, and nothing to select.

        `names` are the settings in which the members differ, `n_members` those that select together.
        """
        if self.select_every is None:
            return
        selected = [name for name, kind in self.member_settings.items() if kind == "trainer"]
        if not {*names} & {*selected}:
            some, got = ", ".join(selected) or "of which there are none here", ", ".join(names)
            raise ValueError(
                "`select_every` must be given with a sweep over settings of the trainer, "
                f"{some}, got {got or 'no such setting'}."
            )
        if n_members < 2:
            raise ValueError(f"`select_every` must be given with two networks or more, got {n_members}.")

    @abc.abstractmethod
    def build_task(self) -> AbstractTask:
        """Build the task."""

    @abc.abstractmethod
    def build_model(self, *, key: Key[Array, ""]) -> AbstractModel:
        """Build one untrained model."""

    @abc.abstractmethod
    def build_trainer(self, **options: Any) -> TaskTrainer:
        """Build the trainer; `options` are further arguments of `TaskTrainer`."""

    @abc.abstractmethod
    def where_train(self, model: Any) -> Any:
        """Select the trainable parts of a model."""

    @abc.abstractmethod
    def summarize(self, ensemble: Any) -> dict[str, Any]:
        """Return the metrics of a trained ensemble, as JSON values in SI units."""

    @abc.abstractmethod
    def table(self, summary: dict[str, Any]) -> ResultTable:
        """Return a summary as a table, which is printed and shown in reports."""

    def draw_figures(self, run: Any) -> dict[str, RunFigure]:
        """Draw the figures of a `Run`, by file name; by default its learning curves."""
        from popsim.experiments.run_figures import draw_learning_figures  # loads matplotlib

        return draw_learning_figures(run)

    def effective_value(self, name: str) -> Any:
        """Return the value in effect for a setting: if it is None, the default that follows from others."""
        return getattr(self, name)

    def units(self) -> dict[str, tuple[str, ...]]:
        """Return the units of the numbers in each setting that has units: those of its `setting`."""
        fields = dataclasses.fields(self)
        return {field.name: units for field in fields if (units := field.metadata.get("units"))}

    def key(self, purpose: str) -> Key[Array, ""]:
        """Return the random key for a purpose, such as "ensemble", "training" or "evaluation"."""
        return key_of_seed(self.seed, purpose)

    def build_ensemble(self) -> Any:
        """Build the untrained ensemble."""
        if not self.grid:
            return self._build_seeds()
        from popsim.experiments.joined_ensembles import join_ensembles  # which loads the bodies

        names = [name for name, _ in self.grid if self.member_settings[name] == "model"]
        parts = self._combinations(names)
        labels = [", ".join(f"{name} = {getattr(part, name)}" for name in names) for part in parts]
        joined = join_ensembles([part._build_seeds() for part in parts], labels)
        return _in_order(joined, self.members, names)

    def _build_seeds(self) -> Any:
        """Build a model for each seed, by a program that does not depend on the first of them."""
        build = dataclasses.replace(self, first_member=0)._build_from
        return make_ensemble(build, self.n_members, first_member=self.first_member, key=self.key("ensemble"))

    def _build_from(self, key: Key[Array, ""]) -> AbstractModel:
        """Build one untrained model; as a method, which equals itself, it is compiled once."""
        return self.build_model(key=key)


def check_experiment(experiment: Any) -> None:
    """Raise `ValueError` unless `experiment` is an experiment; its class or name is none."""
    check_instance("experiment", experiment, AbstractExperiment, "an experiment, such as CenterOut()")


def check_recording(recording: Any) -> None:
    """Raise `ValueError` unless `recording` is a `Recording`."""
    check_instance("recording", recording, Recording, 'a Recording, such as Recording("all")')


def _in_order(ensemble: Any, members: Members, names: list[str]) -> Any:
    """Return the models of members from those of each combination of the named settings and seeds."""
    axes = [members.names.index(name) for name in [*names, "seed"]]
    places = [np.indices(members.shape)[axis].ravel() for axis in axes]
    rows = np.ravel_multi_index(places, [members.shape[axis] for axis in axes])
    return ensemble if np.array_equal(rows, np.arange(rows.size)) else members_at(ensemble, np.asarray(rows))
