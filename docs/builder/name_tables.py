"""The tables of the page on the names of tasks in other libraries, a line of `task_names.csv` for each."""

import csv
from pathlib import Path

from reference_files import table

PAGE = "coming_from/task_names.md"
NAMES = Path(__file__).with_name("task_names.csv")
LIBRARIES = {
    "neurogym": (
        "NeuroGym 2.2.0",
        "Names for `ngym.make`; those without an ending are classes that it does not register.",
    ),
    "psychrnn": ("PsychRNN aff98e1 (November 2023)", "Classes of `psychrnn.tasks`."),
    "braintools": ("braintools 57d33c2 (June 2026)", "Classes of `braintools.cogtask`."),
    "neuralrnn": ("NeuralRNN fc2394b (August 2026)", "Names for `CognitiveTaskDataset.from_task`."),
}
"""By name in the table, the title with the version whose tasks are listed, and how it names tasks."""


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
    title, naming = LIBRARIES[name]
    with NAMES.open(encoding="utf-8", newline="") as file:
        rows = [
            (f"`{row['name']}`", _links(row["popsim"]), row["note"])
            for row in csv.DictReader(file)
            if row["library"] == name
        ]
    return f"## {title}\n\n{naming}\n\n{table((title.partition(' ')[0], 'popsim', 'note'), rows)}"


def _links(names: str) -> str:
    """Return links to the pages of popsim's tasks."""
    return ", ".join(f"[{name}](../library/tasks/{name}.md)" for name in names.split()) or "none"
