"""Sweeps of an experiment in a module of the user's own: what is printed and written imports it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from repository import HELPERS
from swept_runs import Swept

from popsim.cli import main
from popsim.experiments.registry import EXPERIMENTS
from popsim.sweeps import Sweep, SweepFolder, make_sweep, open_sweep
from popsim.sweeps.overview import UNCHECKED_WITHOUT_PLAN
from popsim.sweeps.running import failure_text
from popsim.sweeps.slurm import SlurmOptions, slurm_script


def outcome(arguments, capsys):
    try:
        main(list(map(str, arguments)))
        code = 0
    except SystemExit as end:
        code = end.code
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.fixture
def sweep(tmp_path):
    return make_sweep(Sweep(Swept(), {"n_units": (2, 3)}, range(2)), tmp_path / "a sweep")


def commands_in(text):
    return re.findall(r"popsim (?:--import \w+ )?(?:resume|show|export|sweep|info)\b.*", text)


@pytest.mark.full
@pytest.mark.parametrize(
    "words",
    [
        "info SWEEP",
        "show SWEEP",
        "export SWEEP --model m",
        "sweep swept --grid n-units=2,3 --seeds 0:2 --out SWEEP",
        "sweep swept --out NEW --only-make",
    ],
)
def test_commands_that_are_printed_import_the_module(sweep, words, tmp_path, capsys):
    places = {"SWEEP": sweep.folder.path, "NEW": tmp_path / "new"}
    _, out, err = outcome([places.get(word, word) for word in words.split()], capsys)
    commands = commands_in(out + err)
    assert commands and all(command.startswith("popsim --import swept_runs ") for command in commands)


def test_failures_and_scripts_import_the_module(sweep, tmp_path):
    assert "popsim --import swept_runs resume '" in failure_text(sweep, {0: "it failed"})
    script = slurm_script(sweep, SlurmOptions())
    assert "popsim --import swept_runs sweep run" in script
    assert f"export PYTHONPATH={HELPERS}${{PYTHONPATH:+:$PYTHONPATH}}" in script


def test_the_script_finds_a_module_in_any_folder(sweep, tmp_path, monkeypatch):
    """With a blank, a quote and a colon in its name."""
    for name in ("a lab's", "a:b"):
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(HELPERS / "swept_runs.py", folder / "swept_runs.py")
        monkeypatch.setattr(sys.modules["swept_runs"], "__file__", str(folder / "swept_runs.py"))
        setup = slurm_script(sweep, SlurmOptions()).partition("\nsweep=")[0]
        find = f"{sys.executable} -c 'import importlib.util as u; print(u.find_spec(\"swept_runs\").origin)'"
        found = subprocess.run(["bash", "-c", f"{setup}\n{find}"], capture_output=True, text=True, check=True)
        assert Path(found.stdout.strip()).resolve() == folder / "swept_runs.py"


def test_a_script_of_an_experiment_in_a_notebook_is_refused(sweep, monkeypatch):
    monkeypatch.setattr(Swept, "__module__", "__main__")
    with pytest.raises(ValueError, match="swept must be in a module"):
        slurm_script(sweep, SlurmOptions())


def test_info_of_a_sweep_needs_no_import(sweep, monkeypatch, capsys):
    known = outcome(["info", sweep.folder.path], capsys)
    monkeypatch.delitem(EXPERIMENTS, "swept")
    with pytest.raises(ValueError, match="popsim --import swept_runs"):
        open_sweep(sweep.folder.path)
    code, out, err = outcome(["info", sweep.folder.path, "--verify"], capsys)
    assert (code, err) == (0, "")
    assert out.endswith(f"what was checked is as it was written\nnot checked: {UNCHECKED_WITHOUT_PLAN}\n")
    lines = [line for line in known[1].splitlines() if line and not line.startswith(("not", "exp", "  cell"))]
    assert [line for line in lines if line not in out] == []
    assert "of the module swept_runs" in out

    cell = sweep.folder.cell(1)
    cell.path.mkdir()
    cell.description.write_text("{}")
    code, out, err = outcome(["info", sweep.folder.path], capsys)
    assert code == 2 and "cell 1: damaged: " in out and "1 not started, 1 damaged" in out
    assert err.count("\n") == 1 and "damaged in" in err


def test_commands_of_a_folder_without_a_description_have_no_module(tmp_path):
    folder = SweepFolder(tmp_path)
    assert folder.command("resume") == f"popsim resume {tmp_path}"
    for content in ("", "[]", "{"):
        folder.description.write_text(content)
        assert folder.command("resume") == f"popsim resume {tmp_path}"
