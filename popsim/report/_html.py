"""Elements and pages of HTML."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from string import Template

from popsim._shared.html import Html, element, escape
from popsim.experiments.results import ResultTable, Row, entry_text, is_numeric
from popsim.store.files import write_file
from popsim.version import __version__


def note(text: str) -> Html:
    """Return a paragraph that stands out, on what the reader should know of the rest."""
    return element("p", text, attributes={"class": "note"})


def scroll_box(name: str, inside: Html) -> Html:
    """Return a box that scrolls sideways on narrow pages; `name` is its label for screen readers."""
    look = {"class": "wide", "role": "region", "aria-label": name, "tabindex": "0"}
    return element("div", inside, attributes=look)


def code_box(code: str) -> Html:
    """Return lines of Python."""
    return scroll_box("Python code", element("pre", element("code", code)))


def named_values(name: str, values: Mapping[str, str]) -> Html:
    """Return a table of names and values, text or `Html`; `name` is its label for screen readers."""
    rows = [
        element("tr", element("th", key, attributes={"scope": "row"}), element("td", value))
        for key, value in values.items()
    ]
    return scroll_box(name, element("table", element("tbody", *rows), attributes={"class": "named"}))


def table(results: ResultTable, name: str) -> Html:
    """Return a table of results; `name` is its label for screen readers."""
    caption = [element("caption", results.caption)] if results.caption else []
    numeric = [is_numeric(values) for values in zip(*(row.values for row in results.rows), strict=True)]
    labels = ["", *(row.label for row in results.rows)]
    rows = [
        _row(results, row, numeric, is_first=results.has_members and row.label != before)
        for row, before in zip(results.rows, labels, strict=False)
    ]
    content = [*caption, element("thead", *_head(results)), element("tbody", *rows)]
    return scroll_box(name, element("table", *content, attributes={"class": "results"}))


def _head(results: ResultTable) -> list[Html]:
    """Return the headings above several columns, if there are any, and those of each column."""
    label_titles = ["", "member"] if results.has_members else [""]
    titles = [*label_titles, *(column.title for column in results.columns)]
    lines = [element("tr", *(_heading(title) for title in titles))]
    if spans := results.spans():
        above = [Html(f'<td colspan="{len(label_titles)}"></td>')]
        above += [_heading(heading, "colgroup", colspan=str(n_columns)) for heading, n_columns in spans]
        lines.insert(0, element("tr", *above))
    return lines


def _heading(title: str, scope: str = "col", **attributes: str) -> Html:
    if not title:
        return element("td", attributes=attributes)
    return element("th", title, attributes={"scope": scope, **attributes})


def _row(results: ResultTable, row: Row, numeric: Sequence[bool], *, is_first: bool) -> Html:
    """Return a row, with a line above it if it is the first of an ensemble."""
    entries = [(entry_text(value, column)) for value, column in zip(row.values, results.columns, strict=True)]
    if results.has_members:
        entries, numeric = ["" if row.member is None else str(row.member), *entries], [True, *numeric]
    cells = [
        element("td", entry, attributes={"class": "number"} if is_number else {})
        for entry, is_number in zip(entries, numeric, strict=True)
    ]
    label = element("th", row.label, attributes={"scope": "row"})
    return element("tr", label, *cells, attributes={"class": "first"} if is_first else {})


def side_by_side(*groups: Sequence[Html]) -> Html:
    """Return groups of elements as columns, below one another on narrow pages."""
    return element("div", *(element("div", *group) for group in groups), attributes={"class": "columns"})


POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {hashes}"
CHARTS = ("charts/vega.min.js", "explorer.js")
"""The scripts of charts that follow a choice: the library, and what draws with it."""
GENERATOR = '<meta name="generator" content="popsim '


def write_page(
    path: Path,
    title: str,
    introduction: Sequence[Html],
    sections: Mapping[str, Sequence[Html]],
    *,
    scripts: Sequence[str] = (),
) -> int:
    """Write a page atomically, with sections by their headings, and return its size in bytes.

    The browser runs only scripts whose digests the policy of the page has.
    """
    codes = [_read_asset(name) for name in ("page.js", *scripts)]
    body = [element("h1", title), *introduction, *_contents(list(sections))]
    for number, (heading, content) in enumerate(sections.items(), 1):
        anchor = {"id": f"section-{number}"}
        body.append(element("section", element("h2", heading), *content, attributes=anchor))
    page = Template(_read_asset("page.html")).substitute(
        policy=POLICY.format(hashes=" ".join(map(_script_hash, codes))),
        generator=GENERATOR,
        version=escape(__version__),
        title=escape(title),
        body="\n".join(body),
        scripts="\n".join(f"<script>{code}</script>" for code in codes),
    )
    content = page.encode()
    write_file(path, [content])
    return len(content)


def _read_asset(name: str) -> str:
    return resources.files("popsim.report").joinpath(name).read_text("utf-8")


def _script_hash(code: str) -> str:
    """Return the digest of a script as a source in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode('ascii')}'"


def _contents(headings: Sequence[str]) -> list[Html]:
    """Return the list of contents, if there is more than one section."""
    links = [
        element("li", element("a", heading, attributes={"href": f"#section-{number}"}))
        for number, heading in enumerate(headings, 1)
    ]
    contents = element("nav", element("ol", *links), attributes={"aria-label": "Contents"})
    return [contents] if len(links) > 1 else []


def is_page(path: Path) -> bool:
    """Whether a file is a page written by popsim."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return GENERATOR.encode() in file.read(2000)
