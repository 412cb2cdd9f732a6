"""The tutorials: scripts, notebooks and pages fit together, use public names, and run."""

import ast
import functools
import importlib
import inspect
import re

import pytest
from page_code import code_blocks, load_script
from repository import ROOT

import popsim

TUTORIALS = ROOT / "docs" / "tutorials"
LARGEST = 150_000  # bytes
make = load_script("docs/tutorials/make.py")
SCRIPTS = make.scripts()
every_tutorial = pytest.mark.parametrize("name", SCRIPTS)


def code_cells(name: str) -> list:
    return [cell for cell in make.read_notebook(SCRIPTS[name]).cells if cell.cell_type == "code"]


def images_of(page: str) -> list[tuple[str, str]]:
    """The description and the file of each picture of a page."""
    return re.findall(r"!\[(.*?)\]\((.*?)\)", page)


@every_tutorial
def test_the_notebook_is_that_of_the_script(name):
    text = (TUTORIALS / f"{name}.ipynb").read_text()
    assert text == make.notebook_text(SCRIPTS[name]), "run docs/tutorials/make.py --only-notebooks"
    assert '"execution_count": null' in text and '"image/png"' not in text


@every_tutorial
def test_the_page_has_the_cells_of_the_script_and_its_figures(name):
    cells, page = code_cells(name), (TUTORIALS / f"{name}.md").read_text()
    assert code_blocks(f"docs/tutorials/{name}.md") == [f"{cell.source}\n" for cell in cells]
    images = images_of(page)
    assert [alt for alt, _ in images] == [cell.metadata["alt"] for cell in cells if "alt" in cell.metadata]
    for _, file in images:
        assert 0 < (TUTORIALS / file).stat().st_size < LARGEST
    assert 6 <= len(cells) <= 16 and len(images) >= 2


@every_tutorial
def test_a_script_names_what_is_public(name):
    tree, modules = ast.parse(SCRIPTS[name].read_text()), {"popsim": popsim}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "popsim":
            public = importlib.import_module(node.module)
            assert {alias.name for alias in node.names} <= {*public.__all__}, node.module
            modules |= {alias.name: getattr(public, alias.name) for alias in node.names}
    n_names = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            assert not re.match(r"_[a-z]", node.attr), node.attr
            first, *names = ast.unparse(node.value).split(".")
            owner = functools.reduce(
                lambda value, name: getattr(value, name, None), names, modules.get(first)
            )
            assert not inspect.ismodule(owner) or node.attr in owner.__all__, ast.unparse(node)
            n_names += inspect.ismodule(owner)
    assert n_names


@pytest.mark.full  # in short: the tests above; docs/tutorials/make.py runs them all
@pytest.mark.parametrize("name", [*SCRIPTS][::2])
def test_a_tutorial_runs_and_shows_as_much_as_its_page(name, tmp_path, monkeypatch):
    """In a new kernel, without a warning, with programs as users have them."""
    monkeypatch.delenv("XLA_FLAGS")
    notebook = make.read_notebook(SCRIPTS[name])
    make.run_notebook(notebook, tmp_path)
    monkeypatch.setattr(make, "TUTORIALS", tmp_path)
    make.write_page(name, notebook)
    made, committed = ((folder / f"{name}.md").read_text() for folder in (tmp_path, TUTORIALS))
    for what in (r"```python\n.*?\n```", r"```text", r"!\[.*?\)", r"<div style"):
        shown = [re.findall(what, page, re.DOTALL) for page in (made, committed)]
        assert len(shown[0]) == len(shown[1]) and (what != r"!\[.*?\)" or shown[0] == shown[1])
