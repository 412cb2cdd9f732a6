"""The figures of experiments on reaching."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.behaviour import hand_speed
from popsim.analysis.figures import (
    draw_direction_key,
    draw_hand_paths,
    draw_hidden_activity,
    draw_muscle_activations,
    draw_preferred_directions,
    draw_speed_profiles,
    figure_style,
)
from popsim.analysis.neural_activity import cosine_tuning
from popsim.experiments.results import RunFigure
from popsim.experiments.run_figures import LEARNING_TITLE, draw_learning, learning_caption
from popsim.networks.activity import defines_activity, unit_activity
from popsim.noise import with_zero_noise
from popsim.plants import MusculoskeletalPlant
from popsim.trial import Trial

__all__ = ["draw_reach_figures"]

MOST_LABELS = 10
EXAMPLE = "An example: one trial of one member, noise off."


@dataclasses.dataclass(frozen=True)
class Drawing:
    """A function that draws on axes, with its title and caption; see `RunFigure`."""

    draw: Callable[[Axes], Axes]
    title: str
    caption: str


def draw_reach_figures(run: Any) -> dict[str, RunFigure]:
    """Draw learning curves, hand paths, speed profiles and hidden activity, each alone and all in one.

    A plant with muscles adds their activations and preferred directions. The states are those of the
    validation trials, with noise for the hand paths and without for the rest.
    """
    trials = run.task.validation_trials()
    quiet = with_zero_noise(run.ensemble)
    noisy, clean = (
        jax.tree.map(np.asarray, run.evaluate(ensemble).states) for ensemble in (run.ensemble, quiet)
    )
    drawings = {"learning_curves": Drawing(draw_learning(run), LEARNING_TITLE, learning_caption(run))}
    drawings |= _reach_drawings(trials, noisy, clean)
    if defines_activity(quiet, clean):
        units = np.asarray(unit_activity(quiet, clean))[0, 0]
        drawings["hidden_activity"] = _activity_drawing(units, trials.timeline.dt)
    if isinstance(plant := run.ensemble.plant, MusculoskeletalPlant):
        directions = np.asarray(trials.conditions["direction"])
        drawings |= _muscle_drawings(
            clean.plant.activation, directions, trials.timeline.dt, plant.muscle_names
        )
    with figure_style():
        return _panels_and_overview(drawings)


def _reach_drawings(trials: Trial, noisy: Any, clean: Any) -> dict[str, Drawing]:
    """Return the drawings for any plant, except learning curves."""
    dt = trials.timeline.dt
    n_members, n_trials = clean.hand.position.shape[:2]

    def hand_paths(ax: Axes) -> Axes:
        starts, targets = np.asarray(trials.init.position), np.asarray(trials.targets.position)[:, -1]
        draw_hand_paths(ax, noisy.cursor.position, starts, targets)
        draw_direction_key(ax.inset_axes((1.0, 0.76, 0.24, 0.24)), label="target")
        ax.set_title(f"{n_members} members, {n_trials} trials each, noise on")
        return ax

    def speed_profiles(ax: Axes) -> Axes:
        speed = np.asarray(hand_speed(clean.hand))
        draw_speed_profiles(ax, speed, dt=dt, label_members=n_members <= MOST_LABELS)
        ax.set_title(f"mean and SD over {n_trials} trials, noise off")
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
    }


def _activity_drawing(units: Float[np.ndarray, "time unit"], dt: float) -> Drawing:
    """Return the drawing of the activity of member 0 in its first reach."""

    def hidden_activity(ax: Axes) -> Axes:
        draw_hidden_activity(ax, units, dt=dt).set_title("member 0, reach to the right, noise off")
        return ax

    return Drawing(
        hidden_activity,
        "Hidden activity",
        f"The {units.shape[-1]} units of member 0 in the first validation trial, a reach to the right, "
        f"ordered by when they are furthest from zero. {EXAMPLE}",
    )


def _panels_and_overview(drawings: dict[str, Drawing]) -> dict[str, RunFigure]:
    """Return a figure for each drawing, and "overview" with all of them."""
    figures = {}
    for name, drawing in drawings.items():
        figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
        drawing.draw(ax)
        figures[name] = RunFigure(figure, drawing.title, drawing.caption)
    n_rows = (len(drawings) + 1) // 2
    size = (6.9, 2.7 * n_rows)
    overview, axes = plt.subplots(n_rows, 2, figsize=size, layout="constrained")
    captions = []
    for letter, ax, drawing in zip("abcdef", axes.flat, drawings.values(), strict=False):
        drawing.draw(ax).set_title(letter, loc="left", x=-0.16, fontweight="bold")
        captions.append(f"{letter}: {drawing.caption}")
    for ax in axes.flat[len(drawings) :]:
        ax.remove()
    figures["overview"] = RunFigure(overview, "Overview", " ".join(captions), repeats=True)
    return figures


def _muscle_drawings(
    activation: np.ndarray, direction: np.ndarray, dt: float, names: Sequence[str]
) -> dict[str, Drawing]:
    """Return muscle activations of member 0 in its first reach, and preferred directions of all members."""
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
