"""The comparison of several runs of one task."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from popsim._shared.text_checks import printable, spread_text
from popsim.analysis.behaviour import hand_speed
from popsim.analysis.figures import draw_loss_bands, draw_mean_speed, draw_member_values, figure_style
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
from popsim.report._html import named_values, note
from popsim.report.report_folder import COMPARISON, Draws, ReportFolder, WrittenReport, small_axes
from popsim.task_description import innermost_task

__all__ = ["compare_runs"]

LONGEST = 24
WIDE = 3.0  # the ratio of values from which an axis is logarithmic
MISSING = "-"
REPLICATION = "The unit of replication is the member."


@dataclasses.dataclass(frozen=True)
class ComparedRun:
    """A run in a comparison, with its name and colour; its results are empty if it is not finished."""

    name: str
    run: Run
    results: ResultTable
    color: str

    @property
    def short_name(self) -> str:
        """The name as figure text: shortened, and without characters special to matplotlib."""
        shown = printable(self.name)
        shown = shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"
        return shown.replace("\\", "/").replace("$", r"\$").replace("_", " _", shown.startswith("_"))

    @property
    def state(self) -> str:
        """The state of the run, with its progress if it is not finished."""
        if self.run.is_finished:
            return "finished"
        saved, total = self.run.info["n_batches_saved"], self.run.info["n_batches"]
        return f"not finished, {saved} of {total} batches: it has no results yet"

    def entries(self, column: Column) -> list[tuple[str, Entry]]:
        """Return the label and the entry of each row in a column; none if there is no such column."""
        if column not in self.results.columns:
            return []
        place = list(self.results.columns).index(column)
        return [(row.label, row.values[place]) for row in self.results.rows]


class Metric(NamedTuple):
    """A column of the results, with the values of the members of each run, and its limit there, as text.

    A run that lacks the column has no values.
    """

    name: str
    column: Column
    is_numeric: bool
    values: list[Float[np.ndarray, " _"]]
    limits: list[str]


def open_compared_runs(paths: Sequence[Path], names: Sequence[str] | None = None) -> list[ComparedRun]:
    """Open runs of one task, named by their folders, or by their paths if two folders have the same name."""
    if not 2 <= len({path.resolve() for path in paths}) == len(paths) <= len(COLORS):
        given = ", ".join(map(str, paths))
        raise ValueError(f"`runs` must be 2 to {len(COLORS)} different folders of runs, got {given}.")
    if names is None:
        names = [path.resolve().name for path in paths]
        names = names if len(set(names)) == len(names) else [str(path) for path in paths]
    if len(names) != len(paths) or len(set(names)) != len(names) or not all(map(str.strip, names)):
        raise ValueError(
            f"`names` must be {len(paths)} different names, one for each run, got {list(names)}."
        )
    opened = [open_run(path) for path in paths]
    for run in opened:
        if not run.is_finished and not run.info["n_batches_saved"]:
            raise ValueError(f"`runs` must have saved something, {run.folder.path} has no checkpoint yet.")
    runs = [
        ComparedRun(name, run, run.results() if run.is_finished else ResultTable([], []), color)
        for name, run, color in zip(names, opened, COLORS, strict=False)
    ]
    tasks = {each.name: type(innermost_task(each.run.task)).__name__ for each in runs}
    if len(set(tasks.values())) > 1:
        listing = ", ".join(f"{task} ({name})" for name, task in tasks.items())
        raise ValueError(f"`runs` must be of one task, as losses of others do not compare: got {listing}.")
    return runs


def settings_table(runs: Sequence[ComparedRun]) -> ResultTable:
    """Return the settings that differ between runs, with one column per run."""
    run_settings = [
        {
            "experiment": str(each.run.info["experiment"]),
            "popsim": str(each.run.info["popsim"]),
            **each.run.info["settings_in_effect"],
        }
        for each in runs
    ]
    names = dict.fromkeys(name for settings in run_settings for name in settings)
    rows = [Row(name, [settings.get(name, MISSING) for settings in run_settings]) for name in names]
    return ResultTable(
        [Column(each.name) for each in runs], [row for row in rows if len(set(row.values)) > 1]
    )


def results_table(runs: Sequence[ComparedRun]) -> ResultTable:
    """Return losses and metrics with one column per run: the mean over members and the range."""
    texts = {
        "members": [str(each.run.experiment.n_members) for each in runs],
        "batches": [str(each.run.info["n_batches_saved"]) for each in runs],
        "training took": [
            duration_text(losses["seconds"]) if (losses := each.run.info["losses"]) else MISSING
            for each in runs
        ],
    }
    for name, losses in _last_losses(runs).items():
        texts[name] = [spread_text(values, ".3g") if values.size else MISSING for values in losses]
    metrics = _metrics(runs)
    texts |= {metric.name: [_spread(values, metric) for values in metric.values] for metric in metrics}
    for metric in metrics:
        if metric.is_numeric and len(set(metric.limits)) > 1:
            texts[f"limit: {metric.name}"] = metric.limits
    caption = "Mean over members (lowest to highest member)"
    return ResultTable(
        [Column(each.name) for each in runs], [Row(name, row) for name, row in texts.items()], caption
    )


def _last_losses(runs: Sequence[ComparedRun]) -> dict[str, list[np.ndarray]]:
    """Return the last losses of the members of each run; none where a run has not logged any."""
    last = [each.run.info["losses"] or {} for each in runs]
    return {
        f"last {kind} loss": [np.asarray(losses.get(kind, ()), float) for losses in last]
        for kind in ("training", "validation")
    }


def _metrics(runs: Sequence[ComparedRun]) -> list[Metric]:
    """Return the metrics: numbers, then yes and no; columns of text are left out."""
    metrics = []
    for column in dict.fromkeys(column for each in runs for column in each.results.columns):
        entries = [each.entries(column) for each in runs]
        numeric = all(is_numeric([entry for _, entry in of_run]) for of_run in entries)
        values = [
            each.results.of_members(column) if of_run else np.zeros(0)
            for each, of_run in zip(runs, entries, strict=True)
        ]
        limits = [entry_text(dict(of_run).get(LIMITS), column) for of_run in entries]
        if any(array.size and (numeric or np.isfinite(array).any()) for array in values):
            name = f"{column.title}, {column.heading}" if column.heading else column.title
            metrics.append(Metric(name, column, numeric, values, limits))
    return sorted(metrics, key=lambda metric: not metric.is_numeric)


def _spread(values: Float[np.ndarray, " _"], metric: Metric) -> str:
    """Return the mean of a metric and its range, or for how many members it is true, such as "4 of 5"."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return MISSING
    if metric.is_numeric:
        return spread_text(values, f".{metric.column.digits}f")
    return f"{finite.sum():.0f} of {finite.size}"


