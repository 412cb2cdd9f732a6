"""The report of a sweep: what each setting does, the best of them, and the cells that are missing."""

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray
from jaxtyping import Float

from popsim._shared.checks import check_instance
from popsim._shared.text_checks import count_text, suggestion
from popsim.analysis.figures import draw_loss_bands, draw_setting_map, draw_setting_scores
from popsim.analysis.figures.style import COLORS
from popsim.analysis.figures.sweeps import FEWEST_IN_INTERVAL
from popsim.analysis.statistics import geometric_mean_interval, mean_interval
from popsim.experiments import Column, ResultTable, Row, RunFigure
from popsim.experiments.registry import setting_text
from popsim.report._explorer import evenly_spaced
from popsim.report._html import Html, code_box, element, named_values, note, table
from popsim.report._selection_figures import NOTE, draw_selection
from popsim.report.report_folder import Draws, Figures, Page, WrittenReport, experiment_text, small_axes
from popsim.sweeps import OpenedSweep
from popsim.sweeps.overview import state_text

__all__ = ["report_sweep"]

MOST_CURVES = len(COLORS)
MOST_POINTS = 200  # batches of a learning curve
MOST_SETTINGS = 20  # rows of the table of the best
MOST_CELLS = 50


@dataclasses.dataclass(frozen=True)
class Axis:
    """An axis with more than one value, and the units of its numbers."""

    name: str
    values: Sequence[Any]
    units: tuple[str, ...]

    @property
    def title(self) -> str:
        return self.name.replace("_", " ")

    @property
    def label(self) -> str:
        """The title, with the unit if all numbers have the same."""
        return f"{self.title} ({self.units[0]})" if len(set(self.units)) == 1 else self.title

    @property
    def texts(self) -> list[str]:
        return [*map(setting_text, self.values)]


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
        sweep = self.opened.sweep
        units = sweep.experiment.units()
        axes = {name: values for name, values in sweep.axes.items() if len(values) > 1}
        return [Axis(name, values, units.get(name, ())) for name, values in axes.items()]

    @functools.cached_property
    def scores(self) -> xarray.DataArray:
        """The scores over all axes and seeds, see `on_axes`."""
        return self.on_axes(self.values)

    def on_axes(self, values: Float[np.ndarray, "*rest member"], *rest: str) -> xarray.DataArray:
        """Return numbers of members over (*rest, *axes, "seed"), NaN where they are not finite or known."""
        labels, sweep = self.opened.labels, self.opened.sweep
        seeds, seed_places = np.unique(labels["seed"], return_inverse=True)
        places = [
            [list(sweep.axes[axis.name]).index(value) for value in labels[axis.name].tolist()]
            for axis in self.axes
        ]
        shape = [*values.shape[:-1], *(len(axis.texts) for axis in self.axes), seeds.size]
        numbers = np.full(shape, np.nan)
        numbers[(..., *places, seed_places)] = np.where(np.isfinite(values), values, np.nan)
        return xarray.DataArray(numbers, dims=(*rest, *(axis.name for axis in self.axes), "seed"))

    @functools.cached_property
    def learning(self) -> tuple[np.ndarray, xarray.DataArray] | None:
        """At most `MOST_POINTS` batches, and the total losses there, see `on_axes`; None without any."""
        try:
            loss = self.opened.total_loss
        except ValueError:  # no cell has any, or their terms differ
            return None
        n_points = min(MOST_POINTS, loss.batch.size)
        places = np.unique(np.geomspace(1, loss.batch.size, n_points).round().astype(int)) - 1
        return loss.batch.values[places], self.on_axes(loss.isel(batch=places).values, "batch")

    @property
    def is_positive(self) -> bool:
        """Whether all scores are above zero, such as losses: means are then geometric.

        The mean over settings would be that of those that did not learn.
        """
        return bool(np.all(self.values[np.isfinite(self.values)] > 0))

    @property
    def replication(self) -> str:
        selects = self.opened.sweep.experiment.select_every is not None
        return f"The unit of replication is the {'population' if selects else 'seed'}."

    @property
    def mean_name(self) -> str:
        return "geometric mean" if self.is_positive else "mean"

    def mean(self, scores: xarray.DataArray, over: Sequence[str]) -> xarray.DataArray:
        """Return the mean of the known scores over some axes."""
        return _geometric_mean(scores, over) if self.is_positive else scores.mean(over)

    def other_axes(self, *axes: Axis) -> list[str]:
        return [axis.name for axis in self.axes if axis not in axes]


