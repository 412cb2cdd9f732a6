"""The trainings that faults are put into: everything that a training can keep is kept.

Importing this begins JAX's backend: a server that forks imports it in the forked process.
"""

import dataclasses
import functools
from pathlib import Path
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
import small_training

from popsim.experiments import AbstractExperiment, Column, ResultTable, Row, RunFigure
from popsim.training import TaskTrainer, adam, rules

N_BATCHES = 24
KEPT = np.array([0, 3, 4, 9, 10, 19, 20, 23])
OPTIMIZER = adam(optax.cosine_decay_schedule(1e-2, N_BATCHES), clip_norm=1.0)
ALWAYS = 1e-9
"""Seconds between checkpoints: one after each call of the compiled loop."""


def _reweighted(loss, loss_values, gradients):
    return eqx.tree_at(lambda own: own.weights["activity"], loss, loss.weights["activity"] * 1.01)


def _largest_output(states, trials):
    return {"largest output": jnp.abs(states.network.output).max(axis=(1, 2, 3))}


OPTIONS = {
    "model_update_funcs": (rules.Hebb(rules.recurrent_synapses(), 1e-3),),
    "loss_update_func": _reweighted,
    "validation_metrics": _largest_output,
}


def train(folder: Path, **options) -> None:
    """Train in `folder`, or go on there: schedule, toggles, a reset, recorded trials and trainables."""
    trainer = TaskTrainer(OPTIMIZER, chkpt_dir=folder, **{"checkpoint_seconds": ALWAYS, **OPTIONS, **options})
    small_training.train(
        N_BATCHES,
        trainer=trainer,
        restore_checkpoint=True,
        save_model_trainables=KEPT,
        save_trial_specs=[0, 5, 13, 20],
        toggle_model_update_funcs=(np.arange(3, 17, 2),),
        reset_opt_state_at=[8],
        log_step=4,
    )


@dataclasses.dataclass(frozen=True)
class SmallSum(AbstractExperiment):
    """A small network sums up its noisy input: compiled in a second."""

    name: ClassVar[str] = "small-sum"

    n_units: int = 5
    tau: float = 0.05

    def build_task(self):
        return small_training.RunningSum()

    def build_model(self, *, key):
        return small_training.build(key, n_units=self.n_units, tau=self.tau)

    def build_trainer(self, **options):
        return TaskTrainer(OPTIMIZER, **OPTIONS, **options)

    def where_train(self, model):
        return model.network

    def summarize(self, ensemble):
        bias = np.asarray(ensemble.network.readout.bias, float)
        return {"readout bias": bias.ravel().tolist()}

    def table(self, summary):
        bias = summary["readout bias"]
        return ResultTable(
            [Column("readout bias")], [Row("trained", [each], i) for i, each in enumerate(bias)]
        )

    def draw_figures(self, run):
        figure, axes = plt.subplots(figsize=(1, 1), dpi=30)
        axes.plot(run.history.loss.sum("term").values)
        return {"loss": RunFigure(figure, "Loss", "of all members")}


small_sum = functools.partial(SmallSum, n_members=2, n_batches=N_BATCHES, batch_size=4, log_step=4)
