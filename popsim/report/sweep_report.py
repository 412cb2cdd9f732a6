"""The report of a sweep: what each setting does, the best of them, and the cells that are missing."""

import dataclasses
import functools
import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Bool, Float

from popsim._shared.checks import check_instance
from popsim._shared.text_checks import as_path, count_text, one_line, suggestion
from popsim.analysis.figures import draw_loss_bands, draw_setting_map, draw_setting_scores, figure_style
from popsim.analysis.figures.style import COLORS
from popsim.analysis.statistics import Interval, geometric_mean_interval, mean_interval
from popsim.experiments import Column, ResultTable, Row, RunFigure
from popsim.experiments.registry import setting_text
from popsim.report._html import Html, code_box, element, named_values, note, table
from popsim.report._selection_figures import NOTE, draw_selection
from popsim.report.report_folder import REPORT, Draws, ReportFolder, WrittenReport, small_axes
from popsim.sweeps import OpenedSweep
from popsim.sweeps.overview import state_text

__all__ = ["report_sweep"]

MOST_CURVES = len(COLORS)
MOST_POINTS = 200  # batches of a learning curve
MOST_SETTINGS = 20  # rows of the table of the best
MOST_CELLS = 50
REPLICATION = "The unit of replication is the seed."


@dataclasses.dataclass(frozen=True)
class ScoredSweep:
    """A sweep with a score for each member: the name of the column of `OpenedSweep.summary`, and its values.

    They are NaN if not known, or if the cell is not finished, unless none is. `titles` are those of metrics
    by their columns.
    """

    opened: OpenedSweep
    score: str
    values: Float[np.ndarray, " member"]
    titles: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def label(self) -> str:
        """The score as text."""
        return self.titles.get(self.score, self.score.replace("_", " "))

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

    def interval(self, scores: Float[np.ndarray, " replicate"]) -> Interval:
        """Return the mean of the scores of replicates, with its 95 % interval."""
        return (geometric_mean_interval if self.is_positive else mean_interval)(scores)

    @property
    def axes(self) -> list[str]:
        """The axes with more than one value."""
        return [name for name, values in self.opened.sweep.axes.items() if len(values) > 1]

    def texts(self, axis: str) -> list[str]:
        """Return the values of an axis as text."""
        return [setting_text(value) for value in self.opened.sweep.axes[axis]]

    def axis_label(self, axis: str) -> str:
        """Return the name of an axis, with its unit if all its numbers have the same."""
        units = set(self.opened.sweep.experiment.units().get(axis, ()))
        name = axis.replace("_", " ")
        return f"{name} ({units.pop()})" if len(units) == 1 else name

    @functools.cached_property
    def learning(self) -> tuple[np.ndarray, np.ndarray] | None:
        """At most `MOST_POINTS` batches, and the total loss of all members there; None without any."""
        try:
            loss = self.opened.total_loss
        except ValueError:  # no cell has any, or their terms differ
            return None
        batches = loss.batch.values
        n_points = min(MOST_POINTS, batches.size)
        places = np.unique(np.geomspace(1, batches.size, n_points).round().astype(int)) - 1
        return batches[places], loss.isel(batch=places).values

    def has_value(self, axis: str, value: Any) -> Bool[np.ndarray, " member"]:
        """Return which members have a value on an axis."""
        return np.array([label == value for label in self.opened.labels[axis].tolist()], bool)

    def of_seeds(
        self,
        axis: str,
        value: Any,
        scores: Float[np.ndarray, "*axes member"],
        mean: Callable[..., np.ndarray],
    ) -> Float[np.ndarray, "*axes seed"]:
        """Return for each seed the mean over its members with a value on an axis, without those not known.

        Members of one seed began alike and saw the same trials, so they are no replicates. Members are on the
        last axis of `scores`.
        """
        here, seeds = self.has_value(axis, value), self.opened.labels["seed"]
        is_known = here & np.isfinite(scores).all(axis=tuple(range(scores.ndim - 1)))
        groups = [scores[..., is_known & (seeds == seed)] for seed in np.unique(seeds[is_known])]
        return np.stack([mean(group, axis=-1) for group in groups], -1) if groups else scores[..., :0]

    def combinations(self) -> list[tuple[dict[str, Any], Float[np.ndarray, " member"]]]:
        """Return each combination of values of the axes, with the known scores of its members."""
        scored_settings = []
        for values in itertools.product(*(self.opened.sweep.axes[name] for name in self.axes)):
            setting = dict(zip(self.axes, values, strict=True))
            here = np.ones(self.values.size, bool)
            for name, value in setting.items():
                here &= self.has_value(name, value)
            scored_settings.append((setting, self.values[here & np.isfinite(self.values)]))
        return scored_settings


