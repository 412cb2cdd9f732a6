"""The figures of runs: learning curves, trials, movements and activity; and how they are saved."""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from popsim._shared.drawing import FailedDrawing, close_figures, try_to_draw
from popsim.analysis import figures
from popsim.analysis.behaviour import hand_speed
from popsim.analysis.figures.tasks import draw_named_times, intervention_bars
from popsim.analysis.neural_activity import cosine_tuning
from popsim.experiments.movement_results import is_still_at_end, trial_groups
from popsim.experiments.results import RunFigure
from popsim.networks.activity import defines_activity, unit_activity
from popsim.noise import with_zero_noise
from popsim.plants import MusculoskeletalPlant
from popsim.senses import inputs_by_name
from popsim.store import SaveError
from popsim.store.files import raise_save_errors
from popsim.trial import Trial, has_counts_by_output, n_trials

__all__ = ["draw_cognitive_figures", "draw_learning_figures", "draw_movement_figures", "save_figures"]

MOST_LABELS = 10
N_SHOWN = 4
OF_MEMBERS = "The unit of replication is the member"
EXAMPLE = "in the first validation trial, noise off. An example: one trial of one member."
EXAMPLE_HEADING = "member 0, first trial, noise off"


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

    def save(name: str, run_figure: Any) -> list[Path]:
        with raise_save_errors(folder):
            return figures.save_figure(run_figure.figure, folder, name)

    of_run = f"of {run.folder.path}"
    drawn = try_to_draw(
        f"the figures {of_run}", lambda: dict(run.experiment.draw_figures(run)), passes=passes
    )
    if isinstance(drawn, FailedDrawing):
        return [], [drawn]
    try:
        for name, ending in itertools.product(drawn, ("png", "pdf")):
            check(folder / f"{name}.{ending}")
        saved = [
            try_to_draw(
                f"the figure {name!r} {of_run}", functools.partial(save, name, figure), passes=SaveError
            )
            for name, figure in drawn.items()
        ]
    finally:
        close_figures(drawn)
    failed = [paths for paths in saved if isinstance(paths, FailedDrawing)]
    return [path for paths in saved if not isinstance(paths, FailedDrawing) for path in paths], failed


class Panel(NamedTuple):
    """What is drawn on one pair of axes: as a figure of its own, and in the overview of a run."""

    title: str
    heading: str  # above the axes in the overview
    caption: str
    draw: Callable[[Axes], Any]

    def figure(self) -> RunFigure:
        """Draw on axes of their own."""
        figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
        self.draw(ax)
        return RunFigure(figure, self.title, self.caption)


def draw_learning_figures(run: Any) -> dict[str, RunFigure]:
    """Draw the total training and validation losses of a `Run` of any experiment."""
    with figures.figure_style():
        return {"learning_curves": _learning(run).figure()}


def _learning(run: Any) -> Panel:
    history = run.history  # the loss of a batch is that before its update: the untrained stand at the first
    untrained = jnp.mean(jax.device_get(run.evaluate(run.models(batch=-1)).losses).total, axis=-1)
    validation = np.concatenate([np.asarray(untrained)[None], history.total_validation_loss.values])
    validation_batch = np.concatenate([[0], history.validation_batch.values])

    def draw(ax: Axes) -> None:
        figures.draw_learning_curves(ax, history.batch.values, history.total_loss.values)
        figures.draw_learning_curves(ax, validation_batch, validation, label="validation", color="#D55E00")
        ax.legend()

    caption = (
        f"Total loss in training batches of {run.experiment.batch_size} trials, and in the validation trials "
        f"before training and after every {run.experiment.log_step} batches. Thin lines: "
        f"{run.experiment.n_members} members; thick: their mean, geometric if all losses are above zero. "
        f"{OF_MEMBERS}: a network with a start and with trials of its own."
    )
    return Panel("Learning curves", "learning", caption, draw)


