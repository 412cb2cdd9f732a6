"""The names of tasks in other libraries, beside those of popsim: a line of `counterparts.csv` for each.

`popsim list --like neurogym` prints them, and the site has them as a page.
"""

import csv
import dataclasses
from importlib import resources


@dataclasses.dataclass(frozen=True)
class Counterpart:
    """A task as another library spells it, the tasks of popsim like it, if any, and what differs."""

    name: str
    popsim: tuple[str, ...]
    note: str


@dataclasses.dataclass(frozen=True)
class Library:
    """A library: its name, the version whose tasks are listed, how it names tasks, and all of them."""

    title: str
    version: str
    naming: str
    tasks: tuple[Counterpart, ...]


def _libraries() -> dict[str, Library]:
    named = {
        "neurogym": (
            "NeuroGym",
            "2.2.0",
            "Names for `ngym.make`; those without an ending are classes that it does not register.",
        ),
        "psychrnn": ("PsychRNN", "aff98e1 (November 2023)", "Classes of `psychrnn.tasks`."),
        "braintools": ("braintools", "57d33c2 (June 2026)", "Classes of `braintools.cogtask`."),
        "neuralrnn": ("NeuralRNN", "fc2394b (August 2026)", "Names for `CognitiveTaskDataset.from_task`."),
    }
    text = resources.files("popsim.cli").joinpath("counterparts.csv").read_text("utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    tasks = {
        name: [
            Counterpart(row["name"], tuple(row["popsim"].split()), row["note"])
            for row in rows
            if row["library"] == name
        ]
        for name in named
    }
    return {name: Library(*about, tuple(tasks[name])) for name, about in named.items()}


LIBRARIES = _libraries()
"""Libraries by the name that `popsim list --like` takes."""
