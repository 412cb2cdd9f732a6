"""A project of one's own, as `popsim init` writes it."""

import importlib.util
import re
import sys

import pytest
from command_ends import complaint

from popsim.cli import main
from popsim.experiments import EXPERIMENTS
from popsim.tasks.library import TASKS


@pytest.fixture
def project(tmp_path, monkeypatch, capsys):
    """A project, whose package is forgotten after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    modules = {*sys.modules}
    main(["init", "new/small_project"])
    yield tmp_path / "new" / "small_project"
    for name in {*sys.modules} - modules:
        if name.startswith("small_project"):
            del sys.modules[name]
    EXPERIMENTS.data.pop("small-project", None)
    TASKS.pop("cued-response", None)


def test_what_is_written_is_listed_and_nothing_is_replaced(project, capsys, monkeypatch):
    written = capsys.readouterr().out
    files = {str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()}
    assert files == {
        *("README.md", "pyproject.toml", "tests/test_small_project.py"),
        *(f"small_project/{name}.py" for name in ("__init__", "task", "experiment")),
    }
    assert all(f"new/small_project/{file}\n" in written for file in files)
    assert "popsim --import small_project.experiment train small-project" in written
    texts = [(project / file).read_text() for file in files]
    assert not re.search(r"PACKAGE|EXPERIMENT|KIND", "".join(texts))
    project.with_name("taken").touch()
    for path, named in (
        ("new/small_project", "has files"),
        ("new/taken", "must be a folder, got new/taken, which is a file"),
        *((name, repr(name)) for name in ("my-project", "json")),
    ):
        assert named in complaint(["init", path], capsys)
    monkeypatch.chdir(project)
    main(["--import", "small_project.experiment", "list"])
    lines = capsys.readouterr().out.splitlines()
    ours = [line.split()[0] for line in lines if re.search(r"\[from small_project\.\w+\]$", line)]
    assert ours == ["small-project", "cued-response"]


@pytest.mark.slow
def test_its_test_passes(project, monkeypatch):
    monkeypatch.chdir(project)
    monkeypatch.syspath_prepend(project)
    place = importlib.util.spec_from_file_location("its_test", project / "tests" / "test_small_project.py")
    assert place is not None and place.loader is not None
    its_test = importlib.util.module_from_spec(place)
    place.loader.exec_module(its_test)
    its_test.test_the_output_should_be_the_cue_after_the_delay()
    its_test.test_networks_learn_it(project / "of its test")