def draw_cognitive_figures(run: Any) -> dict[str, RunFigure]:
    """Draw learning curves, and inputs, outputs and targets of member 0 in a few validation trials."""
    trials, states = run.task.validation_trials(), run.evaluate().states
    if trials.environment is None:
        label, below = "outputs", "puts out (thin) and should put out (dashed, where it counts)"
        shown, further = np.asarray(states.network.output)[0], {}
        values, counts = np.asarray(trials.targets.values), np.asarray(trials.targets.counts)
        counts = counts if has_counts_by_output(trials.targets) else counts[..., None]
        targets = np.where(counts > 0, values, np.nan)
    else:
        label, below = "action", "does, until its environment ends the trial"
        of_first = jax.tree.map(lambda leaf: np.asarray(leaf)[0], states.interaction)
        actions = of_first.action.reshape(*of_first.active.shape, -1)
        shown, further = np.where(of_first.active[..., None], actions, np.nan), of_first.received
        targets = np.full_like(shown, np.nan)
    with figures.figure_style():
        figure = draw_trials(trials, shown, targets, further=further, label=label)
    what = f": what a network receives; below it what member 0 {below}"
    return {**draw_learning_figures(run), "trials": _trials_figure(figure, trials, what)}


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
            figures.draw_channels(axes[row, column], inputs[name][trial], dt=dt, first_at=0.0)
        if trials.interventions:
            intervention_bars(trials)(axes[-2, column], trial)
        figures.draw_channels(axes[-1, column], outputs[trial], targets=targets[trial], dt=dt)
        axes[-1, column].set_xlabel("time (s)")
    above = draw_named_times(axes, jax.tree.map(lambda leaf: np.asarray(leaf)[shown], trials.timeline))
    for ax, trial in zip(axes[0], shown, strict=True):
        ax.set_title(f"validation trial {trial}", pad=max(above) + 4)
    for ax, name in zip([*axes[: len(inputs), 0], axes[-1, 0]], [*sorted(inputs), label], strict=True):
        ax.set_ylabel(name)
    return figure


def _shown(trials: Trial) -> np.ndarray:
    count = n_trials(trials)
    return np.unique(np.linspace(0, count - 1, min(N_SHOWN, count)).round().astype(int))


def _trials_figure(figure: Figure, trials: Trial, what: str) -> RunFigure:
    bars = " Bars are interventions while they are active." if trials.interventions else ""
    caption = (
        f"{len(_shown(trials))} of {n_trials(trials)} validation trials{what}. Epochs are shaded, "
        f"events are lines.{bars} Examples of one member; the table says how well all of them do."
    )
    return RunFigure(figure, "Trials", caption)


def draw_movement_figures(run: Any) -> dict[str, RunFigure]:
    """Draw learning, trials with noise, the activity of units and muscles without it, and movements.

    The latter, paths with noise and speeds without, if all targets are at rest in the end. The overview has
    one pair of axes for each but the trials.
    """
    trials, quiet = run.task.validation_trials(), with_zero_noise(run.ensemble)
    noisy, clean = (jax.tree.map(np.asarray, run.evaluate(models).states) for models in (run.ensemble, quiet))
    panels = {"learning_curves": _learning(run)}
    if is_still_at_end(trials):
        panels |= {"hand_paths": _paths(trials, noisy), "speed_profiles": _speeds(trials, clean)}
    if defines_activity(quiet, clean):
        panels["hidden_activity"] = _units(trials, np.asarray(unit_activity(quiet, clean))[0, 0])
    if isinstance(plant := run.ensemble.plant, MusculoskeletalPlant):
        panels |= _muscles(trials, clean.plant.activation, plant.muscle_names)
    with figures.figure_style():
        drawn = {
            name: _paths_by_group(trials, noisy) if name == "hand_paths" else panel.figure()
            for name, panel in panels.items()
        }
        drawn["trials"] = _cursor_trials(trials, noisy.cursor.position[0])
        return drawn | {"overview": _overview([*panels.values()])}


def _overview(panels: Sequence[Panel]) -> RunFigure:
    n_rows = (len(panels) + 1) // 2
    figure, axes = plt.subplots(n_rows, 2, figsize=(6.9, 2.7 * n_rows), layout="constrained", squeeze=False)
    captions = []
    for letter, ax, panel in zip("abcdef", axes.flat, panels, strict=False):
        panel.draw(ax)
        ax.set_title(panel.heading)
        ax.set_title(letter, loc="left", x=-0.16, fontweight="bold")
        captions.append(f"{letter}: {panel.caption}")
    for ax in axes.flat[len(panels) :]:
        ax.remove()
    return RunFigure(figure, "Overview", " ".join(captions), repeats=True)


def _cursor_trials(trials: Trial, cursor: np.ndarray) -> RunFigure:
    start = np.asarray(trials.init.position)[:, None]
    targets = 100 * (np.asarray(trials.targets.position) - start)
    figure = draw_trials(trials, 100 * (cursor - start), targets, label="cursor (cm)")
    what = (
        " with noise: what the network receives besides its senses; below it the cursor of member 0 (thin) "
        "and its target (dashed), both as displacements from the start"
    )
    return _trials_figure(figure, trials, what)