def paired_results(runs: Sequence[ComparedRun]) -> ResultTable | None:
    """Return the changes of losses and metrics from the first run to the others, over members that pair."""
    numeric = {metric.name: metric.values for metric in _metrics(runs) if metric.is_numeric}
    experiments = [each.run.experiment for each in runs]
    return paired_table([each.name for each in runs], experiments, _last_losses(runs) | numeric)


FEWEST_PAIRS = 2
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
    names: Sequence[str],
    experiments: Sequence[AbstractExperiment],
    values: Mapping[str, Sequence[Float[np.ndarray, " _"]]],
) -> ResultTable | None:
    """Return the changes from the first run to each other; None where runs share fewer than two members."""
    rows = []
    for quantity, of_runs in values.items():
        for name, experiment, others in zip(names[1:], experiments[1:], of_runs[1:], strict=True):
            places = shared_members(experiments[0], experiment)
            if of_runs[0].size and others.size:
                pairs = np.stack([of_runs[0][places[0]], others[places[1]]])
                pairs = pairs[:, np.isfinite(pairs).all(axis=0)]
                if pairs.shape[1] >= FEWEST_PAIRS:
                    rows.append(Row(quantity, [f"{names[0]} to {name}", *_change(*pairs)]))
    columns = [Column("runs"), Column("pairs"), Column("change and 95 % interval"), Column("p")]
    return ResultTable(columns, rows, PAIRED_CAPTION) if rows else None


def _change(before: Float[np.ndarray, " pair"], after: Float[np.ndarray, " pair"]) -> list[str]:
    """Return the number of pairs, the change with its interval, and p, as text."""
    is_positive = min(before.min(), after.min()) > 0
    values = (np.log(before), np.log(after)) if is_positive else (before, after)
    comparison = paired_comparison(*values, key=key_of_seed(0, "report"))
    ends = np.array([comparison.difference, comparison.low, comparison.high])
    if is_positive:
        change = "× {:.3g} ({:.3g} to {:.3g})".format(*np.exp(ends))
    else:
        change = "{:+.3g} ({:+.3g} to {:+.3g})".format(*ends)
    return [str(before.size), change, f"{comparison.test.p:.2g}"]


def draw_comparison(runs: Sequence[ComparedRun]) -> Draws:
    """Return what draws learning curves, metrics and, for reaches, speed profiles, one colour per run."""
    return {
        "the figure 'training_loss'": lambda: _losses(runs, "training"),
        "the figure 'validation_loss'": lambda: _losses(runs, "validation"),
        "the figure 'metrics'": lambda: _draw_metrics(runs),
        "the figure 'speed_profiles'": lambda: _speeds(runs),
    }


