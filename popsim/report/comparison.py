"""The comparison of several runs of one task."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim._drawing import FailedDrawing, try_to_draw
from popsim._text_checks import as_path, check_path, has_control_characters, printable
from popsim._text_tables import spread_text
from popsim.analysis.behaviour import hand_speed
from popsim.analysis.figures import draw_loss_bands, draw_mean_speed, draw_member_values, figure_style
from popsim.analysis.figures.style import COLORS
from popsim.experiments.logged_losses import LoggedLosses
from popsim.experiments.result_table import LIMITS, Column, ResultTable, Row, entry_text, is_numeric
from popsim.experiments.run import Run, open_run
from popsim.experiments.run_figure import RunFigure
from popsim.experiments.run_info import RunInfo, read_run_info
from popsim.experiments.run_info_table import duration_text
from popsim.hand import HandState
from popsim.models.sensorimotor_loop import SensorimotorLoop
from popsim.noise import without_noise
from popsim.report._html import Html, element, figure_grid, named_values, note, table, write_page
from popsim.report._paired_runs import paired_table
from popsim.report.pictures import (
    COMPARISON,
    DAMAGE,
    WrittenReport,
    check_report_folder,
    figure_name,
    make_report_folder,
    save_and_embed,
)
from popsim.task_description import innermost_task

__all__ = ["compare_runs"]

LONGEST = 24
WIDE = 3.0  # the ratio of values from which an axis is logarithmic
MISSING = "-"


@dataclasses.dataclass(frozen=True)
class ComparedRun:
    """A run in a comparison.

    - `name`: its name in the comparison.
    - `run`, `info`: the run and its contents.
    - `results`: the results; None if the run is not finished.
    - `color`: its colour in figures.
    """

    name: str
    run: Run
    info: RunInfo
    results: ResultTable | None
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
        return f"not finished, {self.info.n_saved} of {self.info.n_batches} batches: it has no results yet"

    def has_column(self, column: Column) -> bool:
        """Whether there are results with this column."""
        return self.results is not None and column in self.results.columns

    def of_members(self, column: Column) -> Float[np.ndarray, " member"]:
        """Return the values of the members, none if there is no such column."""
        return self.results.of_members(column) if self.results and self.has_column(column) else np.zeros(0)

    def finite_values(self, column: Column) -> Float[np.ndarray, " known"]:
        """Return the finite values of the members."""
        values = self.of_members(column)
        return values[np.isfinite(values)]

    def format_last_losses(self, say: Callable[[LoggedLosses], str]) -> str:
        """Format the last log point."""
        return MISSING if self.info.losses is None else say(self.info.losses)


def open_compared_runs(paths: Sequence[Path], names: Sequence[str] | None = None) -> list[ComparedRun]:
    """Open runs for a comparison.

    **Arguments:**

    - `paths`: the folders of the runs.
    - `names`: the names of the runs; None for the names of their folders, or their paths if two folders have
        the same name.

    **Raises:** `ValueError` if there are fewer than two runs or more than colours; a run is given twice, is
    not a run, or has saved nothing yet; names are too few, too many or repeated; or the runs are of different
    tasks. `MismatchError` or `CorruptDataError` as `open_run`.
    """
    if not 2 <= len(paths) <= len(COLORS):
        raise ValueError(f"`runs` must be 2 to {len(COLORS)} folders of runs, got {len(paths)}.")
    for path in paths:
        check_path("runs", path)
        if [each.resolve() for each in paths].count(path.resolve()) > 1:
            raise ValueError(f"`runs` must be different runs, got {path} twice.")
    names = _names(paths) if names is None else names
    is_text = all(name.strip() and not has_control_characters(name) for name in names)
    if len(names) != len(paths) or len(set(names)) != len(names) or not is_text:
        raise ValueError(
            f"`names` must be {len(paths)} different names without control characters, one for each run, "
            f"got {list(names)}."
        )
    runs = [_open(*arguments) for arguments in zip(paths, names, COLORS, strict=False)]
    _check_one_task(runs)
    return runs


def _names(paths: Sequence[Path]) -> list[str]:
    names = [path.resolve().name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def _open(path: Path, name: str, color: str) -> ComparedRun:
    run, info = open_run(path), read_run_info(path)
    if not run.is_finished and not info.n_saved:
        raise ValueError(f"`runs` must have saved something to be compared: {path} has no checkpoint yet.")
    results = run.results() if run.is_finished else None
    return ComparedRun(name, run, info, results, color)


def _check_one_task(runs: Sequence[ComparedRun]) -> None:
    tasks = {each.name: type(innermost_task(each.run.task)).__name__ for each in runs}
    if len(set(tasks.values())) > 1:
        listing = ", ".join(f"{task} ({name})" for name, task in tasks.items())
        raise ValueError(f"`runs` must be of one task, as losses of others do not compare: got {listing}.")


def settings_table(runs: Sequence[ComparedRun]) -> ResultTable:
    """Return the settings that differ between runs, with one column per run."""
    run_settings = [
        {
            "experiment": str(each.info.experiment),
            "popsim": str(each.info.description.get("popsim")),
            **each.info.effective_settings,
        }
        for each in runs
    ]
    names = dict.fromkeys(name for settings in run_settings for name in settings)
    rows = [Row(name, [settings.get(name, MISSING) for settings in run_settings]) for name in names]
    return ResultTable(_columns(runs), [row for row in rows if len(set(row.values)) > 1])


def results_table(runs: Sequence[ComparedRun]) -> ResultTable:
    """Return losses and metrics with one column per run: the mean over members and the range."""
    texts: dict[str, Callable[[ComparedRun], str]] = {
        "members": lambda each: str(each.run.experiment.n_members),
        "batches": lambda each: str(each.info.n_saved),
        "training took": lambda each: each.format_last_losses(lambda losses: duration_text(losses.seconds)),
        "last training loss": lambda each: each.format_last_losses(
            lambda losses: spread_text(losses.training, ".3g")
        ),
        "last validation loss": lambda each: each.format_last_losses(
            lambda losses: spread_text(losses.validation, ".3g")
        ),
    }
    rows = [Row(name, [say(each) for each in runs]) for name, say in texts.items()]
    rows += [
        Row(
            name,
            [
                spread_text(values, f".{column.digits}f") if np.isfinite(values).any() else MISSING
                for values in values_by_run
            ],
        )
        for name, column, values_by_run in shared_metrics(runs)
    ]
    rows += [
        Row(_metric_name(column), [_count(each.finite_values(column)) for each in runs])
        for column in _all_columns(runs, numeric=False)  # of yes and no, leaving out those of text
        if any(each.finite_values(column).size for each in runs)
    ]
    rows += _limits(runs)
    caption = "Mean over members (lowest to highest member)"
    return ResultTable(_columns(runs), rows, caption)


def shared_metrics(runs: Sequence[ComparedRun]) -> list[tuple[str, Column, list[Float[np.ndarray, " _"]]]]:
    """Return the metrics: the name, the column, and the values of the members of each run.

    A run that is not finished, or whose experiment lacks the column, has no values.
    """
    rows = []
    for column in _all_columns(runs, numeric=True):
        values = [each.of_members(column) for each in runs]
        if any(array.size for array in values):
            rows.append((_metric_name(column), column, values))
    return rows


def paired_results(runs: Sequence[ComparedRun]) -> ResultTable | None:
    """Return the changes of losses and metrics from the first run to the others, over members that pair."""
    values = {
        f"last {kind} loss": [
            np.zeros(0) if each.info.losses is None else np.asarray(getattr(each.info.losses, kind))
            for each in runs
        ]
        for kind in ("training", "validation")
    }
    values |= {name: numbers for name, _, numbers in shared_metrics(runs)}
    return paired_table([each.name for each in runs], [each.run.experiment for each in runs], values)


def _columns(runs: Sequence[ComparedRun]) -> list[Column]:
    return [Column(each.name) for each in runs]


def _all_columns(runs: Sequence[ComparedRun], *, numeric: bool) -> list[Column]:
    """Return the distinct columns of all results that are numeric, or those that are not."""
    columns: dict[Column, None] = {}
    for each in runs:
        if each.results is None:
            continue
        for index, column in enumerate(each.results.columns):
            if is_numeric([row.values[index] for row in each.results.rows]) == numeric:
                columns[column] = None
    return list(columns)


def _metric_name(column: Column) -> str:
    return f"{column.title}, {column.heading}" if column.heading else column.title


def _limits(runs: Sequence[ComparedRun]) -> list[Row]:
    """Return the limits on metrics that differ between runs."""
    rows = []
    for name, column, _ in shared_metrics(runs):
        limits = [_limit(each, column) for each in runs]
        if len(set(limits)) > 1:
            rows.append(Row(f"limit: {name}", limits))
    return rows


def _limit(each: ComparedRun, column: Column) -> str:
    if each.results is None or not each.has_column(column):
        return MISSING
    place = list(each.results.columns).index(column)
    bounds = [row.values[place] for row in each.results.rows if row.label == LIMITS]
    return entry_text(bounds[0], column) if bounds else MISSING


def _count(values: Float[np.ndarray, " known"]) -> str:
    """Count the members for which it is true, such as "4 of 5"."""
    return f"{values.sum():.0f} of {values.size}" if values.size else MISSING


REPLICATION = "The unit of replication is the member."


def draw_comparison(runs: Sequence[ComparedRun]) -> dict[str, RunFigure | FailedDrawing]:
    """Draw learning curves, metrics and, for reaches, speed profiles, with one colour per run."""
    draws: dict[str, Callable[[], RunFigure | None]] = {
        "training_loss": lambda: _losses(runs, "loss", "total_loss", "batch", "training"),
        "validation_loss": lambda: _losses(
            runs, "validation_loss", "total_validation_loss", "validation_batch", "validation"
        ),
        "metrics": lambda: _draw_metrics(runs),
        "speed_profiles": lambda: _speeds(runs),
    }
    with figure_style():
        figures = {name: try_to_draw(figure_name(name), draw, passes=DAMAGE) for name, draw in draws.items()}
    return {name: figure for name, figure in figures.items() if figure is not None}


def _members(runs: Sequence[ComparedRun]) -> str:
    return ", ".join(f"{each.name}: {each.run.experiment.n_members}" for each in runs)


def _losses(runs: Sequence[ComparedRun], loss: str, total: str, batch: str, kind: str) -> RunFigure | None:
    figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
    for each in runs:
        history = each.run.history
        if loss not in history.dataset:
            continue
        values = getattr(history, total).values
        if np.isfinite(values).all(axis=0).any():
            draw_loss_bands(ax, history[batch].values, values, label=each.short_name, color=each.color)
    if not ax.lines:
        plt.close(figure)
        return None
    ax.set(ylabel=f"{kind} loss")
    ax.legend()
    caption = (
        f"Total {kind} loss: lines are the geometric mean over members ({_members(runs)}), bands go from the "
        "lowest to the highest member at each batch; members whose loss was not finite are left out. "
        f"{REPLICATION}"
    )
    return RunFigure(figure, f"Loss in {kind}", caption)


def _metric_scale(values: Sequence[Float[np.ndarray, " _"]]) -> Literal["linear", "log"]:
    """Return "log" for positive values over a wide range; over a narrow one hardly a tick has a label."""
    finite = np.concatenate([numbers[np.isfinite(numbers)] for numbers in values])
    is_wide = finite.size > 0 and finite.min() > 0 and finite.max() > WIDE * finite.min()
    return "log" if is_wide else "linear"


def _draw_metrics(runs: Sequence[ComparedRun]) -> RunFigure | None:
    if not (rows := shared_metrics(runs)):
        return None
    size = (3.4, 0.3 + len(rows) * (0.5 + 0.25 * len(runs)))
    figure, axes = plt.subplots(len(rows), 1, figsize=size, layout="constrained", squeeze=False)
    for ax, (name, _, values) in zip(axes[:, 0], rows, strict=True):
        names = [each.short_name for each in runs]
        draw_member_values(ax, values, names=names, label=name, scale=_metric_scale(values))
    caption = (
        f"A point for each member ({_members(runs)}), a bar at their mean, on a logarithmic axis the "
        f"geometric mean; each number is over the trials that the table names. {REPLICATION}"
    )
    return RunFigure(figure, "Metrics", caption)


def _speeds(runs: Sequence[ComparedRun]) -> RunFigure | None:
    """Draw the speed profiles of reaching runs; None unless all runs reach."""
    if not all(_reaches(each) for each in runs):
        return None
    figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
    n_trials = [_draw_speed(ax, each) for each in runs]
    ax.legend()
    n_text = str(n_trials[0]) if len(set(n_trials)) == 1 else " or ".join(map(str, sorted(set(n_trials))))
    caption = (
        f"Speed of the hand in {n_text} validation trials, noise off: lines are the mean over members "
        f"({_members(runs)}), each with its mean over trials; bands go from the slowest to the fastest "
        f"member at each time. {REPLICATION}"
    )
    return RunFigure(figure, "Speed profiles", caption)


def _reaches(each: ComparedRun) -> bool:
    has_hand = isinstance(each.run.task.validation_trials().targets, HandState)
    return has_hand and isinstance(each.run.ensemble, SensorimotorLoop)


def _draw_speed(ax: Axes, each: ComparedRun) -> int:
    """Draw the speed profile of a run and return its number of trials."""
    states = each.run.evaluate(without_noise(each.run.ensemble)).states
    speed = np.asarray(hand_speed(states.hand))
    dt = each.run.task.validation_trials().timeline.dt
    draw_mean_speed(ax, speed, dt=float(np.ravel(dt)[0]), label=each.short_name, color=each.color)
    return speed.shape[1]


def compare_runs(
    paths: Sequence[Path], out: str | Path, *, names: Sequence[str] | None = None
) -> WrittenReport:
    """Draw runs of one task together, and write comparison.html.

    Unfinished runs are included with their losses so far, and without metrics.

    **Arguments:**

    - `paths`: the folders of the runs, which are only read.
    - `out`: the folder for comparison.html and figures/.
    - `names`: the names of the runs; None for the names of their folders.

    **Raises:** `ValueError` if the runs cannot be compared, see `open_compared_runs`, or `out` holds
    something else; `SaveError` if something cannot be written.
    """
    out = as_path("out", out)
    check_report_folder(out, COMPARISON)
    runs = open_compared_runs(paths, names)
    settings, results, paired = settings_table(runs), results_table(runs), paired_results(runs)
    make_report_folder(out)
    figures, shown = save_and_embed(draw_comparison(runs), out / "figures")
    folders = {each.name: f"{each.run.folder.path}: {each.state}" for each in runs}
    sections = {
        "Runs": [named_values("Runs", folders), *_notes(runs)],
        "Settings that differ": [
            table(settings, "Settings that differ") if settings.rows else element("p", "None.")
        ],
        "Results": [table(results, "Results")],
    }
    if paired is not None:
        sections["Paired by seed"] = [table(paired, "Paired by seed")]
    sections["Figures"] = figure_grid(shown)
    page = out / COMPARISON
    n_bytes = write_page(page, f"Comparison of {len(runs)} runs", [], sections)
    lines = [str(settings)] if settings.rows else ["all settings are the same"]
    lines += ["", str(results), *([] if paired is None else ["", str(paired)])]
    lines += [f"{each.name}: {each.state}" for each in runs if not each.run.is_finished]
    return WrittenReport(page, n_bytes, figures, "\n".join(lines))


def _notes(runs: Sequence[ComparedRun]) -> list[Html]:
    return [
        note(f"{each.name} is {each.state}; all else is of its last checkpoint.")
        for each in runs
        if not each.run.is_finished
    ]
