"""The figures of runs: learning curves, trials, movements and activity; and how they are saved."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from popsim._shared.drawing import FailedDrawing, close_figures, try_to_draw
from popsim.analysis.behaviour import hand_speed
from popsim.analysis.figures import (
    draw_channels,
    draw_direction_key,
    draw_hand_paths,
    draw_hidden_activity,
    draw_learning_curves,
    draw_muscle_activations,
    draw_preferred_directions,
    draw_speed_profiles,
    figure_style,
    save_figure,
)
from popsim.analysis.figures.tasks import draw_named_times, intervention_bars
from popsim.analysis.neural_activity import cosine_tuning
from popsim.experiments.movement_results import is_still_at_end, trial_groups
from popsim.experiments.results import RunFigure
from popsim.interaction import Interaction
from popsim.networks.activity import defines_activity, unit_activity
from popsim.noise import with_zero_noise
from popsim.plants import MusculoskeletalPlant
from popsim.senses import inputs_by_name
from popsim.store import SaveError
from popsim.store.files import saving
from popsim.trial import Trial, has_counts_by_output, n_trials

__all__ = [
    "draw_cognitive_figures",
    "draw_learning_figures",
    "draw_movement_figures",
    "draw_reach_figures",
    "save_figures",
]

MOST_LABELS = 10
N_SHOWN = 4
EXAMPLE = "An example: one trial of one member, noise off."
OF_MEMBERS = "The unit of replication is the member"
TO_THE_RIGHT = "member 0, reach to the right, noise off"


@dataclasses.dataclass(frozen=True)
class Drawing:
    """A function that draws on axes, their heading, and the title and caption of a `RunFigure`."""

    draw: Callable[[Axes], Any]
    heading: str
    title: str
    caption: str

    def on(self, ax: Axes) -> Axes:
        """Draw on axes."""
        self.draw(ax)
        ax.set_title(self.heading)
        return ax

    def alone(self) -> RunFigure:
        """Draw a figure of its own."""
        figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
        self.on(ax)
        return RunFigure(figure, self.title, self.caption)


def learning_drawing(run: Any) -> Drawing:
    """Return the drawing of the total training and validation losses of a `Run`."""
    history = run.history  # the loss of a batch is that before its update: the untrained stand at the first
    untrained = run.evaluate(run.models(batch=-1)).losses.total.mean(axis=-1)
    validation = np.concatenate([np.asarray(untrained)[None], history.total_validation_loss.values])
    validation_batch = np.concatenate([[0], history.validation_batch.values])

    def draw(ax: Axes) -> None:
        draw_learning_curves(ax, history.batch.values, history.total_loss.values)
        draw_learning_curves(ax, validation_batch, validation, label="validation", color="#D55E00")
        ax.legend()

    caption = (
        f"Total loss in training batches of {run.experiment.batch_size} trials, and in the validation trials "
        f"before training and after every {run.experiment.log_step} batches. Thin lines: "
        f"{run.experiment.n_members} members; thick: their mean, geometric if all losses are above zero. "
        f"{OF_MEMBERS}: a network with a start and with trials of its own."
    )
    return Drawing(draw, "learning", "Learning curves", caption)


def draw_learning_figures(run: Any) -> dict[str, RunFigure]:
    """Draw the learning curves of a `Run` of any experiment."""
    with figure_style():
        return {"learning_curves": learning_drawing(run).alone()}


def save_figures(
    run: Any,
    folder: Path,
    *,
    passes: tuple[type[Exception], ...] = (),
    check: Callable[[Path], None] = lambda path: None,
) -> tuple[list[Path], list[FailedDrawing]]:
    """Draw all figures of a run into a folder; return the paths, and what could not be drawn, with a warning.

    Errors of drawing in `passes` are raised; `check` is called with each path before any is written.
    """

    def save(name: str, figure: Any) -> list[Path]:
        with saving(folder):
            return save_figure(figure, folder, name)

    of_run = f"of {run.folder.path}"
    figures = try_to_draw(
        f"the figures {of_run}", lambda: dict(run.experiment.draw_figures(run)), passes=passes
    )
    if isinstance(figures, FailedDrawing):
        return [], [figures]
    paths, failed = [], []
    try:
        for name in figures:
            for ending in ("png", "pdf"):
                check(folder / f"{name}.{ending}")
        for name, run_figure in figures.items():
            saved = try_to_draw(
                f"the figure {name!r} {of_run}",
                lambda name=name, run_figure=run_figure: save(name, run_figure.figure),
                passes=SaveError,
            )
            if isinstance(saved, FailedDrawing):
                failed.append(saved)
            else:
                paths += saved
    finally:
        close_figures(figures)
    return paths, failed


def _shown(trials: Trial) -> np.ndarray:
    """Return the numbers of a few evenly spaced trials."""
    count = n_trials(trials)
    return np.unique(np.linspace(0, count - 1, min(N_SHOWN, count)).round().astype(int))


def _trials_figure(figure: Figure, trials: Trial, what: str) -> RunFigure:
    bars = " Bars are interventions while they are active." if trials.interventions else ""
    caption = (
        f"{len(_shown(trials))} of {n_trials(trials)} validation trials{what}. Epochs are shaded, "
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
    """Draw a few trials, one per column: inputs and `further`, interventions, outputs; nothing where NaN."""
    shown, dt = _shown(trials), trials.timeline.dt
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
    """Draw learning curves, example trials with noise and, if targets are at rest at the end, movements."""
    trials = run.task.validation_trials()
    states = jax.tree.map(np.asarray, run.evaluate().states)
    figures = draw_learning_figures(run)
    with figure_style():
        figures["trials"] = _cursor_trials(trials, states.cursor.position[0])
        if is_still_at_end(trials):
            speeds = _speeds(trials, states).alone()
            figures |= {"hand_paths": _paths(trials, states), "speed_profiles": speeds}
    return figures


def _cursor_trials(trials: Trial, cursor: np.ndarray) -> RunFigure:
    start = np.asarray(trials.init.position)[:, None]
    targets = 100 * (np.asarray(trials.targets.position) - start)
    figure = draw_trials(trials, 100 * (cursor - start), targets, label="cursor (cm)")
    what = (
        " with noise: what the network receives besides its senses; below it the cursor of member 0 (thin) "
        "and its target (dashed), both as displacements from the start"
    )
    return _trials_figure(figure, trials, what)


def _paths(trials: Trial, states: Any) -> RunFigure:
    groups = trial_groups(trials)
    size = (0.6 + 2.8 * len(groups), 2.8)
    figure, axes = plt.subplots(1, len(groups), figsize=size, squeeze=False, layout="constrained")
    starts, targets = np.asarray(trials.init.position), np.asarray(trials.targets.position)[:, -1]
    for ax, (group, chosen) in zip(axes[0], groups.items(), strict=True):
        draw_hand_paths(ax, states.cursor.position[:, chosen], starts[chosen], targets[chosen])
        ax.set_title(group)
    n_members = len(states.cursor.position)
    counts = ", ".join(f"{group}: {chosen.sum()}" for group, chosen in groups.items())
    caption = (
        f"Paths of the cursor in the validation trials with noise ({counts}), one line for each of "
        f"{n_members} members and each trial; coloured by the direction of the last target. {OF_MEMBERS}."
    )
    return RunFigure(figure, "Paths of the cursor", caption)


def _speeds(trials: Trial, states: Any) -> Drawing:
    group, chosen = next(iter(trial_groups(trials).items()))  # those without interventions
    n_members = len(states.cursor.position)
    caption = (
        f"Speed of the hand with noise, for {n_members} members: the mean over {chosen.sum()} validation "
        f"trials ({group}), and a band of one standard deviation over these trials. {OF_MEMBERS}: how far "
        "lines differ is how far networks differ."
    )
    return _speed_drawing(np.asarray(hand_speed(states.hand))[:, chosen], trials, group, caption)


def _speed_drawing(speed: np.ndarray, trials: Trial, heading: str, caption: str) -> Drawing:
    options = {"dt": trials.timeline.dt, "label_members": len(speed) <= MOST_LABELS}
    return Drawing(lambda ax: draw_speed_profiles(ax, speed, **options), heading, "Speed profiles", caption)


def draw_reach_figures(run: Any) -> dict[str, RunFigure]:
    """Draw learning, paths with noise, speeds, activity and muscles without, each alone and all in one."""
    trials = run.task.validation_trials()
    quiet = with_zero_noise(run.ensemble)
    noisy, clean = (
        jax.tree.map(np.asarray, run.evaluate(ensemble).states) for ensemble in (run.ensemble, quiet)
    )
    dt = trials.timeline.dt
    drawings = {"learning_curves": learning_drawing(run), **_movements(trials, noisy, clean)}
    if defines_activity(quiet, clean):
        units = np.asarray(unit_activity(quiet, clean))[0, 0]
        drawings["hidden_activity"] = Drawing(
            lambda ax: draw_hidden_activity(ax, units, dt=dt),
            TO_THE_RIGHT,
            "Hidden activity",
            f"The {units.shape[-1]} units of member 0 in the first validation trial, a reach to the right, "
            f"ordered by when they are furthest from zero. {EXAMPLE}",
        )
    if isinstance(plant := run.ensemble.plant, MusculoskeletalPlant):
        directions = np.asarray(trials.conditions["direction"])
        drawings |= _muscles(clean.plant.activation, directions, dt, plant.muscle_names)
    with figure_style():
        return _panels_and_overview(drawings)


def _movements(trials: Trial, noisy: Any, clean: Any) -> dict[str, Drawing]:
    n_members, n_trials = clean.hand.position.shape[:2]
    starts, targets = np.asarray(trials.init.position), np.asarray(trials.targets.position)[:, -1]

    def draw_paths(ax: Axes) -> None:
        draw_hand_paths(ax, noisy.cursor.position, starts, targets)
        draw_direction_key(ax.inset_axes((1.0, 0.76, 0.24, 0.24)), label="target")

    return {
        "hand_paths": Drawing(
            draw_paths,
            f"{n_members} members, {n_trials} trials each, noise on",
            "Paths of the hand",
            f"One reach to each of {n_trials} targets, noise on, one line for each of {n_members} members; "
            f"coloured by the direction of the target. {OF_MEMBERS}.",
        ),
        "speed_profiles": _speed_drawing(
            np.asarray(hand_speed(clean.hand)),
            trials,
            f"mean and SD over {n_trials} trials, noise off",
            f"Speed of the hand, noise off, for {n_members} members: the mean over {n_trials} "
            "trials, one to each target, and a band of one standard deviation over these trials. "
            f"{OF_MEMBERS}: how far lines differ is how far networks differ, the bands are of targets.",
        ),
    }


def _muscles(
    activation: np.ndarray, direction: np.ndarray, dt: float, names: Sequence[str]
) -> dict[str, Drawing]:
    tuning = cosine_tuning(activation.mean(axis=2), direction)
    n_members, n_trials = activation.shape[:2]
    return {
        "muscle_activations": Drawing(
            lambda ax: draw_muscle_activations(ax, activation[0, 0], dt=dt, names=names),
            TO_THE_RIGHT,
            "Activation of the muscles",
            f"The {len(names)} muscles of member 0 in the first validation trial, a reach to the right. "
            f"{EXAMPLE}",
        ),
        "preferred_directions": Drawing(
            lambda ax: draw_preferred_directions(ax, tuning.preferred, tuning.depth, names=names),
            "mean activation, noise off",
            "Preferred directions of the muscles",
            f"For each muscle of each of {n_members} members the direction and depth of the cosine fitted "
            f"to its mean activation over {n_trials} directions, noise off. {OF_MEMBERS}.",
        ),
    }


def _panels_and_overview(drawings: dict[str, Drawing]) -> dict[str, RunFigure]:
    """Return a figure for each drawing, and "overview" with all of them."""
    figures = {name: drawing.alone() for name, drawing in drawings.items()}
    n_rows = (len(drawings) + 1) // 2
    overview, axes = plt.subplots(n_rows, 2, figsize=(6.9, 2.7 * n_rows), layout="constrained")
    captions = []
    for letter, ax, drawing in zip("abcdef", axes.flat, drawings.values(), strict=False):
        drawing.on(ax).set_title(letter, loc="left", x=-0.16, fontweight="bold")
        captions.append(f"{letter}: {drawing.caption}")
    for ax in axes.flat[len(drawings) :]:
        ax.remove()
    figures["overview"] = RunFigure(overview, "Overview", " ".join(captions), repeats=True)
    return figures
