"""The figures of experiments on cognitive tasks."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from popsim.analysis.figures import draw_channels, figure_style
from popsim.analysis.figures.tasks import draw_named_times, intervention_bars
from popsim.experiments.reach_figures import draw_learning_figures
from popsim.experiments.run_figure import RunFigure
from popsim.interaction import Interaction
from popsim.senses import inputs_by_name
from popsim.trial import Trial, has_counts_by_output, n_trials

__all__ = ["draw_cognitive_figures", "draw_trials", "how_drawn", "n_examples"]

N_SHOWN = 4


def _example_trials(count: int) -> np.ndarray:
    """Return the indices of a few evenly spaced trials to show."""
    return np.unique(np.linspace(0, count - 1, min(N_SHOWN, count)).round().astype(int))


def n_examples(trials: Trial) -> int:
    """Return how many of some trials `draw_trials` shows."""
    return len(_example_trials(n_trials(trials)))


def how_drawn(trials: Trial) -> str:
    """Return sentences on what `draw_trials` draws besides signals."""
    bars = " Bars are interventions while they are active." if trials.interventions else ""
    return f"Epochs are shaded, events are lines.{bars}"


def _caption(trials: Trial, below: str) -> str:
    return (
        f"{n_examples(trials)} of {n_trials(trials)} validation trials: what a network receives; "
        f"below it what member 0 {below}. "
        f"{how_drawn(trials)} Examples of one member; the table says how well all of them do."
    )


def draw_trials(
    trials: Trial,
    outputs: np.ndarray,
    targets: np.ndarray,
    *,
    further: Mapping[str, np.ndarray] = MappingProxyType({}),
    label: str,
) -> Figure:
    """Draw a few evenly spaced trials, one per column, with inputs and interventions above outputs.

    **Arguments:**

    - `trials`: stacked trials.
    - `outputs`, `targets`: what is drawn below the inputs, of shape (trial, time, feature); NaN is not
        drawn.
    - `further`: what else is drawn as inputs, by name, of the same shape.
    - `label`: the name of the outputs.
    """
    shown = _example_trials(n_trials(trials))
    dt = trials.timeline.dt
    inputs = jax.tree.map(np.asarray, {**inputs_by_name(trials.inputs), **further})
    heights = [1.0] * len(inputs)
    if trials.interventions:
        heights += [0.2 + 0.2 * len(trials.interventions)]
    figure, axes = plt.subplots(
        len(heights) + 1,
        len(shown),
        figsize=(1.0 + 1.7 * len(shown), 0.9 + 1.1 * sum(heights) + 0.4),
        sharex=True,
        sharey="row",
        squeeze=False,
        layout="constrained",
        height_ratios=[*heights, 1.6],
    )
    for column, trial in enumerate(shown):
        for row, name in enumerate(sorted(inputs)):
            draw_channels(axes[row, column], inputs[name][trial], dt=dt, first_at=0.0)
        if trials.interventions:
            intervention_bars(trials)(axes[-2, column], trial)
        draw_channels(axes[-1, column], outputs[trial], targets=targets[trial], dt=dt)
        axes[-1, column].set_xlabel("time (s)")
    above = draw_named_times(axes, jax.tree.map(lambda leaf: np.asarray(leaf)[shown], trials.timeline))
    for ax, trial in zip(axes[0], shown, strict=True):
        ax.set_title(f"validation trial {trial}", pad=max(above) + 4)
    for ax, name in zip([*axes[: len(inputs), 0], axes[-1, 0]], [*sorted(inputs), label], strict=True):
        ax.set_ylabel(name)
    return figure


def draw_cognitive_figures(run: Any) -> dict[str, RunFigure]:
    """Draw learning curves, and inputs, outputs and targets of member 0 in a few validation trials.

    **Arguments:**

    - `run`: a `Run` of a cognitive task.
    """
    trials = run.task.validation_trials()
    states = run.evaluate().states
    with figure_style():
        if trials.environment is None:
            figure = _draw_outputs(trials, np.asarray(states.network.output)[0])
            below = "puts out (thin) and should put out (dashed, where it counts)"
        else:
            figure = _draw_actions(trials, states.interaction)
            below = "does, until its environment ends the trial"
    caption = _caption(trials, below)
    return {**draw_learning_figures(run), "trials": RunFigure(figure, "Trials", caption)}


def _draw_outputs(trials: Trial, outputs: np.ndarray) -> Figure:
    values, counts = np.asarray(trials.targets.values), np.asarray(trials.targets.counts)
    counts = counts if has_counts_by_output(trials.targets) else counts[..., None]
    targets = np.where(counts > 0, values, np.nan)
    return draw_trials(trials, outputs, targets, label="outputs")


def _draw_actions(trials: Trial, interaction: Interaction) -> Figure:
    of_first = jax.tree.map(lambda leaf: np.asarray(leaf)[0], interaction)
    actions = of_first.action.reshape(*of_first.active.shape, -1)
    shown = np.where(of_first.active[..., None], actions, np.nan)
    nothing = np.full_like(shown, np.nan)
    return draw_trials(trials, shown, nothing, further=of_first.received, label="action")
