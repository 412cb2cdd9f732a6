"""The report of a sweep: what each setting does, the best of them, and the cells that are missing."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Bool, Float

from popsim._shared.checks import check_instance
from popsim._shared.text_checks import count_text, suggestion
from popsim.analysis.figures import draw_loss_bands, draw_setting_map, draw_setting_scores, figure_style
from popsim.analysis.figures.style import COLORS
from popsim.analysis.statistics import geometric_mean_interval, mean_interval
from popsim.experiments import Column, ResultTable, Row, RunFigure
from popsim.experiments.registry import setting_text
from popsim.report._html import Html, code_box, element, named_values
from popsim.report._selection_figures import NOTE, draw_selection
from popsim.report.report_folder import (
    REPORT,
    Draws,
    ReportFolder,
    WrittenReport,
    experiment_text,
    small_axes,
)
from popsim.sweeps import OpenedSweep
from popsim.sweeps.overview import state_text

__all__ = ["report_sweep"]

MOST_CURVES = len(COLORS)
MOST_POINTS = 200  # batches of a learning curve
MOST_SETTINGS = 20  # rows of the table of the best
MOST_CELLS = 50
REPLICATION = "The unit of replication is the seed."


@dataclasses.dataclass(frozen=True)
class Axis:
    """An axis with more than one value, and which members have each of them.

    - `label`: its name, with the unit if all its numbers have the same.
    - `texts`: the values.
    """

    name: str
    label: str
    texts: list[str]
    texts_with_units: list[str]
    members: list[Bool[np.ndarray, " member"]]


def _axes(opened: OpenedSweep) -> list[Axis]:
    all_units, axes = opened.sweep.experiment.units(), []
    several = {name: values for name, values in opened.sweep.axes.items() if len(values) > 1}
    for name, values in several.items():
        units, label = all_units.get(name, ()), name.replace("_", " ")
        if len(set(units)) == 1:
            label = f"{label} ({units[0]})"
        texts, texts_with_units = ([setting_text(value, unit) for value in values] for unit in ((), units))
        labels = opened.labels[name].tolist()
        members = [np.array([member == value for member in labels], bool) for value in values]
        axes.append(Axis(name, label, texts, texts_with_units, members))
    return axes


@dataclasses.dataclass(frozen=True)
class ScoredSweep:
    """A sweep with the score of each member: NaN if not known, or its cell is not finished, unless none is.

    `score` is a column of `OpenedSweep.summary`, and `label` the score as text.
    """

    opened: OpenedSweep
    score: str
    label: str
    values: Float[np.ndarray, " member"]

    @functools.cached_property
    def axes(self) -> list[Axis]:
        """The axes with more than one value."""
        return _axes(self.opened)

    @functools.cached_property
    def learning(self) -> tuple[np.ndarray, np.ndarray] | None:
        """At most `MOST_POINTS` batches, and the total loss of all members there; None without any."""
        try:
            loss = self.opened.total_loss
        except ValueError:  # no cell has any, or their terms differ
            return None
        n_points = min(MOST_POINTS, loss.batch.size)
        places = np.unique(np.geomspace(1, loss.batch.size, n_points).round().astype(int)) - 1
        return loss.batch.values[places], loss.isel(batch=places).values

    @property
    def is_positive(self) -> bool:
        """Whether all scores are above zero, such as losses: means are then geometric.

        The mean over settings would be that of those that did not learn.
        """
        return bool(np.all(self.values[np.isfinite(self.values)] > 0))

    @property
    def mean_name(self) -> str:
        """What means are called."""
        return "geometric mean" if self.is_positive else "mean"

    def mean(self, scores: Float[np.ndarray, "*axes known"], axis: int = -1) -> Float[np.ndarray, "*axes"]:
        """Return the mean of scores over an axis."""
        return _geometric_mean(scores, axis) if self.is_positive else np.asarray(scores.mean(axis=axis))

    def known(self, *members: Bool[np.ndarray, " member"]) -> Float[np.ndarray, " known"]:
        """Return the known scores of the members that are in all of these."""
        return self.values[np.logical_and.reduce([np.isfinite(self.values), *members])]

    def of_seeds(
        self,
        members: Bool[np.ndarray, " member"],
        scores: Float[np.ndarray, "*axes member"],
        mean: Callable[..., np.ndarray],
    ) -> Float[np.ndarray, "*axes seed"]:
        """Return for each seed the mean over some members, without those not known.

        Members of one seed began alike and saw the same trials, so they are no replicates.
        """
        seeds = self.opened.labels["seed"]
        is_known = members & np.isfinite(scores).all(axis=tuple(range(scores.ndim - 1)))
        groups = [scores[..., is_known & (seeds == seed)] for seed in np.unique(seeds[is_known])]
        return np.stack([mean(group, axis=-1) for group in groups], -1) if groups else scores[..., :0]


def score_sweep(opened: OpenedSweep, score: str) -> ScoredSweep:
    """Return a sweep with a score."""
    summary = opened.summary()
    titles = summary.attrs["titles"]
    names = ["training_loss", "validation_loss", *titles]
    if score not in names:
        raise ValueError(
            f"`score` must be one of {', '.join(names)}, got {score!r}.{suggestion(score, names)}"
        )
    is_finished = summary["state"] == "finished"
    known = summary[score].where(is_finished) if is_finished.any() else summary[score]
    return ScoredSweep(opened, score, titles.get(score, score.replace("_", " ")), known.to_numpy(float))


def settings_table(results: ScoredSweep) -> ResultTable:
    """Return the best settings: the mean of the score over members, with a 95 % interval."""
    rows = []
    for setting in itertools.product(
        *(zip(axis.texts_with_units, axis.members, strict=True) for axis in results.axes)
    ):
        scores = results.known(*(members for _, members in setting))
        mean = float(results.mean(scores)) if scores.size else np.inf
        rows.append((mean, [*(text for text, _ in setting), *_score_texts(results, scores)]))
    rows.sort(key=lambda row: row[0])
    titles = [axis.name.replace("_", " ") for axis in results.axes]
    titles += ["members", f"{results.label}, {results.mean_name} and 95 % interval", "lowest to highest"]
    means = [mean for mean, _ in rows]  # equal ones share a place
    shown = [Row(str(1 + means.index(mean)), values) for mean, values in rows[:MOST_SETTINGS]]
    more = f"; the best {MOST_SETTINGS} of {len(rows)} settings" if len(rows) > MOST_SETTINGS else ""
    caption = f"settings by {results.label}, lowest first{more}"
    return ResultTable([*map(Column, titles)], shown, caption)


def _score_texts(results: ScoredSweep, scores: Float[np.ndarray, " member"]) -> list[str]:
    """Return the number of scores, their mean with its interval, and their range, as text."""
    if not scores.size:
        return ["0", "-", "-"]
    text = f"{scores[0]:.4g}"
    if scores.size > 1:
        mean, low, high = (geometric_mean_interval if results.is_positive else mean_interval)(scores)
        text = f"{mean:.4g} ({low:.4g} to {high:.4g})"
    return [str(scores.size), text, f"{scores.min():.4g} to {scores.max():.4g}"]


def draw_sweep(results: ScoredSweep) -> Draws:
    """Return what draws learning curves and the score over each axis, and over each two axes."""
    draws: dict[str, Callable[[], dict[str, RunFigure]]] = {}
    for axis in results.axes:
        draws[f"{axis.name}_learning"] = functools.partial(_curves, results, axis)
        draws[f"{axis.name}_scores"] = functools.partial(_scores, results, axis)
    for rows, columns in itertools.combinations(results.axes, 2):
        draws[f"{rows.name}_{columns.name}"] = functools.partial(_map, results, rows, columns)
    if results.opened.sweep.experiment.select_every is not None and results.known().size:
        draws["selection"] = functools.partial(
            draw_selection, results.opened, int(np.nanargmin(results.values))
        )
    return {f"the figure {name!r}": draw for name, draw in draws.items()}


def _curves(results: ScoredSweep, axis: Axis) -> dict[str, RunFigure]:
    if results.learning is None:
        return {}
    (batch, losses), n_values = results.learning, len(axis.texts)
    figure, ax = small_axes()
    shown = np.unique(np.linspace(0, n_values - 1, min(MOST_CURVES, n_values)).round().astype(int))
    counts = []
    for color, place in zip(COLORS, shown, strict=False):
        members = axis.members[place]
        reached = np.isfinite(losses[:, members]).any(axis=1)
        seed_losses = results.of_seeds(members, losses[reached], _geometric_mean)
        if seed_losses.size:
            draw_loss_bands(ax, batch[reached], seed_losses, label=axis.texts[place], color=color)
            counts.append(str(seed_losses.shape[1]))
    if not counts:
        plt.close(figure)
        return {}
    ax.set(ylabel="training loss", xlim=(1, 1.05 * ax.dataLim.x1))
    ax.legend(title=axis.label)
    extent = f", {len(shown)} of {n_values} values" if len(shown) < n_values else ""
    caption = (
        f"Total training loss by {axis.label}{extent}: lines are the geometric mean over seeds "
        f"({', '.join(counts)}), each with its mean over all other settings; bands go from the "
        f"lowest to the highest seed. {REPLICATION}"
    )
    return {f"{axis.name}_learning": RunFigure(figure, f"Learning by {axis.name.replace('_', ' ')}", caption)}


def _scores(results: ScoredSweep, axis: Axis) -> dict[str, RunFigure]:
    figure, ax = plt.subplots(figsize=(max(3.4, 0.6 + 0.5 * len(axis.texts)), 2.8), layout="constrained")
    scores = [results.of_seeds(members, results.values, results.mean) for members in axis.members]
    draw_setting_scores(ax, scores, names=axis.texts, axis=axis.label, label=results.label)
    _tilt(ax, axis.texts)
    n, label = ", ".join(str(seed_scores.size) for seed_scores in scores), results.label.capitalize()
    caption = (
        f"{label} at the end, by {axis.label}: a point for each seed ({n}), its {results.mean_name} over all "
        f"other settings; their {results.mean_name} and its 95 % interval "
        f"(t{', of logarithms' if results.is_positive else ''}). {REPLICATION}"
    )
    return {f"{axis.name}_scores": RunFigure(figure, f"{label} by {axis.name.replace('_', ' ')}", caption)}


def _map(results: ScoredSweep, rows: Axis, columns: Axis) -> dict[str, RunFigure]:
    shape = (len(rows.texts), len(columns.texts))
    means, counts = np.full(shape, np.nan), np.zeros(shape, int)
    for place in np.ndindex(shape):
        known = results.known(rows.members[place[0]], columns.members[place[1]])
        counts[place], means[place] = known.size, results.mean(known) if known.size else np.nan
    size = (max(3.4, 1.6 + 0.55 * shape[1]), max(2.6, 0.9 + 0.35 * shape[0]))
    figure, ax = plt.subplots(figsize=size, layout="constrained")
    names: Any = {"rows": rows.texts, "columns": columns.texts, "axes": (rows.label, columns.label)}
    draw_setting_map(ax, means, **names, label=results.label)
    _tilt(ax, columns.texts)
    own = (rows.name, columns.name)
    over = " and over ".join(["seeds", *(axis.name for axis in results.axes if axis.name not in own)])
    caption = (
        f"{results.label.capitalize()}: the {results.mean_name} over {counts.min()} to {counts.max()} "
        f"members, over {over}. White: not trained. {REPLICATION}"
    )
    title = f"{results.label.capitalize()} over two settings"
    return {f"{rows.name}_{columns.name}": RunFigure(figure, title, caption)}


def _geometric_mean(values: np.ndarray, axis: int) -> np.ndarray:
    return np.asarray(np.exp(np.log(values).mean(axis=axis)))


def _tilt(ax: Any, texts: Sequence[str]) -> None:
    """Tilt the names below axes if they are too long to stand beside one another."""
    if sum(map(len, texts)) > 40:
        plt.setp(ax.get_xticklabels(), rotation=40, ha="right", rotation_mode="anchor")


_CODE = """import popsim

