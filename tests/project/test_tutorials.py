"""The tutorials: scripts, notebooks and pages fit together, use public names, and run."""

import ast
import importlib
import importlib.util
import inspect
import re
from pathlib import Path

import pytest

import popsim

ROOT = Path(popsim.__file__).resolve().parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"
LARGEST = 150_000  # bytes
pytestmark = pytest.mark.skipif(
    not TUTORIALS.exists(), reason="the documents are not part of the installed package"
)


def load_make():
    spec = importlib.util.spec_from_file_location("tutorials_make", TUTORIALS / "make.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


make = load_make() if TUTORIALS.exists() else None
SCRIPTS = make.scripts() if make else {}
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
    assert re.findall(r"```python\n(.*?)\n```", page, re.DOTALL) == [cell.source for cell in cells]
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
            module = importlib.import_module(node.module)
            for alias in node.names:
                assert alias.name in module.__all__, f"{node.module}.{alias.name}"
                modules[alias.name] = getattr(module, alias.name)
    n_names = 0
    for node in ast.walk(tree):
        assert not (isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr)), node.attr
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            owner = _value(node.value, modules)
            if inspect.ismodule(owner):
                assert node.attr in owner.__all__, ast.unparse(node)
                n_names += 1
    assert n_names


def _value(node: ast.expr, modules: dict):
    """What a name, or a name in a module, stands for; None if it is no module or part of one."""
    if isinstance(node, ast.Name):
        return modules.get(node.id)
    if not isinstance(node, ast.Attribute):
        return None
    return getattr(_value(node.value, modules), node.attr, None)


@pytest.mark.full  # in short: the tests above; docs/tutorials/make.py runs them all
@pytest.mark.parametrize("name", [*SCRIPTS][::2])
def test_a_tutorial_runs_and_shows_as_much_as_its_page(name, tmp_path, monkeypatch):
    """In a new kernel, without a warning."""
    notebook = make.read_notebook(SCRIPTS[name])
    make.run_notebook(notebook, tmp_path)
    monkeypatch.setattr(make, "TUTORIALS", tmp_path)
    make.write_page(name, notebook)
    made, committed = ((folder / f"{name}.md").read_text() for folder in (tmp_path, TUTORIALS))
    for what in (r"```python\n.*?\n```", r"```text", r"!\[.*?\)", r"<div style"):
        shown = [re.findall(what, page, re.DOTALL) for page in (made, committed)]
        assert len(shown[0]) == len(shown[1]) and (what != r"!\[.*?\)" or shown[0] == shown[1])
