"""The tables of the page on the names of tasks in other libraries."""

from pathlib import Path

from reference_files import table

from popsim.cli._counterparts import LIBRARIES, Counterpart

PAGE = "coming_from/task_names.md"


def write_name_tables(folder: Path) -> None:
    """Put the tables into the page, in the sources of the site.

    **Raises:** `ValueError` if the page has no place for a library.
    """
    page = folder / PAGE
    text = page.read_text()
    for name in LIBRARIES:
        place = f"<!-- tasks of {name} -->"
        if place not in text:
            raise ValueError(f"{PAGE} must have a line {place}.")
        text = text.replace(place, _section(name))
    page.write_text(text)


def _section(name: str) -> str:
    library = LIBRARIES[name]
    rows = [(f"`{task.name}`", _links(task), task.note) for task in library.tasks]
    head = (library.title, "popsim", "note")
    return f"## {library.title} {library.version}\n\n{library.naming}\n\n{table(head, rows)}"


def _links(task: Counterpart) -> str:
    """Return links to the pages of popsim's tasks."""
    return ", ".join(f"[{name}](../library/tasks/{name}.md)" for name in task.popsim) or "none"