def score_sweep(opened: OpenedSweep, score: str) -> ScoredSweep:
    """Return a sweep with a score."""
    summary = opened.summary()
    titles = summary.attrs["titles"]
    names = ["training_loss", "validation_loss", *titles]
    if score not in names:
        raise ValueError(
            f"`score` must be one of {', '.join(names)}, got {score!r}.{suggestion(score, names)}"
        )
    values = summary[score].to_numpy(float)
    is_finished = (summary["state"] == "finished").to_numpy()
    known = np.where(is_finished, values, np.nan) if is_finished.any() else values
    return ScoredSweep(opened, score, known, titles)


def settings_table(results: ScoredSweep) -> ResultTable:
    """Return the best settings: the mean of the score over members, with a 95 % interval."""
    rows = []
    for setting, scores in results.combinations():
        units = results.opened.sweep.experiment.units()
        texts = [setting_text(value, units.get(name, ())) for name, value in setting.items()]
        mean = float(results.mean(scores)) if scores.size else np.inf
        rows.append((mean, [*texts, *_score_texts(results, scores)]))
    rows.sort(key=lambda row: row[0])
    columns = [Column(name.replace("_", " ")) for name in results.axes]
    columns += [
        Column("members"),
        Column(f"{results.label}, {results.mean_name} and 95 % interval"),
        Column("lowest to highest"),
    ]
    means = [mean for mean, _ in rows]  # equal ones share a place
    shown = [Row(str(1 + means.index(mean)), values) for mean, values in rows[:MOST_SETTINGS]]
    more = f"; the best {MOST_SETTINGS} of {len(rows)} settings" if len(rows) > MOST_SETTINGS else ""
    return ResultTable(columns, shown, f"settings by {results.label}, lowest first{more}")


def _score_texts(results: ScoredSweep, scores: Float[np.ndarray, " member"]) -> list[str]:
    """Return the number of scores, their mean with its interval, and their range, as text."""
    if not scores.size:
        return ["0", "-", "-"]
    text = f"{scores[0]:.4g}"
    if scores.size > 1:
        mean, low, high = results.interval(scores)
        text = f"{mean:.4g} ({low:.4g} to {high:.4g})"
    return [str(scores.size), text, f"{scores.min():.4g} to {scores.max():.4g}"]


def draw_sweep(results: ScoredSweep) -> Draws:
    """Return what draws learning curves and the score over each axis, and over each two axes."""
    draws: dict[str, Callable[[], dict[str, RunFigure]]] = {}
    for name in results.axes:
        draws[f"{name}_learning"] = functools.partial(_curves, results, name)
        draws[f"{name}_scores"] = functools.partial(_scores, results, name)
    for pair in itertools.combinations(results.axes, 2):
        draws["_".join(pair)] = functools.partial(_map, results, *pair)
    if results.opened.sweep.experiment.select_every is not None and np.isfinite(results.values).any():
        best = int(np.argmin(np.where(np.isfinite(results.values), results.values, np.inf)))
        draws["selection"] = functools.partial(draw_selection, results.opened, best)
    return {f"the figure {name!r}": draw for name, draw in draws.items()}


def _curves(results: ScoredSweep, axis: str) -> dict[str, RunFigure]:
    if results.learning is None:
        return {}
    batch, losses = results.learning
    figure, ax = small_axes()
    values = results.opened.sweep.axes[axis]
    shown = np.unique(np.linspace(0, len(values) - 1, min(MOST_CURVES, len(values))).round().astype(int))
    counts = []
    for color, place in zip(COLORS, shown, strict=False):
        reached = np.isfinite(losses[:, results.has_value(axis, values[place])]).any(axis=1)
        seed_losses = results.of_seeds(axis, values[place], losses[reached], _geometric_mean)
        if not seed_losses.size:
            continue
        draw_loss_bands(ax, batch[reached], seed_losses, label=results.texts(axis)[place], color=color)
        counts.append(seed_losses.shape[1])
    if not counts:
        plt.close(figure)
        return {}
    ax.set(ylabel="training loss", xlim=(1, 1.05 * ax.dataLim.x1))
    ax.legend(title=results.axis_label(axis))
    extent = f", {len(shown)} of {len(values)} values" if len(shown) < len(values) else ""
    caption = (
        f"Total training loss by {results.axis_label(axis)}{extent}: lines are the geometric mean over seeds "
        f"({', '.join(map(str, counts))}), each with its mean over all other settings; bands go from the "
        f"lowest to the highest seed. {REPLICATION}"
    )
    return {f"{axis}_learning": RunFigure(figure, f"Learning by {axis.replace('_', ' ')}", caption)}


