"""The names of tasks in other libraries, beside those of popsim."""

import json

from popsim.cli import main
from popsim.cli._counterparts import LIBRARIES
from popsim.tasks.library import TASKS

COUNTERPARTS = [(library.title, task) for library in LIBRARIES.values() for task in library.tasks]


def test_every_task_of_popsim_in_the_table_exists():
    """In one of its lines; a task that popsim has not is described."""
    for title, task in COUNTERPARTS:
        assert set(task.popsim) <= TASKS.keys(), (title, task.name)
        assert task.popsim or task.note, (title, task.name)
    assert len({(title, task.name) for title, task in COUNTERPARTS}) == len(COUNTERPARTS)


def test_list_prints_the_names_of_a_library_beside_those_of_popsim(capsys):
    main(["list", "--like", "NeuroGym"])
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line for line in lines[1:]}
    assert lines[0].split() == ["NeuroGym", "2.2.0", "popsim"] and len(rows) == len(lines) - 1 == 67
    assert "  context-integration  " in rows["ContextDecisionMaking-v0"]
    assert rows["Null-v0"].split()[1] == "none"
    assert "delayed-match-to-sample, delayed-non-match-to-sample" in rows["DelayMatchSample-v0"]


def test_it_is_printed_as_json(capsys):
    main(["list", "--like", "psychrnn", "--json"])
    library = json.loads(capsys.readouterr().out)
    assert library["title"] == "PsychRNN" and set(library) == {"title", "version", "naming", "tasks"}
    assert library["tasks"][0].keys() == {"name", "popsim", "note"}
    assert library["tasks"][1]["popsim"] == ["delayed-comparison"]
