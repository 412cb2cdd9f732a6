"""Elements of HTML: of reports, and of what objects show as the result of a cell of a notebook.

What is shown in a notebook has no colours and no classes of its own: it inherits those of a light or a dark
theme. Cells of tables are aligned one by one, because JupyterLab aligns each to the right.
"""

import html
from collections.abc import Callable, Mapping, Sequence

from popsim._text_checks import one_line, printable, shorten

LEFT = {"style": "text-align:left"}
LAST = {"style": "text-align:left;overflow-wrap:anywhere"}  # the last column gives way where it is narrow
MOST_LETTERS = 300


class Html(str):
    """HTML, as opposed to plain text in a `str`."""


def escape(text: str) -> Html:
    """Escape text as HTML; `Html` is returned unchanged.

    Unprintable characters, such as control characters and lone surrogates of a broken file name, become "?".
    """
    if isinstance(text, Html):
        return text
    return Html(html.escape("\n".join(map(printable, text.split("\n")))))


def prose(text: str) -> Html:
    """Escape a line of a docstring as HTML, with code where it has it in backticks."""
    parts = text.split("`")
    return Html(
        "".join(element("code", part) if index % 2 else escape(part) for index, part in enumerate(parts))
    )


def element(name: str, *inside: str, attributes: Mapping[str, str] | None = None) -> Html:
    """Return an HTML element.

    **Arguments:**

    - `name`: the tag, such as "p".
    - `inside`: the content, text or `Html`.
    - `attributes`: the attributes by name, as text.
    """
    attribute_text = "".join(f' {key}="{escape(value)}"' for key, value in (attributes or {}).items())
    return Html(f"<{name}{attribute_text}>{''.join(map(escape, inside))}</{name}>")


def plain_table(rows: Sequence[Sequence[str]], *, head: Sequence[str] = ()) -> Html:
    """Return a table without a style; the first cell of each row is its heading.

    **Arguments:**

    - `rows`: the cells of each row, text or `Html`.
    - `head`: the titles of the columns; none by default.
    """
    lines = []
    if head:
        titles = [element("th", title, attributes=LEFT | {"scope": "col"}) for title in head]
        lines.append(element("thead", element("tr", *titles)))
    body = []
    for first, *others in rows:
        looks = [*[LEFT] * (len(others) - 1), LAST]
        cells = [element("td", cell, attributes=look) for cell, look in zip(others, looks, strict=False)]
        body.append(element("tr", element("th", first, attributes=LEFT | {"scope": "row"}), *cells))
    return element("table", *lines, element("tbody", *body))


def shown_object(title: str, summary: str, *parts: str) -> Html:
    """Return what a notebook shows of an object: its title, a line about it, and parts below."""
    heading = [element("strong", title), *([": ", summary] if summary else [])]
    return element("div", element("div", *heading), *parts, attributes={"style": "overflow-x:auto"})


def show_or_print(show: Callable[[], Html], value: object) -> Html:
    """Return what `show` makes of an object, or the text of the object where it fails.

    An object is shown whatever it holds: arrays that JAX traces, a task that raises an error.
    """
    try:
        return show()
    except Exception as error:
        try:
            text = repr(value)
        except Exception:
            text = object.__repr__(value)
        why = shorten(one_line(f"{type(error).__name__}: {error}"), MOST_LETTERS)
        return element("div", element("pre", text), element("small", f"shown as text, because of {why}"))
