"""The figures of a run that learned to reach."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.behaviour import hand_speed
from popsim.analysis.figures import (
    draw_hand_paths,
    draw_hidden_activity,
    draw_muscle_activations,
    draw_preferred_directions,
    draw_speed_profiles,
    figure_style,
)
from popsim.analysis.population import cosine_tuning
from popsim.experiments.learning_figure import LEARNING_TITLE, draw_learning, learning_caption
from popsim.experiments.run_figure import RunFigure
from popsim.noise import without_noise
from popsim.plants import Muscled
from popsim.trial import Trial

EXAMPLE = "An example: one trial of one member, noise off."


@dataclasses.dataclass(frozen=True)
class Drawing:
    """What draws on axes, and what is said about it; see `RunFigure`."""

    draw: Callable[[Axes], Axes]
    title: str
    caption: str


def draw_reach_figures(run: Any) -> dict[str, RunFigure]:
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
    drawings = {"learning_curves": Drawing(draw_learning(run), LEARNING_TITLE, learning_caption(run))}
    drawings |= _reach_drawings(trials, noisy, clean)
    if isinstance(plant := run.ensemble.plant, Muscled):
        directions = np.asarray(trials.conditions["direction"])
        drawings |= _muscle_drawings(
            clean.plant.activation, directions, trials.timeline.dt, plant.muscle_names
        )
    with figure_style():
        return _each_and_all(drawings)


def _reach_drawings(trials: Trial, noisy: Any, clean: Any) -> dict[str, Drawing]:
    """What a run of any body shows, beside how it learned."""
    dt = trials.timeline.dt
    n_members, n_trials, _, n_units = clean.network.hidden.shape

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
        "hand_paths": Drawing(
            hand_paths,
            "Paths of the hand",
            f"One reach to each of {n_trials} targets, noise on, one line for each of {n_members} members; "
            "coloured by the direction of the target. The unit of replication is the member.",
        ),
        "speed_profiles": Drawing(
            speed_profiles,
            "Speed profiles",
            f"Speed of the hand, noise off, for {n_members} members: the mean over {n_trials} trials, one to "
            "each target, and a band of one standard deviation over these trials. The unit of replication "
            "is the member: how far lines differ is how far networks differ, the bands are of targets.",
        ),
        "hidden_activity": Drawing(
            hidden_activity,
            "Hidden activity",
            f"The {n_units} units of member 0 in the first validation trial, a reach to the right, ordered "
            f"by when they are furthest from zero. {EXAMPLE}",
        ),
    }


def _each_and_all(drawings: dict[str, Drawing]) -> dict[str, RunFigure]:
    """A figure for each drawing, and "overview" with all of them."""
    figures = {}
    for name, drawing in drawings.items():
        figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
        drawing.draw(ax)
        figures[name] = RunFigure(figure, drawing.title, drawing.caption)
    n_rows = len(drawings) // 2
    size = (6.9, 2.7 * n_rows)
    overview, axes = plt.subplots(n_rows, 2, figsize=size, layout="constrained")
    said = []
    for letter, ax, drawing in zip("abcdef", axes.flat, drawings.values(), strict=False):
        drawing.draw(ax).set_title(letter, loc="left", fontweight="bold")
        said.append(f"{letter}: {drawing.caption}")
    figures["overview"] = RunFigure(overview, "Overview", " ".join(said), repeats=True)
    return figures


def _muscle_drawings(
    activation: np.ndarray, direction: np.ndarray, dt: float, names: Sequence[str]
) -> dict[str, Drawing]:
    """Activations of the muscles, of member 0 in its first reach, and preferred directions of all members."""
    tuning = cosine_tuning(activation.mean(axis=2), direction)
    n_members, n_trials = activation.shape[:2]

    def muscle_activations(ax: Axes) -> Axes:
        draw_muscle_activations(ax, activation[0, 0], dt=dt, names=names)
        ax.set_title("member 0, reach to the right, noise off")
        return ax

    def preferred_directions(ax: Axes) -> Axes:
        draw_preferred_directions(ax, tuning.preferred, tuning.depth, names=names)
        ax.set_title("mean activation, noise off")
        return ax

    return {
        "muscle_activations": Drawing(
            muscle_activations,
            "Activation of the muscles",
            f"The {len(names)} muscles of member 0 in the first validation trial, a reach to the right. "
            f"{EXAMPLE}",
        ),
        "preferred_directions": Drawing(
            preferred_directions,
            "Preferred directions of the muscles",
            f"For each muscle of each of {n_members} members the direction and depth of the cosine fitted "
            f"to its mean activation over {n_trials} directions, noise off. The unit of replication is the "
            "member.",
        ),
    }