sweep = popsim.sweeps.open_sweep({path})
sweep.summary()  # a pandas table with a row for each member
sweep.load("loss").loss  # (batch, member, term) over all cells
sweep.ensemble({selection})  # the trained networks of some settings, stacked
sweep.run(0)  # a cell, as popsim.open_run opens it"""


def report_sweep(
    opened: OpenedSweep, out: str | Path | None = None, *, score: str = "validation_loss"
) -> WrittenReport:
    """Draw a sweep, finished or not, as PNG and PDF, and write report.html.

    **Arguments:**

    - `opened`: the sweep.
    - `out`: the folder for report.html and figures/; None for that of the sweep.
    - `score`: what settings are compared by, lower is better: a column of `OpenedSweep.summary`, such as
        "training_loss" or "result_error_mm_noise_on_mean".

    **Raises:** `ValueError` if there is no such score, no member has one yet, or `out` holds something else;
    `SaveError` if something cannot be written.
    """
    check_instance("opened", opened, OpenedSweep, "a sweep, such as open_sweep(path)")
    home, sweep = opened.folder.path, opened.sweep
    report = ReportFolder(REPORT, home if out is None else out, home=home)
    if not any("validation_loss" in note.members for note in opened.notes):
        raise ValueError(
            f"the sweep {home} must have results to be shown, it has none yet. "
            f"To train it: {opened.folder.command('resume')}"
        )
    results = score_sweep(opened, score)
    best = settings_table(results)
    report.add_table("Best settings", best, _notes(results))
    with figure_style():
        report.add_figures("What the settings do", draw_sweep(results))
    report.sections |= _list_unfinished(opened)
    selection = ", ".join(f"{name}={sweep.axes[name][0]!r}" for name in sweep.cell_axes)
    code = _CODE.format(path=repr(str(home)), selection=selection)
    report.sections["Open this sweep in Python"] = [code_box(code)]
    title = f"{sweep.experiment.name}: sweep {home.resolve().name}"
    return report.write(title, _introduction(opened), f"{state_text(opened)}\n\n{best}")