def _scores(results: ScoredSweep, axis: str) -> dict[str, RunFigure]:
    values = results.opened.sweep.axes[axis]
    figure, ax = plt.subplots(figsize=(max(3.4, 0.6 + 0.5 * len(values)), 2.8), layout="constrained")
    scores = [results.of_seeds(axis, value, results.values, results.mean) for value in values]
    draw_setting_scores(
        ax, scores, names=results.texts(axis), axis=results.axis_label(axis), label=results.label
    )
    _tilt(ax, results.texts(axis))
    n = [seed_scores.size for seed_scores in scores]
    caption = (
        f"{results.label.capitalize()} at the end, by {results.axis_label(axis)}: a point for each seed "
        f"({', '.join(map(str, n))}), its {results.mean_name} over all other settings; their "
        f"{results.mean_name} and its 95 % interval (t{', of logarithms' if results.is_positive else ''}). "
        f"{REPLICATION}"
    )
    title = f"{results.label.capitalize()} by {axis.replace('_', ' ')}"
    return {f"{axis}_scores": RunFigure(figure, title, caption)}


def _map(results: ScoredSweep, rows: str, columns: str) -> dict[str, RunFigure]:
    of_rows, of_columns = results.opened.sweep.axes[rows], results.opened.sweep.axes[columns]
    means, counts = np.full((2, len(of_rows), len(of_columns)), np.nan)
    for (row, row_value), (column, column_value) in itertools.product(
        enumerate(of_rows), enumerate(of_columns)
    ):
        here = results.values[results.has_value(rows, row_value) & results.has_value(columns, column_value)]
        counts[row, column] = np.isfinite(here).sum()
        if counts[row, column]:
            means[row, column] = results.mean(here[np.isfinite(here)])
    size = (max(3.4, 1.6 + 0.55 * len(of_columns)), max(2.6, 0.9 + 0.35 * len(of_rows)))
    figure, ax = plt.subplots(figsize=size, layout="constrained")
    draw_setting_map(
        ax,
        means,
        rows=results.texts(rows),
        columns=results.texts(columns),
        axes=(results.axis_label(rows), results.axis_label(columns)),
        label=results.label,
    )
    _tilt(ax, results.texts(columns))
    other_axes = [name for name in results.axes if name not in (rows, columns)]
    over = " and over ".join(["seeds", *other_axes])
    n_members = f"{int(counts.min())} to {int(counts.max())} members"
    caption = (
        f"{results.label.capitalize()}: the {results.mean_name} over {n_members}, over {over}. "
        f"White: not trained. {REPLICATION}"
    )
    title = f"{results.label.capitalize()} over two settings"
    return {f"{rows}_{columns}": RunFigure(figure, title, caption)}


def _geometric_mean(values: np.ndarray, axis: int) -> np.ndarray:
    """Return the geometric mean over an axis."""
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
    report = ReportFolder(home if out is None else as_path("out", out), REPORT, home=home)
    if not any("validation_loss" in note.members for note in opened.notes):
        raise ValueError(
            f"the sweep {home} must have results to be shown, it has none yet. "
            f"To train it: {opened.folder.command('resume')}"
        )
    results = score_sweep(opened, score)
    best, notes = settings_table(results), _notes(results)
    report.sections["Best settings"] = [table(best, "Best settings"), *map(note, notes)]
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
    changes_loss = any(experiment.member_settings.get(name) == "task" for name in results.axes)
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
    about = (inspect.getdoc(type(sweep.experiment)) or "").partition("\n\n")[0]
    units = sweep.experiment.units()
    axes: Mapping[str, str] = {
        name: " | ".join(setting_text(value, units.get(name, ())) for value in values)
        for name, values in sweep.axes.items()
    }
    seeds = f"{sweep.seeds.start} to {sweep.seeds.stop - 1}"
    values = {**axes, "seeds": seeds, "networks": str(sweep.n_members), "cells": opened.counts_text}
    return [element("p", one_line(about)), named_values("Axes", values)]


def _list_unfinished(opened: OpenedSweep) -> dict[str, list[Html]]:
    """List the cells that are not finished, with what is wrong with them."""
    if not opened.unfinished_cells:
        return {}
    values = {}
    for number in opened.unfinished_cells[:MOST_CELLS]:
        problem = opened.problem_of(number)
        n_batches = opened.notes[number].n_batches
        saved = f", {n_batches} batches" if n_batches else ""
        state = f"{opened.state_of(number)}{saved}{f': {problem}' if problem else ''}"
        values[f"cell {number}"] = f"{state} ({opened.sweep.cell(number)})"
    n_more = len(opened.unfinished_cells) - len(values)
    more = [element("p", f"And {n_more} more.")] if n_more else []
    command = element("p", f"To train them: {opened.folder.command('resume')}")
    return {"Cells that are not finished": [named_values("Cells", values), *more, command]}
