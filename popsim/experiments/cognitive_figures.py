"""The figures of a run that learned a cognitive task."""

from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from popsim.analysis.figures import draw_channels, draw_learning_curves, figure_style
from popsim.analysis.figures.named_times import draw_named_times
from popsim.network_input import inputs_by_name
from popsim.trial import Trial, n_trials

N_SHOWN = 4


def draw_cognitive_figures(run: Any) -> dict[str, Figure]:
    """Learning curves, and what member 0 receives, puts out and should put out in a few validation trials.

    **Arguments:**

    - `run`: a `Run` whose networks have no body.
    """
    trials = run.task.validation_trials()
    outputs = np.asarray(run.evaluate().states.network.output)[0]
    with figure_style():
        return {"learning_curves": _learning_curves(run.history), "trials": _trials(trials, outputs)}


def _learning_curves(history: Any) -> Figure:
    figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
    draw_learning_curves(ax, history.batch.values, history.loss.sum("term").values)
    validation = history.validation_loss.sum("term")
    draw_learning_curves(
        ax, history.validation_batch.values, validation.values, label="validation", color="#D55E00"
    )
    ax.legend()
    ax.set_title("learning")
    return figure


def _trials(trials: Trial, outputs: np.ndarray) -> Figure:
    """A column for each of a few trials, evenly chosen; above the inputs, below the outputs.

    Epochs are shaded and events are lines, as `popsim show-task` draws them.
    """
    count = n_trials(trials)
    shown = np.unique(np.linspace(0, count - 1, min(N_SHOWN, count)).round().astype(int))
    dt = trials.timeline.dt
    inputs = jax.tree.map(np.asarray, inputs_by_name(trials.inputs))
    values, counts = np.asarray(trials.targets.values), np.asarray(trials.targets.counts)
    figure, axes = plt.subplots(
        len(inputs) + 1,
        len(shown),
        figsize=(1.0 + 1.7 * len(shown), 0.9 + 1.1 * len(inputs) + 0.4),
        sharex=True,
        sharey="row",
        squeeze=False,
        layout="constrained",
        height_ratios=[*[1.0] * len(inputs), 1.6],
    )
    for column, trial in enumerate(shown):
        for row, name in enumerate(sorted(inputs)):
            draw_channels(axes[row, column], inputs[name][trial], dt=dt, first_at=0.0)
        target = np.where(counts[trial, :, None] > 0, values[trial], np.nan)
        draw_channels(axes[-1, column], outputs[trial], targets=target, dt=dt)
        axes[-1, column].set_xlabel("time (s)")
    heights = draw_named_times(axes, jax.tree.map(lambda leaf: np.asarray(leaf)[shown], trials.timeline))
    for ax, trial in zip(axes[0], shown, strict=True):
        ax.set_title(f"validation trial {trial}", pad=max(heights) + 4)
    for row, name in enumerate([*sorted(inputs), "outputs"]):
        axes[row, 0].set_ylabel(name)
    return figure