def _geometric_mean(values: xarray.DataArray, over: Sequence[str]) -> xarray.DataArray:
    logarithms: Any = np.log(values)
    return np.exp(logarithms.mean(over))


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
    for place in np.ndindex(results.scores.shape[:-1]):
        values = [(axis.values[index], axis.units) for axis, index in zip(results.axes, place, strict=True)]
        texts = [setting_text(*value) for value in values]
        scores = results.scores[place].dropna("seed")
        mean = float(results.mean(scores, ["seed"])) if scores.size else np.inf
        rows.append((mean, [*texts, *_score_texts(results, mean, scores.values)]))
    rows.sort(key=lambda row: row[0])
    titles = [axis.title for axis in results.axes]
    titles += ["members", f"{results.label}, {results.mean_name} and 95 % interval", "lowest to highest"]
    means = [mean for mean, _ in rows]  # equal ones share a place
    shown = [Row(str(1 + means.index(mean)), values) for mean, values in rows[:MOST_SETTINGS]]
    more = f"; the best {MOST_SETTINGS} of {len(rows)} settings" if len(rows) > MOST_SETTINGS else ""
    return ResultTable([*map(Column, titles)], shown, f"settings by {results.label}, lowest first{more}")


def _score_texts(results: ScoredSweep, mean: float, scores: Float[np.ndarray, " member"]) -> list[str]:
    """Return the number of scores, their mean with its interval, and their range, as text."""
    if not scores.size:
        return ["0", "-", "-"]
    text = f"{mean:.4g}"
    if scores.size >= FEWEST_IN_INTERVAL:
        _, low, high = (geometric_mean_interval if results.is_positive else mean_interval)(scores)
        text = f"{text} ({low:.4g} to {high:.4g})"
    return [str(scores.size), text, f"{scores.min():.4g} to {scores.max():.4g}"]


def draw_sweep(results: ScoredSweep) -> Draws:
    """Return what draws learning curves and the score over each axis, and over each two axes."""
    draws: dict[str, Any] = {}
    for axis in results.axes:
        draws[f"{axis.name}_learning"] = functools.partial(_draw_learning, results, axis)
        draws[f"{axis.name}_scores"] = functools.partial(_draw_scores, results, axis)
    for rows, columns in itertools.combinations(results.axes, 2):
        draws[f"{rows.name}_{columns.name}"] = functools.partial(_draw_map, results, rows, columns)
    if results.opened.sweep.experiment.select_every is not None and np.isfinite(results.values).any():
        best = int(np.nanargmin(results.values))
        draws["selection"] = functools.partial(draw_selection, results.opened, best)
    return {f"the figure {name!r}": draw for name, draw in draws.items()}


def _draw_learning(results: ScoredSweep, axis: Axis) -> dict[str, RunFigure]:
    """Draw the losses of each value of an axis.

    Members of one seed began alike and saw the same trials, so they are no replicates: their mean is.
    """
    if results.learning is None:
        return {}
    (batch, losses), n_values = results.learning, len(axis.texts)
    figure, ax = small_axes()
    shown, counts = evenly_spaced(n_values, MOST_CURVES), []
    for color, place in zip(COLORS, shown, strict=False):
        of_value = losses.isel({axis.name: place})
        reached = of_value.notnull().any(of_value.dims[1:]).values
        of_value = of_value[reached]
        known = of_value.where(of_value.notnull().all("batch"))
        seed_losses = _geometric_mean(known, results.other_axes(axis)).dropna("seed").values
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
        f"lowest to the highest seed. {results.replication}"
    )
    return {f"{axis.name}_learning": RunFigure(figure, f"Learning by {axis.title}", caption)}


def _draw_scores(results: ScoredSweep, axis: Axis) -> dict[str, RunFigure]:
    figure, ax = plt.subplots(figsize=(max(3.4, 0.6 + 0.5 * len(axis.texts)), 2.8), layout="constrained")
    means = results.mean(results.scores, results.other_axes(axis)).transpose(axis.name, "seed")
    scores = [of_value.dropna("seed").values for of_value in means]
    draw_setting_scores(ax, scores, names=axis.texts, axis=axis.label, label=results.label)
    _tilt_names(ax, axis.texts)
    n, label = ", ".join(str(seed_scores.size) for seed_scores in scores), results.label.capitalize()
    caption = (
        f"{label} at the end, by {axis.label}: a point for each seed ({n}), its {results.mean_name} over all "
        f"other settings; their {results.mean_name}, and of {FEWEST_IN_INTERVAL} or more its 95 % interval "
        f"(t{', of logarithms' if results.is_positive else ''}). {results.replication}"
    )
    return {f"{axis.name}_scores": RunFigure(figure, f"{label} by {axis.title}", caption)}


