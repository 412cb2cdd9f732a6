"""Elements and pages of HTML."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from string import Template

from popsim._shared.html import Html, element, escape
from popsim.experiments.results import ResultTable, entry_text, is_numeric
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
    """Return a table of results, with a line above each ensemble; `name` is its label for screen readers."""
    if not results.rows:
        return element("p", "None.")
    has_members, rows = results.has_members, list[Html]()
    is_number = [is_numeric(values) for values in zip(*(row.values for row in results.rows), strict=True)]
    looks = [{"class": "number"} if numeric else {} for numeric in [True] * has_members + is_number]
    for above, row in zip([None, *results.rows], results.rows, strict=False):
        texts = [entry_text(value, column) for value, column in zip(row.values, results.columns, strict=True)]
        texts = ["" if row.member is None else str(row.member)] * has_members + texts
        cells = [element("td", text, attributes=look) for text, look in zip(texts, looks, strict=True)]
        label = element("th", row.label, attributes={"scope": "row"})
        begins = has_members and (above is None or above.label != row.label)
        rows.append(element("tr", label, *cells, attributes={"class": "first"} if begins else {}))
    caption = [element("caption", results.caption)] if results.caption else []
    content = [*caption, element("thead", *_head(results)), element("tbody", *rows)]
    return scroll_box(name, element("table", *content, attributes={"class": "results"}))


def _head(results: ResultTable) -> list[Html]:
    """Return the headings above several columns, if there are any, and those of each column."""
    label_titles = ["", "member"] if results.has_members else [""]
    titles = [*label_titles, *(column.title for column in results.columns)]
    lines = [element("tr", *map(_heading, titles))]
    if spans := results.spans():
        above = [element("td", attributes={"colspan": str(len(label_titles))})]
        above += [_heading(heading, "colgroup", colspan=str(n_columns)) for heading, n_columns in spans]
        lines.insert(0, element("tr", *above))
    return lines


def _heading(title: str, scope: str = "col", **attributes: str) -> Html:
    if not title:
        return element("td", attributes=attributes)
    return element("th", title, attributes={"scope": scope, **attributes})


def side_by_side(*groups: Sequence[Html]) -> Html:
    """Return groups of elements as columns, below one another on narrow pages."""
    return element("div", *(element("div", *group) for group in groups), attributes={"class": "columns"})


POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {hashes}"
CHARTS = ("charts/vega.min.js", "explorer.js")
"""The scripts of charts that follow a choice: the library, and what draws with it."""
GENERATOR = '<meta name="generator" content="popsim '


def page_html(
    title: str, introduction: Sequence[Html], sections: Mapping[str, Sequence[Html]], scripts: Sequence[str]
) -> str:
    """Return a page with sections by their headings.

    The browser runs only scripts whose digests the policy of the page has.
    """
    codes = [_read_asset(name) for name in ("page.js", *scripts)]
    links, body = [], list[Html]()
    for number, (heading, content) in enumerate(sections.items(), 1):
        links.append(element("li", element("a", heading, attributes={"href": f"#section-{number}"})))
        anchor = {"id": f"section-{number}"}
        body.append(element("section", element("h2", heading), *content, attributes=anchor))
    contents = element("nav", element("ol", *links), attributes={"aria-label": "Contents"})
    start = [element("h1", title), *introduction, *([contents] if len(links) > 1 else [])]
    return Template(_read_asset("page.html")).substitute(
        policy=POLICY.format(hashes=" ".join(map(_script_hash, codes))),
        generator=GENERATOR,
        version=escape(__version__),
        title=escape(title),
        body="\n".join([*start, *body]),
        scripts="\n".join(f"<script>{code}</script>" for code in codes),
    )


def _read_asset(name: str) -> str:
    return resources.files("popsim.report").joinpath(name).read_text("utf-8")


def _script_hash(code: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode('ascii')}'"


def is_page(path: Path) -> bool:
    """Whether a file is a page written by popsim."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return GENERATOR.encode() in file.read(2000)
