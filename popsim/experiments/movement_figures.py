"""The figures of experiments on motor tasks of any kind."""

from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np

from popsim.analysis.behaviour import hand_speed
from popsim.analysis.figures import draw_hand_paths, draw_speed_profiles, figure_style
from popsim.experiments.cognitive_figures import draw_trials, how_drawn, n_examples
from popsim.experiments.movement_results import is_still_at_end, trial_groups
from popsim.experiments.reach_figures import MOST_LABELS, draw_learning_figures
from popsim.experiments.run_figure import RunFigure
from popsim.trial import Trial, n_trials

__all__ = ["draw_movement_figures"]


def draw_movement_figures(run: Any) -> dict[str, RunFigure]:
    """Draw learning curves, example trials and, if all targets are at rest in the end, paths and speeds.

    The states are those of the validation trials, with noise.

    **Arguments:**

    - `run`: a `Run` of a motor task.
    """
    trials = run.task.validation_trials()
    states = jax.tree.map(np.asarray, run.evaluate().states)
    figures = draw_learning_figures(run)
    with figure_style():
        figures |= {"trials": _example_trials(trials, states.cursor.position[0])}
        if is_still_at_end(trials):
            figures |= {"hand_paths": _paths(trials, states), "speed_profiles": _speeds(trials, states)}
    return figures


def _example_trials(trials: Trial, cursor: np.ndarray) -> RunFigure:
    """Draw inputs, cursor and target of a few trials; both from where the hand starts, in cm."""
    start = np.asarray(trials.init.position)[:, None]
    targets = 100 * (np.asarray(trials.targets.position) - start)
    figure = draw_trials(trials, 100 * (cursor - start), targets, label="cursor (cm)")
    caption = (
        f"{n_examples(trials)} of {n_trials(trials)} validation trials with noise: what the network receives "
        "besides its senses; below it the cursor of member 0 (thin) and its target (dashed), both as "
        f"displacements from the start. {how_drawn(trials)} Examples of one member; the table says how "
        "well all of them do."
    )
    return RunFigure(figure, "Trials", caption)


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