def _paths(trials: Trial, states: Any) -> Panel:
    """Return the paths in the trials without interventions, or those of the first kind."""
    group, chosen = next(iter(trial_groups(trials).items()))
    heading = f"{len(states.cursor.position)} members, {chosen.sum()} trials each, noise on"
    counts = f"{group}: {chosen.sum()}"
    draw = functools.partial(_draw_paths, trials=trials, states=states, chosen=chosen)
    return Panel("Paths of the cursor", heading, _about_paths(counts, states), draw)


def _paths_by_group(trials: Trial, states: Any) -> RunFigure:
    groups = trial_groups(trials)
    size = (0.6 + 2.8 * len(groups), 2.8)
    figure, axes = plt.subplots(1, len(groups), figsize=size, squeeze=False, layout="constrained")
    for ax, (group, chosen) in zip(axes[0], groups.items(), strict=True):
        _draw_paths(ax, trials, states, chosen, has_key=ax is axes[0, -1])
        if len(groups) > 1:
            ax.set_title(group)
    counts = ", ".join(f"{group}: {chosen.sum()}" for group, chosen in groups.items())
    return RunFigure(figure, "Paths of the cursor", _about_paths(counts, states))


def _draw_paths(ax: Axes, trials: Trial, states: Any, chosen: np.ndarray, *, has_key: bool = True) -> None:
    starts, targets = np.asarray(trials.init.position), np.asarray(trials.targets.position)[:, -1]
    figures.draw_hand_paths(ax, states.cursor.position[:, chosen], starts[chosen], targets[chosen])
    if has_key:
        figures.draw_direction_key(ax.inset_axes((1.0, 0.76, 0.24, 0.24)), label="target")


def _about_paths(counts: str, states: Any) -> str:
    return (
        f"Paths of the cursor in the validation trials with noise ({counts}), one line for each of "
        f"{len(states.cursor.position)} members and each trial; coloured by the direction of the last "
        f"target. {OF_MEMBERS}."
    )


def _speeds(trials: Trial, states: Any) -> Panel:
    group, chosen = next(iter(trial_groups(trials).items()))  # those without interventions
    speed = np.asarray(hand_speed(states.hand))[:, chosen]
    options = {"dt": trials.timeline.dt, "label_members": len(speed) <= MOST_LABELS}
    caption = (
        f"Speed of the hand, noise off, for {len(speed)} members: the mean over {chosen.sum()} validation "
        f"trials ({group}), and a band of one standard deviation over these trials. {OF_MEMBERS}: how far "
        "lines differ is how far networks differ."
    )
    heading = f"mean and SD over {chosen.sum()} trials, noise off"
    return Panel(
        "Speed profiles", heading, caption, lambda ax: figures.draw_speed_profiles(ax, speed, **options)
    )


def _units(trials: Trial, activity: np.ndarray) -> Panel:
    caption = (
        f"The {activity.shape[-1]} units of member 0, ordered by when they are furthest from zero, {EXAMPLE}"
    )
    draw = functools.partial(figures.draw_hidden_activity, hidden=activity, dt=trials.timeline.dt)
    return Panel("Hidden activity", EXAMPLE_HEADING, caption, draw)


def _muscles(trials: Trial, activation: np.ndarray, names: Any) -> dict[str, Panel]:
    """Draw the activation of muscles (member, trial, time, muscle), and its tuning to directions, if any."""
    panels = {
        "muscle_activations": Panel(
            "Activation of the muscles",
            EXAMPLE_HEADING,
            f"The {len(names)} muscles of member 0 {EXAMPLE}",
            lambda ax: figures.draw_muscle_activations(
                ax, activation[0, 0], dt=trials.timeline.dt, names=names
            ),
        )
    }
    directions = np.asarray(trials.conditions.get("direction", ()))
    if is_still_at_end(trials) and np.unique(directions).size > 2:
        tuning = cosine_tuning(activation.mean(axis=2), directions)
        panels["preferred_directions"] = Panel(
            "Preferred directions of the muscles",
            "mean activation, noise off",
            f"For each muscle of each of {len(activation)} members the direction and depth of the cosine "
            f"fitted to its mean activation over {len(directions)} validation trials, noise off. "
            f"{OF_MEMBERS}.",
            lambda ax: figures.draw_preferred_directions(ax, tuning.preferred, tuning.depth, names=names),
        )
    return panels
