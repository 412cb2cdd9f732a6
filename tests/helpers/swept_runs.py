"""An experiment for sweeps that is compiled in a second: members may differ in three of its settings."""

import dataclasses

import small_training
from small_experiment import Sum

import popsim
from popsim.experiments import Column, ResultTable, Row, register_experiment
from popsim.training import TaskTrainer, adam, cosine_decay


@register_experiment
@dataclasses.dataclass(frozen=True)
class Swept(Sum):
    """Networks of some size learn to sum up."""

    name = "swept"
    member_settings = {"rate": "trainer", "cost": "task", "hidden_noise": "model"}

    n_batches: int = 8
    batch_size: int = 4
    log_step: int = 4
    rate: float = 1e-2
    """initial learning rate"""
    cost: float = 1e-2
    """weight of activity"""
    hidden_noise: float = 0.1
    """noise on the units"""
    n_units: int = 5
    """units per network"""
    label: str = "any"
    """what it is called; "unlucky" ones fail at the end"""

    def build_task(self):
        error, activity = (
            popsim.FunctionTerm(f.__name__, f)
            for f in (small_training.squared_error, small_training.activity)
        )
        return small_training.RunningSum(1.0 * error + self.per_member("cost") * activity)

    def build_model(self, *, key):
        return small_training.build(key, n_units=self.n_units, noise_std=self.hidden_noise)

    def build_trainer(self, **options):
        rate = cosine_decay(self.per_member("rate"), self.n_batches)
        return TaskTrainer(adam(rate, clip_norm=1.0), **options)

    def summarize(self, ensemble):
        if self.label == "unlucky":
            raise ValueError("the label is unlucky")
        return {"tau": ensemble.network.tau.tolist()}

    def table(self, summary):
        rows = [Row("trained", [1e3 * tau], member) for member, tau in enumerate(summary["tau"])]
        return ResultTable([Column("tau", "ms")], rows)

    def draw_figures(self, run):
        return {}