def _members(runs: Sequence[ComparedRun]) -> str:
    return ", ".join(f"{each.name}: {each.run.experiment.n_members}" for each in runs)


def _losses(runs: Sequence[ComparedRun], kind: str) -> dict[str, RunFigure]:
    prefix = "" if kind == "training" else f"{kind}_"
    figure, ax = small_axes()
    for each in runs:
        history = each.run.history
        if f"{prefix}loss" not in history.dataset:
            continue
        values, batch = getattr(history, f"total_{prefix}loss").values, history[f"{prefix}batch"].values
        if np.isfinite(values).all(axis=0).any():
            draw_loss_bands(ax, batch, values, label=each.short_name, color=each.color)
    if not ax.lines:
        plt.close(figure)
        return {}
    ax.set(ylabel=f"{kind} loss")
    ax.legend()
    caption = (
        f"Total {kind} loss: lines are the geometric mean over members ({_members(runs)}), bands go from the "
        "lowest to the highest member at each batch; members whose loss was not finite are left out. "
        f"{REPLICATION}"
    )
    return {f"{kind}_loss": RunFigure(figure, f"Loss in {kind}", caption)}


def _draw_metrics(runs: Sequence[ComparedRun]) -> dict[str, RunFigure]:
    if not (metrics := [metric for metric in _metrics(runs) if metric.is_numeric]):
        return {}
    size = (3.4, 0.3 + len(metrics) * (0.5 + 0.25 * len(runs)))
    figure, axes = plt.subplots(len(metrics), 1, figsize=size, layout="constrained", squeeze=False)
    names = [each.short_name for each in runs]
    for ax, metric in zip(axes[:, 0], metrics, strict=True):
        finite = np.concatenate([numbers[np.isfinite(numbers)] for numbers in metric.values])
        is_wide = finite.size > 0 and finite.min() > 0 and finite.max() > WIDE * finite.min()
        # Over a narrow range hardly a tick of a logarithmic axis has a label.
        scale = "log" if is_wide else "linear"
        draw_member_values(ax, metric.values, names=names, label=metric.name, scale=scale)
    caption = (
        f"A point for each member ({_members(runs)}), a bar at their mean, on a logarithmic axis the "
        f"geometric mean; each number is over the trials that the table names. {REPLICATION}"
    )
    return {"metrics": RunFigure(figure, "Metrics", caption)}


def _speeds(runs: Sequence[ComparedRun]) -> dict[str, RunFigure]:
    """Draw the speed profiles of reaching runs; none unless all runs reach."""
    for each in runs:
        has_hand = isinstance(each.run.task.validation_trials().targets, HandState)
        if not (has_hand and isinstance(each.run.ensemble, SensorimotorLoop)):
            return {}
    figure, ax = small_axes()
    n_trials = set()
    for each in runs:
        states = each.run.evaluate(without_noise(each.run.ensemble)).states
        speed, dt = np.asarray(hand_speed(states.hand)), each.run.task.validation_trials().timeline.dt
        draw_mean_speed(ax, speed, dt=float(np.ravel(dt)[0]), label=each.short_name, color=each.color)
        n_trials.add(speed.shape[1])
    ax.legend()
    caption = (
        f"Speed of the hand in {' or '.join(map(str, sorted(n_trials)))} validation trials, noise off: lines "
        f"are the mean over members ({_members(runs)}), each with its mean over trials; bands go from the "
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
    report = ReportFolder(COMPARISON, out)
    runs = open_compared_runs(paths, names)
    settings, results, paired = settings_table(runs), results_table(runs), paired_results(runs)
    folders = {each.name: f"{each.run.folder.path}: {each.state}" for each in runs}
    unfinished = [each for each in runs if not each.run.is_finished]
    notes = [note(f"{each.name} is {each.state}; all else is of its last checkpoint.") for each in unfinished]
    report.sections["Runs"] = [named_values("Runs", folders), *notes]
    report.add_table("Settings that differ", settings)
    report.add_table("Results", results)
    if paired is not None:
        report.add_table("Paired by seed", paired)
    with figure_style():
        report.add_figures("Figures", draw_comparison(runs))
    lines = [str(settings) if settings.rows else "all settings are the same"]
    lines += ["", str(results), *([] if paired is None else ["", str(paired)])]
    lines += [f"{each.name}: {each.state}" for each in unfinished]
    return report.write(f"Comparison of {len(runs)} runs", [], "\n".join(lines))
