"""The table of a sweep: a row for each member, with its settings and results."""

import csv
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from popsim._shared.text_checks import as_cell
from popsim.sweeps.cells import FIRST_BATCHES, LOSSES, CellNote

__all__ = ["is_summary", "metric_columns", "summary_csv", "summary_table"]

METRIC = "result_"  # before the names of metrics
_AFTER_AXES = ["seed", "cell", "place", "state", "batches", *FIRST_BATCHES, *LOSSES]
_LONGEST_HEADER = 2**20


def summary_table(
    labels: Mapping[str, np.ndarray],
    notes: Sequence[CellNote],
    of_members: Callable[[Sequence[Sequence[float] | None]], np.ndarray],
) -> Any:
    """Return the table of `OpenedSweep.summary`.

    **Arguments:**

    - `labels`: the first columns: settings, seed, cell and place of each member.
    - `notes`: what is known of the cells.
    - `of_members`: returns the numbers of the members from those of each cell.
    """
    import pandas

    columns: dict[str, Any] = {}
    for name, values in labels.items():
        columns[name] = pandas.Series(list(values), dtype=object) if values.dtype == object else values
    cell = labels["cell"]
    columns["state"] = np.array([note.state for note in notes])[cell]
    columns["batches"] = np.array([note.n_batches for note in notes])[cell]
    for name in (*FIRST_BATCHES, *LOSSES):
        columns[name] = of_members([note.members.get(name) for note in notes])
    titles = metric_columns(sorted({title for note in notes for title in note.metrics}))
    for column, title in titles.items():
        columns[column] = of_members([note.metrics.get(title) for note in notes])
    table = pandas.DataFrame(columns).rename_axis("member")
    table.attrs["titles"] = titles
    return table


def metric_columns(titles: Iterable[str]) -> dict[str, str]:
    """Return the titles of metrics by column: an identifier that `pandas.DataFrame.query` takes.

    "error (mm), noise on, mean" has the column "result_error_mm_noise_on_mean"; where two become the same,
    the second ends with "_2".
    """
    columns: dict[str, str] = {}
    for title in titles:
        words = title.replace("/", " per ").replace("%", " percent ")
        name = base = METRIC + re.sub(r"\W+", "_", words, flags=re.ASCII).strip("_")
        number = 2
        while name in columns:
            name, number = f"{base}_{number}", number + 1
        columns[name] = title
    return columns


def summary_csv(table: Any) -> str:
    """Return a table of `OpenedSweep.summary` as CSV, in which no text of a setting is a formula."""
    texts = table.select_dtypes(exclude="number")
    return table.assign(**{name: texts[name].map(as_cell) for name in texts}).to_csv()


def is_summary(path: Path) -> bool:
    """Whether a file begins with the columns of `OpenedSweep.summary` and no others, as CSV."""
    try:
        with path.open("rb") as file:
            columns = next(csv.reader([file.readline(_LONGEST_HEADER).decode()]), [])
    except (OSError, ValueError):
        return False
    end = columns.index("seed") + len(_AFTER_AXES) if "seed" in columns else 0
    is_known = columns[:1] == ["member"] and columns[end - len(_AFTER_AXES) : end] == _AFTER_AXES
    return is_known and all(name.startswith(METRIC) for name in columns[end:])
