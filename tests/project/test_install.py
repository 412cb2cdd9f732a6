"""What an installed popsim puts on the path: popsim, wherever Python is started, and nothing else."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from repository import ROOT

from popsim.version import __version__

FOUND = """
import importlib.util, sys
sys.path += sys.argv[1:]
import analysis.curves
print(importlib.util.find_spec("popsim").origin, *analysis.__path__, importlib.util.find_spec("tasks"))
"""


def found(python: Path | str, folder: Path, *on_path: Path) -> list[str]:
    """What `import popsim`, a lab's own `import analysis`, and `import tasks` find in a folder."""
    (folder / "analysis").mkdir(parents=True)
    (folder / "analysis" / "curves.py").touch()
    command = [python, "-S" if on_path else "-s", "-c", FOUND, *on_path]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return ran.stdout.split()


def test_an_editable_install_holds_only_popsim(tmp_path):
    """In a folder that holds a clone, too, whose name is that of the package."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (on_path,) = (ROOT / name for name in settings["tool"]["hatch"]["build"]["dev-mode-dirs"])
    assert [(one.name, one.resolve()) for one in on_path.iterdir()] == [("popsim", ROOT / "popsim")]
    (tmp_path / "popsim" / "popsim").mkdir(parents=True)
    own = [str(tmp_path / "analysis"), "None"]
    assert found(sys.executable, tmp_path, on_path) == [str(on_path / "popsim" / "__init__.py"), *own]


def test_a_clone_without_links_says_how_to_get_them(tmp_path):
    """As git makes it on Windows without developer mode."""
    clone = tmp_path / "popsim"
    command = ["git", "clone", "--quiet", "-c", "core.symlinks=false", "--sparse", ROOT, clone]
    subprocess.run(command, check=True)
    subprocess.run(["git", "-C", clone, "sparse-checkout", "set", "popsim"], check=True)
    ran = subprocess.run([sys.executable, "-c", "import popsim"], cwd=clone, capture_output=True, text=True)
    assert ran.stderr.splitlines()[-1].startswith("ImportError: popsim/tasks and popsim/analysis must be")


def test_the_citation_names_this_version():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__


@pytest.mark.full
def test_pip_installs_a_clone_that_is_found_from_its_parent_and_a_wheel_that_holds_all(tmp_path):
    clone, venv = tmp_path / "popsim", tmp_path / "venv"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = [venv / "bin" / "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--no-deps", "--editable", clone], check=True)
    where = found(venv / "bin" / "python", tmp_path)
    assert where == [str(clone / ".path" / "popsim" / "__init__.py"), str(tmp_path / "analysis"), "None"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", tmp_path, clone], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    command = ["git", "-C", clone, "ls-files", "popsim", "tasks", "analysis"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    links = {"popsim/tasks", "popsim/analysis"}
    everything = {name if name.startswith("popsim/") else f"popsim/{name}" for name in listed} - links
    assert held == everything
    (metadata,) = (name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("/METADATA"))
    text = zipfile.ZipFile(wheel).read(metadata).decode()
    assert "pip install -e ." in text and not re.search(r"\]\((?!https://)", text)

    subprocess.run([sys.executable, "-m", "build", "--outdir", tmp_path / "dist", clone], check=True)
    (wheel_of_sdist,) = (tmp_path / "dist").glob("*.whl")  # which `build` makes from the sdist
    held_by_it = {name for name in zipfile.ZipFile(wheel_of_sdist).namelist() if ".dist-info/" not in name}
    assert held_by_it == everything
