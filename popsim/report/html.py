"""Pieces of HTML. Whatever is not HTML already is text, and is escaped."""

import html
from collections.abc import Mapping

from popsim.experiments.result_table import ResultTable, Row, cell_text, is_numeric


class Html(str):
    """HTML; a plain `str` beside it is text."""


def escaped(text: str) -> Html:
    """Text as HTML, `Html` as it is.

    What no eye sees, such as control characters and half characters of a broken file name, becomes "?".
    """
    if isinstance(text, Html):
        return text
    return Html(html.escape("".join(mark if mark.isprintable() or mark == "\n" else "?" for mark in text)))


def element(name: str, *inside: str, attributes: Mapping[str, str] | None = None) -> Html:
    """An element of HTML.

    **Arguments:**

    - `name`: such as "p".
    - `inside`: what it holds, text or `Html`.
    - `attributes`: by name, as text.
    """
    given = "".join(f' {key}="{escaped(value)}"' for key, value in (attributes or {}).items())
    return Html(f"<{name}{given}>{''.join(map(escaped, inside))}</{name}>")


def wide(name: str, inside: Html) -> Html:
    """A box that scrolls sideways by itself where a page is too narrow; `name` is what is read out."""
    return element(
        "div", inside, attributes={"class": "wide", "role": "region", "aria-label": name, "tabindex": "0"}
    )


def named_values(name: str, values: Mapping[str, str]) -> Html:
    """A table of two columns.

    **Arguments:**

    - `name`: what the table is, read out and not seen.
    - `values`: by name, text or `Html`.
    """
    rows = [
        element("tr", element("th", key, attributes={"scope": "row"}), element("td", value))
        for key, value in values.items()
    ]
    return wide(name, element("table", element("tbody", *rows), attributes={"class": "named"}))


def table(results: ResultTable, name: str) -> Html:
    """A table of results.

    **Arguments:**

    - `results`: the table.
    - `name`: what it is, read out and not seen.
    """
    caption = [element("caption", results.caption)] if results.caption else []
    labels = [row.label for row in results.rows]
    begins = [
        results.has_members and label != before for label, before in zip(labels, ["", *labels], strict=False)
    ]
    rows = [_row(results, row, first) for row, first in zip(results.rows, begins, strict=True)]
    whole = [*caption, element("thead", *_head(results)), element("tbody", *rows)]
    return wide(name, element("table", *whole, attributes={"class": "results"}))


def _head(results: ResultTable) -> list[Html]:
    """The headings above several columns, if there are any, and those of each column."""
    left = ["", "member"] if results.has_members else [""]
    titles = [*left, *(column.title for column in results.columns)]
    lines = [element("tr", *(_heading(title) for title in titles))]
    if spans := results.spans():
        above = [Html(f'<td colspan="{len(left)}"></td>')]
        above += [_heading(heading, "colgroup", colspan=str(n_columns)) for heading, n_columns in spans]
        lines.insert(0, element("tr", *above))
    return lines


def _heading(title: str, scope: str = "col", **attributes: str) -> Html:
    """A heading; a cell without a heading is no heading."""
    if not title:
        return element("td", attributes=attributes)
    return element("th", title, attributes={"scope": scope, **attributes})


def _row(results: ResultTable, row: Row, first: bool) -> Html:
    """A row, with a line above the first one of an ensemble."""
    cells = [element("th", row.label, attributes={"scope": "row"})]
    if results.has_members:
        cells.append(element("td", "" if row.member is None else str(row.member), attributes=_look(True)))
    for index, (column, value) in enumerate(zip(results.columns, row.values, strict=True)):
        numeric = is_numeric([other.values[index] for other in results.rows])
        cells.append(element("td", cell_text(value, column), attributes=_look(numeric)))
    return element("tr", *cells, attributes={"class": "first"} if first else {})


def _look(numeric: bool) -> dict[str, str]:
    return {"class": "number"} if numeric else {}


def figure(source: Html, *, alt: str, title: str, caption: str) -> Html:
    """A picture with its title and caption.

    **Arguments:**

    - `source`: the element that shows it.
    - `alt`: what it shows, for the box that it scrolls in.
    - `title`, `caption`: what is said above and below.
    """
    return element("figure", element("h3", title), wide(alt, source), element("figcaption", caption))
