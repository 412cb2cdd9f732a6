"""The figures of experiments on tasks: example trials and, of a body, paths and speeds."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from popsim.analysis.behaviour import hand_speed
from popsim.analysis.figures import draw_channels, draw_hand_paths, draw_speed_profiles, figure_style
from popsim.analysis.figures.tasks import draw_named_times, intervention_bars
from popsim.experiments.movement_results import is_still_at_end, trial_groups
from popsim.experiments.results import RunFigure
from popsim.experiments.run_figures import draw_learning_figures
from popsim.interaction import Interaction
from popsim.senses import inputs_by_name
from popsim.trial import Trial, has_counts_by_output, n_trials

__all__ = ["draw_cognitive_figures", "draw_movement_figures", "draw_trials"]

N_SHOWN = 4
MOST_LABELS = 10


def _evenly_spaced(trials: Trial) -> np.ndarray:
    """Return the numbers of the few trials that are shown."""
    count = n_trials(trials)
    return np.unique(np.linspace(0, count - 1, min(N_SHOWN, count)).round().astype(int))


def _trials_figure(figure: Figure, trials: Trial, what: str) -> RunFigure:
    """Return a figure of `draw_trials`, of which a text says what is drawn."""
    bars = " Bars are interventions while they are active." if trials.interventions else ""
    caption = (
        f"{len(_evenly_spaced(trials))} of {n_trials(trials)} validation trials{what}. Epochs are shaded, "
        f"events are lines.{bars} Examples of one member; the table says how well all of them do."
    )
    return RunFigure(figure, "Trials", caption)


def draw_trials(
    trials: Trial,
    outputs: np.ndarray,
    targets: np.ndarray,
    *,
    further: Mapping[str, np.ndarray] = MappingProxyType({}),
    label: str,
) -> Figure:
    """Draw a few evenly spaced trials, one per column, with inputs and interventions above outputs.

    `outputs` and `targets` are of shape (trial, time, feature), NaN where nothing is drawn; `further` is
    drawn as inputs, by name.
    """
    shown = _evenly_spaced(trials)
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
    """Draw learning curves, and inputs, outputs and targets of member 0 in a few validation trials."""
    trials = run.task.validation_trials()
    states = run.evaluate().states
    with figure_style():
        if trials.environment is None:
            figure = _draw_outputs(trials, np.asarray(states.network.output)[0])
            below = "puts out (thin) and should put out (dashed, where it counts)"
        else:
            figure = _draw_actions(trials, states.interaction)
            below = "does, until its environment ends the trial"
    what = f": what a network receives; below it what member 0 {below}"
    return {**draw_learning_figures(run), "trials": _trials_figure(figure, trials, what)}


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


def draw_movement_figures(run: Any) -> dict[str, RunFigure]:
    """Draw learning curves, example trials and, if all targets are at rest in the end, paths and speeds.

    The states are those of the validation trials, with noise.
    """
    trials = run.task.validation_trials()
    states = jax.tree.map(np.asarray, run.evaluate().states)
    figures = draw_learning_figures(run)
    with figure_style():
        figures |= {"trials": _cursor_trials(trials, states.cursor.position[0])}
        if is_still_at_end(trials):
            figures |= {"hand_paths": _paths(trials, states), "speed_profiles": _speeds(trials, states)}
    return figures


def _cursor_trials(trials: Trial, cursor: np.ndarray) -> RunFigure:
    """Draw inputs, cursor and target of a few trials; both from where the hand starts, in cm."""
    start = np.asarray(trials.init.position)[:, None]
    targets = 100 * (np.asarray(trials.targets.position) - start)
    figure = draw_trials(trials, 100 * (cursor - start), targets, label="cursor (cm)")
    what = (
        " with noise: what the network receives besides its senses; below it the cursor of member 0 (thin) "
        "and its target (dashed), both as displacements from the start"
    )
    return _trials_figure(figure, trials, what)


def _paths(trials: Trial, states: Any) -> RunFigure:
    """Draw the paths of the cursor, with a panel for each group of trials."""
    groups = trial_groups(trials)
    figure, axes = plt.subplots(
        1, len(groups), figsize=(0.6 + 2.8 * len(groups), 2.8), squeeze=False, layout="constrained"
    )
    starts, targets = np.asarray(trials.init.position), np.asarray(trials.targets.position)[:, -1]
    for ax, (group, chosen) in zip(axes[0], groups.items(), strict=True):
        draw_hand_paths(ax, states.cursor.position[:, chosen], starts[chosen], targets[chosen])
        ax.set_title(group)
    n_members = states.cursor.position.shape[0]
    counts = ", ".join(f"{group}: {chosen.sum()}" for group, chosen in groups.items())
    caption = (
        f"Paths of the cursor in the validation trials with noise ({counts}), one line for each of "
        f"{n_members} members and each trial; coloured by the direction of the last target. The unit of "
        "replication is the member."
    )
    return RunFigure(figure, "Paths of the cursor", caption)


def _speeds(trials: Trial, states: Any) -> RunFigure:
    """Draw the mean speed of the hand in the trials without interventions."""
    group, chosen = next(iter(trial_groups(trials).items()))
    speed = np.asarray(hand_speed(states.hand))[:, chosen]
    n_members = speed.shape[0]
    figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
    draw_speed_profiles(ax, speed, dt=trials.timeline.dt, label_members=n_members <= MOST_LABELS)
    ax.set_title(group)
    caption = (
        f"Speed of the hand with noise, for {n_members} members: the mean over {chosen.sum()} validation "
        f"trials ({group}), and a band of one standard deviation over these trials. The unit of replication "
        "is the member: how far lines differ is how far networks differ."
    )
    return RunFigure(figure, "Speed profiles", caption)
