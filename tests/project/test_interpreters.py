"""Training, resuming and showing on every Python that is here, with the newest packages and the lowest.

`pytest -m full tests/project/test_interpreters.py` makes an environment for each: it needs a package index.
"""

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from repository import HELPERS, ROOT

RUN = """
import sys
import popsim
from popsim.cli import main
from popsim.experiments import EXPERIMENTS, RunStopped, open_run, run_experiment
from small_experiment import Sum, stopping_after
EXPERIMENTS["sum"] = Sum
folder, shown = sys.argv[1:]
try:
    small = Sum(n_members=2, n_batches=8, batch_size=4, log_step=2)
    run_experiment(small, folder, quiet=True, stop=stopping_after(2))
except RunStopped:
    main(["resume", folder])
assert open_run(folder).n_batches_trained == 8
if shown:
    main(["show", folder, "--out", shown])
print("done")
"""
pytestmark = [pytest.mark.slow, pytest.mark.full]


def interpreter(version: str) -> str | None:
    """A Python of a version that can make environments, on the path or of pyenv."""
    of_pyenv = Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")
    for candidate in (shutil.which(f"python{version}"), *map(str, sorted(of_pyenv, reverse=True))):
        if candidate is None:
            continue
        try:  # a shim of pyenv may stand for nothing, and Debian leaves parts out
            subprocess.run([candidate, "-c", "import venv, ensurepip"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return candidate
    return None


def train_resume_and_show(python: str, folder: Path, *, lowest: bool, shown: str) -> None:
    """In a new environment with what popsim depends on; `shown` is where a report goes, if anywhere."""
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    needed = [name.replace(">=", "==") for name in needed] if lowest else needed
    subprocess.run([python, "-m", "venv", folder / "venv"], check=True)
    pip = [folder / "venv" / "bin" / "pip", "install", "--quiet", "--no-compile", "--only-binary=:all:"]
    subprocess.run([*pip, *needed], check=True)
    environment = os.environ | {"PYTHONPATH": f"{ROOT / '.path'}:{HELPERS}", "MPLBACKEND": "agg"}
    environment.pop("XLA_FLAGS", None)  # another jaxlib may not know those of the tests
    command = [folder / "venv" / "bin" / "python", "-c", RUN, folder / "run", shown]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0 and ran.stdout.endswith("done\n"), ran.stdout + ran.stderr


@pytest.mark.parametrize(("version", "lowest"), [("3.11", True), ("3.12", False), ("3.13", False)])
def test_every_python_trains_resumes_and_shows(version, lowest, tmp_path):
    python = interpreter(version)
    if python is None:
        pytest.skip(f"Python {version} is missing")
    train_resume_and_show(python, tmp_path, lowest=lowest, shown=str(tmp_path / "shown"))
    assert (tmp_path / "shown" / "report.html").exists()
