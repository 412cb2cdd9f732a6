"""The pages of the reference: every public name with its signature and docstring, by mkdocstrings."""

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from public_names import ROOT, Page, PublicName, reference_pages

INDEX = "reference/index.md"
_SPAN = re.compile(r"(?<![`\[\w])`((?:\w+\.)*\w+)(\([^`()]*\))?`(?![`\]\[(])")
_FENCE = re.compile(r"^ *(```|~~~)")


def write_reference(folder: Path) -> None:
    """Write the pages into the sources of the site, which are in `folder`."""
    for page in reference_pages():
        (folder / page.file).parent.mkdir(parents=True, exist_ok=True)
        (folder / page.file).write_text(_page_text(page))
    modules = [(f"[`{page.path}`][{page.path}]", page.summary) for page in reference_pages()]
    intro = "Every public name of popsim, by the module that exports it."
    (folder / INDEX).write_text(f"# Reference\n\n{intro}\n\n{table(('module', 'what it holds'), modules)}\n")


def reference_nav() -> list:
    """Return the entries of the navigation; the pages of modules inside a package are below it."""
    nav: dict[str, list] = {}
    for page in reference_pages():
        package, _, name = page.path.rpartition(".")
        if package in nav and package != ROOT:
            nav[package].append({name: page.file})
        else:
            nav[page.path] = [page.file]
    entries = [{path: files if len(files) > 1 else files[0]} for path, files in nav.items()]
    return [{"Modules": INDEX}, *entries]


def _page_text(page: Page) -> str:
    parts = [f"# {page.path} {{ #{page.path} }}", docstring_text(inspect.getdoc(page.module) or "")]
    parts += [table(("name", "what it is"), name_rows(page.names))] if len(page.names) > 1 else []
    if page.names_elsewhere:
        parts += ["Exported here, and described where they are defined:"]
        parts += [table(("name", "what it is"), name_rows(page.names_elsewhere))]
    parts += [f"::: {name.path}" for name in page.names]
    return "\n\n".join(parts) + "\n"


def name_rows(names: Iterable[PublicName]) -> list[tuple[str, str]]:
    """Return a row of a table for each name: a link to it, and the first paragraph of its docstring."""
    return [(f"[`{name.name}`][{name.path}]", docstring_text(name.summary)) for name in names]


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines)


def docstring_text(docstring: str) -> str:
    """Return a docstring as a text of the site: outside of code `<` begins no tag, and names are linked."""

    def without_tags(line: str) -> str:
        parts = line.split("`")
        return "`".join(part if index % 2 else part.replace("<", "&lt;") for index, part in enumerate(parts))

    return link_names(change_prose(docstring, without_tags))


def link_names(text: str) -> str:
    """Link the names of popsim in a text, where it has them as code, to their entries in the reference."""
    return change_prose(text, lambda line: _SPAN.sub(_link, line))


def change_prose(text: str, change: Callable[[str], str]) -> str:
    """Change the lines of a text in Markdown except for headings and blocks of code."""
    lines, in_code = [], False
    for line in text.split("\n"):
        fence = _FENCE.match(line) is not None
        in_code ^= fence
        lines.append(line if in_code or fence or line.startswith("#") else change(line))
    return "\n".join(lines)


def _link(span: re.Match) -> str:
    path = _linked_paths().get(span[1])
    return span[0] if path is None else f"[{span[0]}][{path}]"


@functools.cache
def _linked_paths() -> dict[str, str]:
    """Return the path that each spelling of a public name, or of a module, stands for.

    A name is linked alone if it is that of a class, and no other: words such as `member` mean other things.
    """
    spellings: dict[str, set[str]] = {}
    for page in reference_pages():
        if page.path != ROOT:
            spellings[page.path] = {page.path}
        paths = {name.path: name for name in page.names}
        paths |= {f"{page.path}.{name.name}": name for name in page.names_elsewhere}
        for path, name in paths.items():
            short = ".".join(path.split(".")[-2:])
            alone = {name.name} if inspect.isclass(name.value) else set()
            for spelling in {path, short} | alone:
                spellings.setdefault(spelling, set()).add(name.path)
    return {spelling: paths.pop() for spelling, paths in spellings.items() if len(paths) == 1}
