"""An experiment whose training is compiled in a second: see `small_training`."""

import dataclasses
import itertools

import matplotlib.pyplot as plt
import small_training

from popsim.experiments import AbstractExperiment, Column, ResultTable, Row, RunFigure, register_experiment
from popsim.training import TaskTrainer


@register_experiment
@dataclasses.dataclass(frozen=True)
class Sum(AbstractExperiment):
    """Networks learn to sum up."""

    name = "sum"

    noise: tuple[float, float] = (0.1, 0.2)
    """what this is for: a setting of its own"""

    def build_task(self):
        return small_training.RunningSum()

    def build_model(self, *, key):
        return small_training.build(key)

    def build_trainer(self, **options):
        return TaskTrainer(small_training.OPTIMIZER, **options)

    def where_train(self, model):
        return model.network

    def summarize(self, ensemble):
        return {"networks": self.n_members}

    def table(self, summary):
        return ResultTable([Column("networks", digits=0)], [Row("all", [summary["networks"]])])

    def draw_figures(self, run):
        return {name: RunFigure(plt.figure(), name, "empty") for name in ("one", "two")}


def stopping_after(n_calls):
    """Says stop after so many calls of the compiled loop."""
    counted = itertools.count(1)
    return lambda: next(counted) >= n_calls