def _notes(results: ScoredSweep) -> list[str]:
    """Return what the reader should know of the comparison."""
    opened, experiment = results.opened, results.opened.sweep.experiment
    notes = [_progress_note(opened)] if opened.unfinished_cells else []
    changes_loss = any(experiment.member_settings.get(axis.name) == "task" for axis in results.axes)
    if results.score.endswith("loss") and changes_loss:
        notes.append(
            "An axis changes the loss itself, so losses do not compare between its values: see --score."
        )
    return notes + [NOTE] * (experiment.select_every is not None)


def _progress_note(opened: OpenedSweep) -> str:
    """Say what a report of a sweep compares that is not finished."""
    are_not = f"{'is' if len(opened.unfinished_cells) == 1 else 'are'} not finished"
    cells = f"{len(opened.unfinished_cells)} of {count_text(opened.sweep.n_cells, 'cell')} {are_not}"
    if len(opened.unfinished_cells) < opened.sweep.n_cells:
        return (
            f"{cells}: only members of the others are compared; learning curves show all as far as they are."
        )
    n_batches = [note.n_batches for note in opened.notes]
    return (
        f"No cell is finished: settings are compared after {min(n_batches)} to {max(n_batches)} batches, "
        "which may say no more than how far each is."
    )


def _introduction(opened: OpenedSweep) -> list[Html]:
    sweep = opened.sweep
    units = sweep.experiment.units()
    axes: Mapping[str, str] = {
        name: " | ".join(setting_text(value, units.get(name, ())) for value in values)
        for name, values in sweep.axes.items()
    }
    seeds = f"{sweep.seeds.start} to {sweep.seeds.stop - 1}"
    values = {**axes, "seeds": seeds, "networks": str(sweep.n_members), "cells": opened.counts_text}
    return [experiment_text(sweep.experiment), named_values("Axes", values)]


def _list_unfinished(opened: OpenedSweep) -> dict[str, list[Html]]:
    """List the cells that are not finished, with what is wrong with them."""
    if not opened.unfinished_cells:
        return {}
    values = {
        f"cell {number}": f"{opened.text_of(number)} ({opened.sweep.cell(number)})"
        for number in opened.unfinished_cells[:MOST_CELLS]
    }
    n_more = len(opened.unfinished_cells) - len(values)
    more = [element("p", f"And {n_more} more.")] if n_more else []
    command = element("p", f"To train them: {opened.folder.command('resume')}")
    return {"Cells that are not finished": [named_values("Cells", values), *more, command]}