def _draw_map(results: ScoredSweep, rows: Axis, columns: Axis) -> dict[str, RunFigure]:
    over = ["seed", *results.other_axes(rows, columns)]
    scores = results.scores.transpose(rows.name, columns.name, ...)
    means, counts = results.mean(scores, over).values, scores.notnull().sum(over).values
    size = (max(3.4, 1.6 + 0.55 * len(columns.texts)), max(2.6, 0.9 + 0.35 * len(rows.texts)))
    figure, ax = plt.subplots(figsize=size, layout="constrained")
    names: Any = {"rows": rows.texts, "columns": columns.texts, "axes": (rows.label, columns.label)}
    draw_setting_map(ax, means, **names, label=results.label)
    _tilt_names(ax, columns.texts)
    label = results.label.capitalize()
    caption = (
        f"{label}: the {results.mean_name} over {counts.min()} to {counts.max()} members, over seeds"
        f"{''.join(f' and over {name}' for name in over[1:])}. White: not trained. {results.replication}"
    )
    return {f"{rows.name}_{columns.name}": RunFigure(figure, f"{label} over two settings", caption)}


def _tilt_names(ax: Any, texts: Sequence[str]) -> None:
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
    if not any("validation_loss" in cell.members for cell in opened.notes):
        raise ValueError(
            f"the sweep {home} must have results to be shown, it has none yet. "
            f"To train it: {opened.folder.command('resume')}"
        )
    results = score_sweep(opened, score)
    best, notes = settings_table(results), _notes(results)
    selection = ", ".join(f"{name}={sweep.axes[name][0]!r}" for name in sweep.cell_axes)
    page = Page(
        f"{sweep.experiment.name}: sweep {home.resolve().name}",
        _introduction(opened),
        {
            "Best settings": [table(best, "Best settings"), *map(note, notes)],
            "What the settings do": Figures(draw_sweep(results)),
            "Cells that are not finished": _list_unfinished(opened),
            "Open this sweep in Python": [code_box(_CODE.format(path=repr(str(home)), selection=selection))],
        },
        "\n\n".join([state_text(opened), str(best), *notes]),
    )
    return page.write("report.html", home if out is None else out, home)


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
    n_unfinished, n_cells = len(opened.unfinished_cells), opened.sweep.n_cells
    if n_unfinished < n_cells:
        return (
            f"{n_unfinished} of {count_text(n_cells, 'cell')} {'is' if n_unfinished == 1 else 'are'} not "
            "finished: only members of the others are compared; learning curves show all of them so far."
        )
    n_batches = [cell.n_batches for cell in opened.notes]
    return (
        f"No cell is finished: settings are compared after {min(n_batches)} to {max(n_batches)} batches, "
        "and may differ for that reason alone."
    )


def _introduction(opened: OpenedSweep) -> list[Html]:
    sweep = opened.sweep
    units = sweep.experiment.units()
    axes = {
        name: " | ".join(setting_text(value, units.get(name, ())) for value in values)
        for name, values in sweep.axes.items()
    }
    seeds = f"{sweep.seeds.start} to {sweep.seeds.stop - 1}"
    values = {**axes, "seeds": seeds, "networks": str(sweep.n_members), "cells": opened.counts_text}
    return [experiment_text(sweep.experiment), named_values("Axes", values)]


def _list_unfinished(opened: OpenedSweep) -> list[Html]:
    """List the cells that are not finished, with what is wrong with them."""
    if not opened.unfinished_cells:
        return []
    values = {
        f"cell {number}": f"{opened.text_of(number)} ({opened.sweep.cell(number)})"
        for number in opened.unfinished_cells[:MOST_CELLS]
    }
    n_more = len(opened.unfinished_cells) - len(values)
    more = [element("p", f"And {n_more} more.")] if n_more else []
    command = element("p", f"To train them: {opened.folder.command('resume')}")
    return [named_values("Cells", values), *more, command]
