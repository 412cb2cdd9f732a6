"""The comparison of several runs of one task."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from popsim._shared.text_checks import printable, spread_text
from popsim.analysis.behaviour import hand_speed
from popsim.analysis.figures import draw_loss_bands, draw_mean_speed, draw_member_values
from popsim.analysis.figures.style import COLORS
from popsim.analysis.statistics import paired_comparison
from popsim.experiments import Column, ResultTable, Row, RunFigure
from popsim.experiments.experiment import AbstractExperiment
from popsim.experiments.results import LIMITS, Entry, entry_text, is_numeric
from popsim.experiments.run import Run, open_run
from popsim.experiments.run_info import duration_text
from popsim.hand import HandState
from popsim.models.sensorimotor_loop import SensorimotorLoop
from popsim.noise import without_noise
from popsim.randomness import key_of_seed
from popsim.report._html import named_values, note, table
from popsim.report.report_folder import Draws, Figures, Page, WrittenReport, small_axes
from popsim.task_description import innermost_task

__all__ = ["compare_runs"]

LONGEST = 24
WIDE = 3.0  # the ratio of values from which an axis is logarithmic
MISSING = "-"
REPLICATION = "The unit of replication is the member."

Runs = Mapping[str, Run]
"""The compared runs by their names; each has the colour of its place."""
PerRun = Sequence[Float[np.ndarray, " _"]]
"""The values of the members of each run; none where a run lacks them."""


class Metric(NamedTuple):
    """A column of the results, and in each run the values of the members, and their limit as text."""

    name: str
    column: Column
    is_numeric: bool
    values: list[Float[np.ndarray, " _"]]
    limits: list[str]


def open_compared_runs(paths: Sequence[Path], names: Sequence[str] | None = None) -> dict[str, Run]:
    """Open runs of one task, named by their folders, or by their paths if two folders have the same name."""
    if not 2 <= len({path.resolve() for path in paths}) == len(paths) <= len(COLORS):
        given = ", ".join(map(str, paths))
        raise ValueError(f"`runs` must be 2 to {len(COLORS)} different folders of runs, got {given}.")
    if names is None:
        names = [path.resolve().name for path in paths]
        names = names if len(set(names)) == len(names) else [str(path) for path in paths]
    n_runs = len(paths)
    if not len(names) == len(set(names)) == n_runs or not all(map(str.strip, names)):
        raise ValueError(f"`names` must be {n_runs} different names, one for each run, got {list(names)}.")
    runs = {name: open_run(path) for name, path in zip(names, paths, strict=True)}
    for run in runs.values():
        if not run.is_finished and not run.info["n_batches_saved"]:
            raise ValueError(f"`runs` must have saved something, {run.folder.path} has no checkpoint yet.")
    tasks = {name: type(innermost_task(run.task)).__name__ for name, run in runs.items()}
    if len(set(tasks.values())) > 1:
        listing = ", ".join(f"{task} ({name})" for name, task in tasks.items())
        raise ValueError(f"`runs` must be of one task, as losses of others do not compare: got {listing}.")
    return runs


def state_text(run: Run) -> str:
    """Return the state of a run, with its progress if it is not finished."""
    if run.is_finished:
        return "finished"
    saved, planned = run.info["n_batches_saved"], run.info["n_batches"]
    return f"not finished, {saved} of {planned} batches: it has no results yet"


def settings_table(runs: Runs) -> ResultTable:
    """Return the settings that differ between runs, with one column per run."""
    settings = [
        {name: str(run.info[name]) for name in ("experiment", "popsim")} | run.info["settings_in_effect"]
        for run in runs.values()
    ]
    names = dict.fromkeys(name for of_run in settings for name in of_run)
    rows = [Row(name, [of_run.get(name, MISSING) for of_run in settings]) for name in names]
    return ResultTable([*map(Column, runs)], [row for row in rows if len(set(row.values)) > 1])


def results_table(runs: Runs) -> ResultTable:
    """Return losses and metrics with one column per run: the mean over members and the range."""
    logged = [run.info["losses"] for run in runs.values()]
    texts = {
        "members": [str(run.experiment.n_members) for run in runs.values()],
        "batches": [str(run.info["n_batches_saved"]) for run in runs.values()],
        "training took": [duration_text(losses["seconds"]) if losses else MISSING for losses in logged],
    }
    for name, losses in _last_losses(runs).items():
        texts[name] = [spread_text(values, ".3g") if values.size else MISSING for values in losses]
    metrics = _metrics(runs)
    texts |= {metric.name: [_metric_text(values, metric) for values in metric.values] for metric in metrics}
    for metric in metrics:
        if metric.is_numeric and len(set(metric.limits)) > 1:
            texts[f"limit: {metric.name}"] = metric.limits
    rows = [Row(name, row) for name, row in texts.items()]
    return ResultTable([*map(Column, runs)], rows, "Mean over members (lowest to highest member)")


def _last_losses(runs: Runs) -> dict[str, list[np.ndarray]]:
    """Return the last losses of the members of each run; none where a run has not logged any."""
    last = [run.info["losses"] or {} for run in runs.values()]
    return {
        f"last {kind} loss": [np.asarray(losses.get(kind, ()), float) for losses in last]
        for kind in ("training", "validation")
    }


def _metrics(runs: Runs) -> list[Metric]:
    """Return the metrics: numbers, then yes and no; columns of text are left out."""
    tables = [run.results() if run.is_finished else ResultTable([], []) for run in runs.values()]
    metrics = []
    for column in dict.fromkeys(column for results in tables for column in results.columns):
        entries = [_entries(results, column) for results in tables]
        numeric = all(is_numeric([*of_run.values()]) for of_run in entries)
        values = [
            results.of_members(column) if of_run else np.zeros(0)
            for results, of_run in zip(tables, entries, strict=True)
        ]
        if any(array.size and (numeric or np.isfinite(array).any()) for array in values):
            name = f"{column.title}, {column.heading}" if column.heading else column.title
            limits = [entry_text(of_run.get((LIMITS, None)), column) for of_run in entries]
            metrics.append(Metric(name, column, numeric, values, limits))
    return sorted(metrics, key=lambda metric: not metric.is_numeric)


def _entries(results: ResultTable, column: Column) -> dict[tuple[str, int | None], Entry]:
    """Return the entries of a column by label and member; none if there is no such column."""
    if column not in results.columns:
        return {}
    place = list(results.columns).index(column)
    return {(row.label, row.member): row.values[place] for row in results.rows}


def _metric_text(values: Float[np.ndarray, " _"], metric: Metric) -> str:
    """Return the mean of a metric and its range, or for how many members it is true, such as "4 of 5"."""
    finite = values[np.isfinite(values)]
    if finite.size and metric.is_numeric:
        return spread_text(values, f".{metric.column.digits}f")
    return f"{finite.sum():.0f} of {finite.size}" if finite.size else MISSING


FEWEST_PAIRS = 2
SIGNED = "{:+.3g} ({:+.3g} to {:+.3g})"
PAIRED_CAPTION = (
    "Changes from the first run to the others, paired over members that began with the same seed: the ratio "
    "of geometric means where all values are above zero, else the difference of means, with a 95 % interval "
    "(t) and the p of a two-sided sign-flip test, which of n pairs is at least 2 / 2^n"
)


def shared_members(
    first: AbstractExperiment, second: AbstractExperiment
) -> tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]:
    """Return the members of two experiments that have the same seed, in pairs.

    If both have members of different settings, the settings that both have must be the same, too. Members
    that fit several others are in no pair.
    """
    common = sorted(dict(first.grid).keys() & dict(second.grid).keys())
    tables = []
    for experiment in (first, second):
        members = experiment.members
        settings = {f"setting {name}": map(str, members.settings[name].tolist()) for name in common}
        identities = pd.DataFrame({"seed": members.ids, **settings}).assign(root=experiment.seed)
        named = list(identities)
        tables.append(identities.reset_index(names="place").drop_duplicates(named, keep=False))
    pairs = tables[0].merge(tables[1], on=named)
    return pairs["place_x"].to_numpy(), pairs["place_y"].to_numpy()


def paired_table(
    experiments: Mapping[str, AbstractExperiment], values: Mapping[str, PerRun]
) -> ResultTable | None:
    """Return the changes from the first run to each other; None where runs share fewer than two members."""
    (name, experiment), *others = experiments.items()
    rows = []
    for quantity, (before, *after) in values.items():
        for (other_name, other), other_values in zip(others, after, strict=True):
            places = shared_members(experiment, other)
            if before.size and other_values.size:
                pairs = np.stack([before[places[0]], other_values[places[1]]])
                pairs = pairs[:, np.isfinite(pairs).all(axis=0)]
                if pairs.shape[1] >= FEWEST_PAIRS:
                    rows.append(Row(quantity, [f"{name} to {other_name}", *_change_texts(*pairs)]))
    columns = [*map(Column, ("runs", "pairs", "change and 95 % interval", "p"))]
    return ResultTable(columns, rows, PAIRED_CAPTION) if rows else None


def _change_texts(before: Float[np.ndarray, " pair"], after: Float[np.ndarray, " pair"]) -> list[str]:
    """Return the number of pairs, the change with its interval, and p."""
    is_positive = min(before.min(), after.min()) > 0
    values = (np.log(before), np.log(after)) if is_positive else (before, after)
    comparison = paired_comparison(*values, key=key_of_seed(0, "report"))
    ends = np.array([comparison.difference, comparison.low, comparison.high])
    ends, form = (np.exp(ends), "× {:.3g} ({:.3g} to {:.3g})") if is_positive else (ends, SIGNED)
    return [str(before.size), form.format(*ends), f"{comparison.test.p:.2g}"]


def draw_comparison(runs: Runs) -> Draws:
    """Return what draws learning curves, metrics and, for reaches, speed profiles, one colour per run."""
    return {
        "the figure 'training_loss'": lambda: _draw_losses(runs, "training"),
        "the figure 'validation_loss'": lambda: _draw_losses(runs, "validation"),
        "the figure 'metrics'": lambda: _draw_metrics(runs),
        "the figure 'speed_profiles'": lambda: _draw_speeds(runs),
    }


def _figure_name(name: str) -> str:
    """Return the name of a run as text of a figure: shortened, without what is special to matplotlib."""
    shown = printable(name)
    shown = shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"
    return shown.replace("\\", "/").replace("$", r"\$").replace("_", " _", shown.startswith("_"))


def _counts(runs: Runs) -> str:
    return ", ".join(f"{name}: {run.experiment.n_members}" for name, run in runs.items())


def _draw_losses(runs: Runs, kind: str) -> dict[str, RunFigure]:
    prefix = "" if kind == "training" else f"{kind}_"
    figure, ax = small_axes()
    for (name, run), color in zip(runs.items(), COLORS, strict=False):
        if f"{prefix}loss" in run.history.dataset:
            values = getattr(run.history, f"total_{prefix}loss").values
            if np.isfinite(values).all(axis=0).any():
                batch = run.history[f"{prefix}batch"].values
                draw_loss_bands(ax, batch, values, label=_figure_name(name), color=color)
    if not ax.lines:
        plt.close(figure)
        return {}
    ax.set(ylabel=f"{kind} loss")
    ax.legend()
    caption = (
        f"Total {kind} loss: lines are the geometric mean over members ({_counts(runs)}), bands go from the "
        "lowest to the highest member at each batch; members whose loss was not finite are left out. "
        f"{REPLICATION}"
    )
    return {f"{kind}_loss": RunFigure(figure, f"Loss in {kind}", caption)}


def _draw_metrics(runs: Runs) -> dict[str, RunFigure]:
    if not (metrics := [metric for metric in _metrics(runs) if metric.is_numeric]):
        return {}
    size = (3.4, 0.3 + len(metrics) * (0.5 + 0.25 * len(runs)))
    figure, axes = plt.subplots(len(metrics), 1, figsize=size, layout="constrained", squeeze=False)
    names = [*map(_figure_name, runs)]
    for ax, metric in zip(axes[:, 0], metrics, strict=True):
        finite = np.concatenate([numbers[np.isfinite(numbers)] for numbers in metric.values])
        is_wide = finite.size > 0 and finite.min() > 0 and finite.max() > WIDE * finite.min()
        # Over a narrow range hardly a tick of a logarithmic axis has a label.
        scale = "log" if is_wide else "linear"
        draw_member_values(ax, metric.values, names=names, label=metric.name, scale=scale)
    caption = (
        f"A point for each member ({_counts(runs)}), a bar at their mean, on a logarithmic axis the "
        f"geometric mean; each number is over the trials that the table names. {REPLICATION}"
    )
    return {"metrics": RunFigure(figure, "Metrics", caption)}


def _draw_speeds(runs: Runs) -> dict[str, RunFigure]:
    """Draw the speed profiles of reaching runs; none unless all runs reach."""
    for run in runs.values():
        has_hand = isinstance(run.task.validation_trials().targets, HandState)
        if not (has_hand and isinstance(run.ensemble, SensorimotorLoop)):
            return {}
    figure, ax = small_axes()
    n_trials = set()
    for (name, run), color in zip(runs.items(), COLORS, strict=False):
        speed = np.asarray(hand_speed(run.evaluate(without_noise(run.ensemble)).states.hand))
        dt = float(np.ravel(run.task.validation_trials().timeline.dt)[0])
        draw_mean_speed(ax, speed, dt=dt, label=_figure_name(name), color=color)
        n_trials.add(speed.shape[1])
    ax.legend()
    caption = (
        f"Speed of the hand in {' or '.join(map(str, sorted(n_trials)))} validation trials, noise off: lines "
        f"are the mean over members ({_counts(runs)}), each with its mean over trials; bands go from the "
        f"slowest to the fastest member at each time. {REPLICATION}"
    )
    return {"speed_profiles": RunFigure(figure, "Speed profiles", caption)}


def compare_runs(
    paths: Sequence[Path], out: str | Path, *, names: Sequence[str] | None = None
) -> WrittenReport:
    """Draw runs of one task together, and write comparison.html.

    Unfinished runs are included with their losses so far, and without metrics.

    **Arguments:**

    - `paths`: the folders of the runs, which are only read.
    - `out`: the folder for comparison.html and figures/.
    - `names`: the names of the runs; None for the names of their folders.

    **Raises:** `ValueError` if the runs cannot be compared, or `out` holds something else; `SaveError` if
    something cannot be written.
    """
    runs = open_compared_runs(paths, names)
    numeric = {metric.name: metric.values for metric in _metrics(runs) if metric.is_numeric}
    experiments = {name: run.experiment for name, run in runs.items()}
    paired = paired_table(experiments, _last_losses(runs) | numeric)
    tables = {"Settings that differ": settings_table(runs), "Results": results_table(runs)}
    tables |= {"Paired by seed": paired} if paired else {}
    folders = {name: f"{run.folder.path}: {state_text(run)}" for name, run in runs.items()}
    unfinished = {name: state_text(run) for name, run in runs.items() if not run.is_finished}
    states = [f"{name} is {state}; all else is of its last checkpoint." for name, state in unfinished.items()]
    sections = {
        "Runs": [named_values("Runs", folders), *map(note, states)],
        **{title: [table(results, title)] for title, results in tables.items()},
        "Figures": Figures(draw_comparison(runs)),
    }
    settings, *others = tables.values()
    said = [settings if settings.rows else "all settings are the same", *others]
    said += ["\n".join(f"{name}: {state}" for name, state in unfinished.items())] if unfinished else []
    page = Page(f"Comparison of {len(runs)} runs", [], sections, "\n\n".join(map(str, said)))
    return page.write("comparison.html", out)
