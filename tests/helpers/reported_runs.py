"""Small runs for reports: an experiment compiled in a second, which says what a page must not believe."""

import dataclasses

import matplotlib.pyplot as plt
import numpy as np
from small_experiment import Sum

from popsim.analysis.figures import figure_style
from popsim.experiments import Column, ResultTable, Row, RunFigure, register_experiment

HOSTILE = "</td></title><script>alert(1)</script><img src=x onerror=alert(1)>"


@register_experiment
@dataclasses.dataclass(frozen=True)
class Reported(Sum):
    """Networks learn to sum up </p><script>alert(1)</script>, and the results are given."""

    name = "reported"

    label: str = HOSTILE
    """what somebody may have written"""

    def summarize(self, ensemble):
        return {"errors": [1.0 + member for member in range(self.n_members)]}

    def table(self, summary):
        columns = [Column("error", "mm", "noise off"), Column("speed", "cm/s", "noise off"), Column("good")]
        rows = [Row("trained", [error, None, error < 2], i) for i, error in enumerate(summary["errors"])]
        controls = [Row(self.label, [10.0, 20.0, False], i) for i in range(self.n_members)]
        return ResultTable(columns, [*rows, *controls, Row("limits", [2.0, 3.0, ""])], self.label)

    def draw_figures(self, run):
        with figure_style():
            few, ax = plt.subplots(figsize=(3.4, 2.8))
            ax.plot(run.history.loss.sum("term").values)
            ax.set(xlabel="batch <b>&", ylabel='loss "')
            many, ax = plt.subplots(figsize=(7.8, 2.0))
            ax.plot(*np.random.default_rng(0).normal(size=(2, 2000)), ".", markersize=1)
        return {
            "few": RunFigure(few, self.label, self.label),
            "many": RunFigure(many, "Many points", "of 2,000 trials"),
        }
