"""The command `init`, which writes a small project: a task, an experiment, a test."""

import importlib.util
import keyword
import sys
from pathlib import Path

from popsim._shared.text_checks import as_path, as_word
from popsim.experiments import EXPERIMENTS
from popsim.store.files import raise_save_errors, write_file

TEMPLATE = Path(__file__).with_name("project_template")
TASK = "cued-response"  # of the template
ENDING = ".txt"  # of all files of the template, which are no modules of popsim


def write_project(path: Path) -> None:
    """Write a project into an empty or new folder, of which the package has the name; print what is next."""
    package = _package_name(as_path("path", path))
    if path.exists() and not path.is_dir():
        raise ValueError(f"`path` must be a folder, got {path}, which is a file.")
    if path.is_dir() and any(path.iterdir()):
        raise ValueError(f"`path` must be an empty folder, or none yet, got {path}: it has files.")
    words = {
        "PACKAGE": package,
        "EXPERIMENT": experiment_name(package),
        "KIND": "".join(word.capitalize() for word in package.split("_")) + "Experiment",
    }
    for source in sorted(TEMPLATE.rglob(f"*{ENDING}")):
        name, text = source.relative_to(TEMPLATE).as_posix(), source.read_text(encoding="utf-8")
        for word, meaning in words.items():
            name, text = name.replace(word, meaning), text.replace(word, meaning)
        file = path / name.replace("package/", f"{package}/").removesuffix(ENDING)
        with raise_save_errors(path):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_file(file, [text.encode()])
        print(file)
    print(f"\ncd {as_word(path)}")
    print(f"popsim --import {package}.experiment train {experiment_name(package)} --members 4")
    print("pip install pytest && python -m pytest")


def _package_name(path: Path) -> str:
    """Return the name of a folder as that of a package, which Python must not know as another."""
    name = path.resolve().name
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name) or not name.strip("_"):
        raise ValueError(
            f"`path` must end in a name that a module can have, such as my_project, got {name!r:.100}."
        )
    spec = None if name in sys.modules else importlib.util.find_spec(name)
    is_taken = name in sys.modules or spec is not None and spec.origin is not None  # a folder is no module
    if is_taken or (experiment := experiment_name(name)) == TASK or experiment in EXPERIMENTS:
        raise ValueError(
            f"`path` must end in a name that no module, experiment or task has, such as my_project, got "
            f"{name!r}."
        )
    return name


def experiment_name(package: str) -> str:
    """Return the name of the experiment of a package, on the command line."""
    return package.strip("_").replace("_", "-")
