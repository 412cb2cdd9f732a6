"""Elements of HTML: of reports, and of what objects show as the result of a cell of a notebook."""

import html
from collections.abc import Callable, Mapping

from popsim._text_checks import one_line, printable, shorten

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


def element(name: str, *inside: str, attributes: Mapping[str, str] | None = None) -> Html:
    """Return an HTML element.

    **Arguments:**

    - `name`: the tag, such as "p".
    - `inside`: the content, text or `Html`.
    - `attributes`: the attributes by name, as text.
    """
    attribute_text = "".join(f' {key}="{escape(value)}"' for key, value in (attributes or {}).items())
    return Html(f"<{name}{attribute_text}>{''.join(map(escape, inside))}</{name}>")


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
