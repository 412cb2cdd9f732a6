"""One page of HTML in one file: no script, nothing from elsewhere, not even if its text asked for it."""

from collections.abc import Sequence
from pathlib import Path
from string import Template

from popsim.report.html import Html, element, escaped
from popsim.store.whole_file import write_file
from popsim.version import __version__

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
GENERATOR = '<meta name="generator" content="popsim '

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 0.75rem 1rem 2rem; max-width: 60rem; color: #1a1a1a; background: #fff;
  font: 1rem/1.5 system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0.5rem 0; }
h2 { font-size: 1.25rem; margin: 2rem 0 0.5rem; padding-bottom: 0.2rem; border-bottom: 1px solid #ccc; }
h3 { font-size: 1rem; margin: 0 0 0.25rem; }
p { margin: 0.5rem 0; max-width: 45rem; }
.wide { overflow-x: auto; max-width: 100%; }
.wide:focus-visible { outline: 2px solid #0072b2; }
table { border-collapse: collapse; font-size: 0.875rem; overflow-wrap: normal; }
caption { text-align: left; padding-bottom: 0.3rem; }
th, td { padding: 0.15rem 0.6rem; text-align: left; vertical-align: top; }
th:first-child { padding-left: 0; }
thead th { border-bottom: 1px solid #999; vertical-align: bottom; }
tbody th { font-weight: normal; white-space: nowrap; }
.named tbody th { white-space: normal; color: #444; }
tr.first > * { border-top: 1px solid #ddd; }
.results td { white-space: nowrap; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: 1.5rem 0; }
figcaption { font-size: 0.875rem; color: #333; max-width: 45rem; }
img { display: block; height: auto; max-width: 100%; }
pre { margin: 0.5rem 0; padding: 0.6rem; background: #f4f4f4; font-size: 0.8125rem; line-height: 1.45;
  width: max-content; min-width: 100%; overflow-wrap: normal; }
.note { border-left: 4px solid #e69f00; padding-left: 0.6rem; }
footer { margin-top: 2.5rem; font-size: 0.8125rem; color: #555; }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  .wide { overflow: visible; }
  img { min-width: 0 !important; }
  pre { white-space: pre-wrap; width: auto; }
  figure, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  thead { display: table-header-group; }
}
"""

_PAGE = Template(
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${policy}">
${generator}${version}">
<title>${title}</title>
<style>${style}</style>
</head>
<body>
<main>
${body}
</main>
<footer>Made by popsim ${version}. This page is one file that opens without a network.</footer>
</body>
</html>
"""
)


def write_page(path: Path, title: str, body: Sequence[Html]) -> int:
    """Write a page; a reader sees the old file or the new one, never half of it.

    **Arguments:**

    - `path`: the file; its folder must exist.
    - `title`: text, also the heading of the page.
    - `body`: what is below it.

    **Returns:** its size in bytes.

    **Raises:** `SaveError` if it cannot be written.
    """
    page = _PAGE.substitute(
        policy=POLICY,
        generator=GENERATOR,
        version=escaped(__version__),
        title=escaped(title),
        style=_STYLE,
        body="\n".join([element("h1", title), *body]),
    )
    content = page.encode()
    write_file(path, [content])
    return len(content)


def is_page(path: Path) -> bool:
    """Whether a file is a page that popsim wrote."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return GENERATOR.encode() in file.read(2000)
