"""What comes out of a run: tables of results, with units, and figures with titles and captions."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from popsim._shared.text_checks import align, column_widths

__all__ = ["Column", "Row", "ResultTable", "RunFigure"]

Entry = str | float | bool | None
"""A value of a table: None for a number that is missing or not finite, "" for an empty cell."""

LIMITS = "limits"  # the label of the row with those for the values of members


@dataclasses.dataclass(frozen=True)
class RunFigure:
    """A figure with its title and caption in a report.

    - `figure`: a matplotlib figure.
    - `title`: a short title.
    - `caption`: what is drawn, the number of members and trials, and what is averaged over: the unit of
        replication.
    - `repeats`: whether it only repeats other figures, such as an overview; reports leave it out.
    """

    figure: Any
    title: str
    caption: str
    repeats: bool = False


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of a `ResultTable`.

    - `name`: the quantity.
    - `unit`: its unit, such as "mm"; empty for none.
    - `heading`: a heading shared with neighbouring columns; empty for none.
    - `digits`: the number of decimals.
    - `width`: the minimum width as text, in characters.
    """

    name: str
    unit: str = ""
    heading: str = ""
    digits: int = 2
    width: int = 12

    @property
    def title(self) -> str:
        """The name with the unit, such as "error (mm)"."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a `ResultTable`.

    - `label`: the subject, such as "trained", "control: untrained", or "limits".
    - `values`: one per column.
    - `member`: the index of the member; None for a row that is not about one member.
    """

    label: str
    values: Sequence[Entry]
    member: int | None = None


@dataclasses.dataclass(frozen=True)
class ResultTable:
    """A table of results; `str` formats it as text.

    - `columns`: the columns to the right of the labels and member numbers.
    - `rows`: the rows from top to bottom. Rows about the trained ensemble come first: `popsim compare` uses
        the rows of members that have the first label.
    - `caption`: the subject of the table; empty for none.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    caption: str = ""

    def __post_init__(self):
        for row in self.rows:
            if len(row.values) != len(self.columns):
                raise ValueError(
                    f"`rows` must have {len(self.columns)} values each, got {len(row.values)} in {row}."
                )

    @property
    def has_members(self) -> bool:
        """Whether a row is about one member."""
        return any(row.member is not None for row in self.rows)

    def of_members(self, column: Column) -> Float[np.ndarray, " member"]:
        """Return the numbers of a column for the members of the first ensemble; NaN where one is missing."""
        place = list(self.columns).index(column)
        members = [row for row in self.rows if row.member is not None]
        values = [row.values[place] for row in members if row.label == members[0].label]
        return np.array([np.nan if isinstance(value, str | None) else value for value in values], np.float64)

    def with_labels(self, labels: Mapping[str, Sequence[str]]) -> "ResultTable":
        """Return the table with columns that say more of each member, before the others.

        Rows that are not about one member have nothing there.

        **Arguments:**

        - `labels`: the title of each column, and its text for each member.
        """

        rows = []
        for row in self.rows:
            own = ["" if row.member is None else texts[row.member] for texts in labels.values()]
            rows.append(dataclasses.replace(row, values=[*own, *row.values]))
        return dataclasses.replace(self, columns=[*map(Column, labels), *self.columns], rows=rows)

    def __repr__(self) -> str:
        """Format the table as text, without member numbers if there are none."""
        columns = [["", *(row.label for row in self.rows)]]
        if self.has_members:
            numbers = ("" if row.member is None else str(row.member) for row in self.rows)
            columns.append(["member", *numbers])
        place = len(columns)
        sides, at_least = "<>"[:place], [19, 7][:place]
        for i, column in enumerate(self.columns):
            values = [row.values[i] for row in self.rows]
            numeric = is_numeric(values)
            sides, at_least = sides + "<>"[numeric], [*at_least, column.width * numeric]
            texts = [column.title, *(entry_text(value, column) for value in values)]
            columns.append([f"{' ' if numeric else '  '}{text}" for text in texts])
        rows = list(zip(*columns, strict=True))
        widths = column_widths(rows, at_least)
        line = " " * sum(widths[:place])
        for heading, n_columns in self.spans():
            line += f"{heading:>{sum(widths[place : place + n_columns])}}"
            place += n_columns
        above = [text for text in (self.caption, line.rstrip()) if text]
        return "\n".join([*above, *align(rows, at_least=widths, sides=sides, gap=0)])

    def spans(self) -> list[tuple[str, int]]:
        """Return the headings from left to right, with the number of columns below each; empty if none."""
        grouped = itertools.groupby(self.columns, lambda column: column.heading)
        spans = [(heading, len([*columns])) for heading, columns in grouped]
        return spans if any(heading for heading, _ in spans) else []


def member_rows(summary: Mapping[str, Any], values: Callable[[Any], Sequence[Entry]]) -> list[Row]:
    """Return a row for each member of the `ensembles` of a summary, with the values of what it says of it."""
    return [
        Row(name, values(row), row["member"]) for name, rows in summary["ensembles"].items() for row in rows
    ]


def entry_text(value: Entry, column: Column) -> str:
    """Format a value: "-" for a missing number, "yes" or "no", and text unchanged."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else f"{value:.{column.digits}f}"


def is_numeric(values: Sequence[Entry]) -> bool:
    """Whether a column holds numbers, and is aligned to the right."""
    return all(value == "" or not isinstance(value, str | bool) for value in values)
