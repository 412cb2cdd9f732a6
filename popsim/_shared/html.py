"""Elements of HTML, of reports and of what a notebook shows."""

import html
from collections.abc import Callable, Mapping

from popsim._shared.text_checks import error_text, printable


class Html(str):
    """HTML, as opposed to plain text in a `str`."""


def escape(text: str) -> Html:
    """Escape text as HTML, with "?" for what is not printable; `Html` is returned unchanged."""
    if isinstance(text, Html):
        return text
    return Html(html.escape("\n".join(map(printable, text.split("\n")))))


def element(name: str, *content: str, attributes: Mapping[str, str] | None = None) -> Html:
    """Return an HTML element, such as "p", with its content and attributes."""
    attribute_text = "".join(f' {key}="{escape(value)}"' for key, value in (attributes or {}).items())
    return Html(f"<{name}{attribute_text}>{''.join(map(escape, content))}</{name}>")


def preformatted(text: str) -> Html:
    """Return a text with its own lines, which scrolls where it is wider than the page."""
    return element("pre", text, attributes={"style": "overflow-x:auto"})


def show_or_print(show: Callable[[], Html], value: object) -> Html:
    """Return what `show` makes of an object, or its text where that fails, as of arrays that JAX traces."""
    try:
        return show()
    except Exception as error:
        try:
            text = repr(value)
        except Exception:
            text = object.__repr__(value)
        why = element("small", f"shown as text, because of {error_text(error)}")
        return element("div", preformatted(text), why)
