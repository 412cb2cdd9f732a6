"""What differs between runs, and what came out of each, side by side."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from popsim.experiments.log_summary import LoggedLosses
from popsim.experiments.result_table import LIMITS, Column, ResultTable, Row, cell_text, is_numeric
from popsim.report.compared_runs import ComparedRun
from popsim.report.duration_text import duration_text

MISSING = "-"


def settings_table(runs: Sequence[ComparedRun]) -> ResultTable:
    """The settings that are not the same for all runs, a column for each run."""
    given = [
        {
            "experiment": str(each.info.experiment),
            "popsim": str(each.info.description.get("popsim")),
            **each.info.in_force,
        }
        for each in runs
    ]
    names = dict.fromkeys(name for settings in given for name in settings)
    rows = [Row(name, [settings.get(name, MISSING) for settings in given]) for name in names]
    return ResultTable(_columns(runs), [row for row in rows if len(set(row.values)) > 1])


def results_table(runs: Sequence[ComparedRun]) -> ResultTable:
    """Losses and figures of merit, a column for each run: the mean over members, and their range."""
    rows = [
        Row("members", [str(each.run.experiment.n_members) for each in runs]),
        Row("batches", [str(each.info.n_saved) for each in runs]),
        Row(
            "training took", [_of_losses(each, lambda losses: duration_text(losses.seconds)) for each in runs]
        ),
        Row(
            "last training loss",
            [_of_losses(each, lambda losses: spread_text(losses.training)) for each in runs],
        ),
        Row(
            "last validation loss",
            [_of_losses(each, lambda losses: spread_text(losses.validation)) for each in runs],
        ),
    ]
    rows += [
        Row(name, [spread_text(values, digits=column.digits) for values in own])
        for name, column, own in merits(runs)
    ]
    rows += [Row(name, [_count(each, column) for each in runs]) for name, column in _verdicts(runs)]
    rows += _limits(runs)
    caption = "Mean over members (lowest to highest member)"
    return ResultTable(_columns(runs), rows, caption)


def merits(runs: Sequence[ComparedRun]) -> list[tuple[str, Column, list[Float[np.ndarray, " member"]]]]:
    """The figures of merit: what each is, its column, and for each run the numbers of its members.

    A run that is not finished, or of an experiment without this column, has none.
    """
    found = []
    for column in _all_columns(runs, numeric=True):
        values = [_of_members(each, column) for each in runs]
        if any(own.size for own in values):
            found.append((_merit_name(column), column, values))
    return found


def spread_text(values: Float[np.ndarray, " member"], *, digits: int | None = None) -> str:
    """The mean of the numbers that are finite, and their range.

    **Arguments:**

    - `values`: one for each member.
    - `digits`: after the point; None for three digits that count.
    """
    finite = values[np.isfinite(values)]
    if not finite.size:
        return MISSING
    mean, low, high = (
        f"{number:.3g}" if digits is None else f"{number:.{digits}f}"
        for number in (finite.mean(), finite.min(), finite.max())
    )
    lost = values.size - finite.size
    said = mean if values.size == 1 else f"{mean} ({low} to {high})"
    return f"{said}, {lost} not finite" if lost else said


def _columns(runs: Sequence[ComparedRun]) -> list[Column]:
    return [Column(each.name) for each in runs]


def _of_losses(each: ComparedRun, say: Callable[[LoggedLosses], str]) -> str:
    """What is said of the last logging point."""
    return MISSING if each.info.losses is None else say(each.info.losses)


def _all_columns(runs: Sequence[ComparedRun], *, numeric: bool) -> list[Column]:
    """The columns of all results, each once, that hold numbers, or those that hold something else."""
    found: dict[Column, None] = {}
    for each in runs:
        if each.results is None:
            continue
        for index, column in enumerate(each.results.columns):
            if is_numeric([row.values[index] for row in each.results.rows]) == numeric:
                found[column] = None
    return list(found)


def _merit_name(column: Column) -> str:
    return f"{column.title}, {column.heading}" if column.heading else column.title


def _of_members(each: ComparedRun, column: Column) -> Float[np.ndarray, " member"]:
    if each.results is None or column not in each.results.columns:
        return np.zeros(0)
    return each.results.of_members(column)


def _verdicts(runs: Sequence[ComparedRun]) -> list[tuple[str, Column]]:
    """Columns of yes and no; those of text are left out."""
    columns = _all_columns(runs, numeric=False)
    return [
        (_merit_name(column), column) for column in columns if any(_known(each, column).size for each in runs)
    ]


def _limits(runs: Sequence[ComparedRun]) -> list[Row]:
    """What the figures of merit were held to, where that is not the same for all runs."""
    rows = []
    for name, column, _ in merits(runs):
        limits = [_limit(each, column) for each in runs]
        if len(set(limits)) > 1:
            rows.append(Row(f"limit: {name}", limits))
    return rows


def _limit(each: ComparedRun, column: Column) -> str:
    if each.results is None or column not in each.results.columns:
        return MISSING
    place = list(each.results.columns).index(column)
    found = [row.values[place] for row in each.results.rows if row.label == LIMITS]
    return cell_text(found[0], column) if found else MISSING


def _known(each: ComparedRun, column: Column) -> Float[np.ndarray, " known"]:
    values = _of_members(each, column)
    return values[np.isfinite(values)]


def _count(each: ComparedRun, column: Column) -> str:
    """Of how many members it is true, such as "4 of 5", of those of whom it is known."""
    values = _known(each, column)
    return f"{values.sum():.0f} of {values.size}" if values.size else MISSING
