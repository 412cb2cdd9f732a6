"""Networks without a body learn a cognitive task."""

import dataclasses
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import optax
from jaxtyping import Array, Key

from popsim.checks import check_non_negative, check_positive, check_positive_int
from popsim.experiments.cognitive_figures import draw_cognitive_figures
from popsim.experiments.cognitive_scores import CELLS, CRITERIA
from popsim.experiments.cognitive_summary import cognitive_table, summarize_cognitive
from popsim.experiments.experiment import AbstractExperiment
from popsim.experiments.result_table import ResultTable
from popsim.experiments.run_figure import RunFigure
from popsim.network_input import network_input
from popsim.network_model import NetworkModel
from popsim.networks import AbstractNetwork, GRUNetwork, LeakyRNN
from popsim.task import AbstractTask
from popsim.tasks import COGNITIVE_TASKS
from popsim.training import TaskTrainer, adam

TAU = 0.1  # s


@dataclasses.dataclass(frozen=True)
class Cognitive(AbstractExperiment):
    """Networks learn a cognitive task with its default settings, and are tested on fresh trials."""

    name: ClassVar[str] = "cognitive"

    task: Literal[tuple(COGNITIVE_TASKS)] = "flip-flop"  # pyright: ignore[reportInvalidTypeForm]
    """the task"""
    cell: Literal["gru", "tanh"] | None = None
    """gated recurrent units, or leaky units with tanh rates; by default what learns the task sooner"""
    n_units: int = 64
    """the size of each network"""
    tau: float | None = None
    """the time constant of tanh units, s; by default 0.1"""
    hidden_noise: float = 0.0
    """on the units of the network"""
    learning_rate: float = 1e-2
    """of Adam at the start; it falls to zero as a cosine"""

    def __post_init__(self):
        super().__post_init__()
        if self.task not in COGNITIVE_TASKS:
            raise ValueError(f"`task` must be one of {', '.join(COGNITIVE_TASKS)}, got {self.task!r}.")
        if self.cell not in (None, "gru", "tanh"):
            raise ValueError(f"`cell` must be 'gru' or 'tanh', got {self.cell!r}.")
        if self.tau is not None:
            check_positive("tau", self.tau)
            if self.chosen_cell != "tanh":
                raise ValueError(f"`tau` must be given with the cell 'tanh' only, got {self.tau} s.")
        check_positive_int("n_units", self.n_units)
        check_positive("learning_rate", self.learning_rate)
        check_non_negative("hidden_noise", self.hidden_noise)

    def in_force(self, name: str) -> Any:
        if name == "cell":
            return self.chosen_cell
        if name == "tau" and self.tau is None and self.chosen_cell == "tanh":
            return TAU
        return getattr(self, name)

    def units(self) -> dict[str, tuple[str, ...]]:
        return {"tau": ("s",)}

    @property
    def chosen_cell(self) -> Literal["gru", "tanh"]:
        """The cell, or if it is None the one that goes with the task."""
        return CELLS[self.task] if self.cell is None else self.cell

    def build_task(self) -> AbstractTask:
        return COGNITIVE_TASKS[self.task]()

    def build_model(self, *, key: Key[Array, ""]) -> NetworkModel:
        trial = eqx.filter_eval_shape(lambda: self.build_task().trial(batch=0, key=jax.random.key(0)))
        first = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), trial.inputs)
        n_inputs = jax.eval_shape(lambda inputs: network_input(inputs, {}, {}), first).shape[0]
        dt = trial.timeline.dt
        network = self._build_network(n_inputs, trial.targets.values.shape[-1], dt, key=key)
        return NetworkModel(network, dt=dt)

    def _build_network(
        self, n_inputs: int, n_outputs: int, dt: float, *, key: Key[Array, ""]
    ) -> AbstractNetwork:
        sizes = (n_inputs, self.n_units, n_outputs)
        if self.chosen_cell == "gru":
            return GRUNetwork(*sizes, noise_std=self.hidden_noise, key=key)
        return LeakyRNN(*sizes, tau=self.in_force("tau"), dt=dt, noise_std=self.hidden_noise, key=key)

    def build_trainer(self, **options: Any) -> TaskTrainer:
        schedule = optax.cosine_decay_schedule(self.learning_rate, self.n_batches)
        return TaskTrainer(adam(schedule, clip_norm=1.0), **options)

    def where_train(self, model: Any) -> Any:
        return model.network

    def summarize(self, ensemble: Any) -> dict[str, Any]:
        return summarize_cognitive(self, ensemble, CRITERIA[self.task])

    def table(self, summary: dict[str, Any]) -> ResultTable:
        return cognitive_table(summary)

    def draw_figures(self, run: Any) -> dict[str, RunFigure]:
        return draw_cognitive_figures(run)
