"""The contract of an experiment."""

import abc
import dataclasses
from typing import Annotated, Any, ClassVar

import jax
import tyro
from jaxtyping import Array, Key

from popsim.checks import check_positive_int
from popsim.ensemble import make_ensemble
from popsim.experiments.result_table import ResultTable
from popsim.experiments.run_figure import RunFigure
from popsim.model import AbstractModel
from popsim.randomness import key_stream
from popsim.task import AbstractTask
from popsim.training import TaskTrainer

LARGEST = 2**31  # batches, members and what else is counted are 32-bit numbers on the device


@dataclasses.dataclass(frozen=True)
class AbstractExperiment(abc.ABC):
    """A frozen dataclass of plain values that can build all that a training needs.

    A subclass supplies `name`, further settings with defaults, and the abstract methods; `popsim train`
    finds it once it is registered with `register_experiment`.

    **Raises:** `ValueError` naming a setting that is out of range.
    """

    name: ClassVar[str]

    n_members: Annotated[int, tyro.conf.arg(name="members")] = 5
    """how many networks"""
    n_batches: int = 1000
    """for how many batches they are trained"""
    batch_size: int = 64
    """how many trials each network sees in a batch"""
    seed: int = 0
    """from which all random numbers come"""
    log_step: int = 100
    """after how many batches they are tested and the trainables kept"""

    def __post_init__(self):
        for name in ("n_members", "n_batches", "batch_size", "log_step"):
            check_positive_int(name, getattr(self, name))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name != "seed" and isinstance(value, int) and value >= LARGEST:
                raise ValueError(f"`{field.name}` must be below 2**31, got {value}.")
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"`seed` must be from 0 to 2**32 - 1, got {self.seed}.")

    @abc.abstractmethod
    def build_task(self) -> AbstractTask:
        """The task."""

    @abc.abstractmethod
    def build_model(self, *, key: Key[Array, ""]) -> AbstractModel:
        """One untrained model."""

    @abc.abstractmethod
    def build_trainer(self, **options: Any) -> TaskTrainer:
        """The trainer; `options` are further arguments of `TaskTrainer`."""

    @abc.abstractmethod
    def where_train(self, model: Any) -> Any:
        """Picks from a model what is trained."""

    @abc.abstractmethod
    def summarize(self, ensemble: Any) -> dict[str, Any]:
        """What is worth knowing of a trained ensemble, as JSON values in SI units."""

    @abc.abstractmethod
    def table(self, summary: dict[str, Any]) -> ResultTable:
        """A summary as a table: its text is printed, and reports show it."""

    @abc.abstractmethod
    def draw_figures(self, run: Any) -> dict[str, RunFigure]:
        """The figures of a `Run`, by the names of their files, with what there is to say about them."""

    def in_force(self, name: str) -> Any:
        """A setting as it acts: what stands for None, where a default goes with other settings."""
        return getattr(self, name)

    def units(self) -> dict[str, tuple[str, ...]]:
        """By setting, the unit of each of its numbers, for those that have one."""
        return {}

    def key(self, purpose: str) -> Key[Array, ""]:
        """The random key for a purpose, such as "ensemble", "training" or "evaluation"."""
        return key_stream(jax.random.key(self.seed), purpose)

    def build_ensemble(self) -> Any:
        """The untrained ensemble."""
        return make_ensemble(lambda key: self.build_model(key=key), self.n_members, key=self.key("ensemble"))
