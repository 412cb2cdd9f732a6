"""The figures of a run that learned to reach."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from popsim.analysis.behaviour import hand_speed
from popsim.analysis.figures import (
    draw_hand_paths,
    draw_hidden_activity,
    draw_learning_curves,
    draw_muscle_activations,
    draw_preferred_directions,
    draw_speed_profiles,
    figure_style,
)
from popsim.analysis.population import cosine_tuning
from popsim.noise import without_noise
from popsim.plants import Muscled
from popsim.trial import Trial

Drawing = Callable[[Axes], Axes]


def draw_reach_figures(run: Any) -> dict[str, Figure]:
    """Learning curves, hand paths, speed profiles and hidden activity, each alone and all in one.

    A body with muscles adds their activations and preferred directions. The states are those of the
    validation trials: hand paths with noise, the rest without.

    **Arguments:**

    - `run`: a `Run` whose task reaches.
    """
    trials = run.task.validation_trials()
    noisy, clean = (
        jax.tree.map(np.asarray, run.evaluate(ensemble).states)
        for ensemble in (run.ensemble, without_noise(run.ensemble))
    )
    drawings = _reach_drawings(run.history, trials, noisy, clean)
    if isinstance(plant := run.ensemble.plant, Muscled):
        directions = np.asarray(trials.conditions["direction"])
        drawings |= _muscle_drawings(
            clean.plant.activation, directions, trials.timeline.dt, plant.muscle_names
        )
    with figure_style():
        return _each_and_all(drawings)


def _reach_drawings(history: Any, trials: Trial, noisy: Any, clean: Any) -> dict[str, Drawing]:
    """What a run of any body shows."""
    dt = trials.timeline.dt

    def learning_curves(ax: Axes) -> Axes:
        draw_learning_curves(ax, history.batch.values, history.loss.sum("term").values)
        validation = history.validation_loss.sum("term")
        draw_learning_curves(
            ax, history.validation_batch.values, validation.values, label="validation", color="#D55E00"
        )
        ax.legend()
        ax.set_title("learning")
        return ax

    def hand_paths(ax: Axes) -> Axes:
        starts, targets = np.asarray(trials.init.position), np.asarray(trials.targets.position[:, -1])
        draw_hand_paths(ax, noisy.cursor.position, starts, targets)
        ax.set_title("all members, noise on")
        return ax

    def speed_profiles(ax: Axes) -> Axes:
        draw_speed_profiles(ax, np.asarray(hand_speed(clean.hand)), dt=dt)
        ax.set_title("mean and SD over targets, noise off")
        return ax

    def hidden_activity(ax: Axes) -> Axes:
        draw_hidden_activity(ax, clean.network.hidden[0, 0], dt=dt).set_title(
            "member 0, reach to the right, noise off"
        )
        return ax

    return {
        "learning_curves": learning_curves,
        "hand_paths": hand_paths,
        "speed_profiles": speed_profiles,
        "hidden_activity": hidden_activity,
    }


def _each_and_all(drawings: dict[str, Drawing]) -> dict[str, Figure]:
    """A figure for each drawing, and "overview" with all of them."""
    figures = {}
    for name, draw in drawings.items():
        figures[name], ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
        draw(ax)
    n_rows = len(drawings) // 2
    size = (6.9, 2.7 * n_rows)
    figures["overview"], axes = plt.subplots(n_rows, 2, figsize=size, layout="constrained")
    for letter, ax, draw in zip("abcdef", axes.flat, drawings.values(), strict=False):
        draw(ax).set_title(letter, loc="left", fontweight="bold")
    return figures


def _muscle_drawings(
    activation: np.ndarray, direction: np.ndarray, dt: float, names: Sequence[str]
) -> dict[str, Drawing]:
    """Activations of the muscles, of member 0 in its first reach, and preferred directions of all members."""
    tuning = cosine_tuning(activation.mean(axis=2), direction)

    def muscle_activations(ax: Axes) -> Axes:
        draw_muscle_activations(ax, activation[0, 0], dt=dt, names=names)
        ax.set_title("member 0, reach to the right, noise off")
        return ax

    def preferred_directions(ax: Axes) -> Axes:
        draw_preferred_directions(ax, tuning.preferred, tuning.depth, names=names)
        ax.set_title("mean activation, noise off")
        return ax

    return {"muscle_activations": muscle_activations, "preferred_directions": preferred_directions}
