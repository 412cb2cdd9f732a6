"""A figure that cannot be drawn costs one line, never the results of a training."""

import errno
import shutil

import matplotlib.pyplot as plt
import pytest
from kept_runs import finished_run
from matplotlib.figure import Figure
from small_experiment import Sum

from popsim.cli import main
from popsim.experiments import RunFigure, open_run, resume_run
from popsim.store import SaveError, read_sealed_json, write_sealed_json

pytestmark = pytest.mark.slow


@pytest.fixture
def undrawn(tmp_path, tmp_path_factory):
    """A run whose training ended before its figures were drawn."""
    path = shutil.copytree(finished_run(tmp_path_factory), tmp_path / "run")
    shutil.rmtree(path / "figures")
    whole = read_sealed_json(path / "run.json")
    later = ("finished", "figures")
    write_sealed_json(path / "run.json", {name: own for name, own in whole.items() if name not in later})
    return path


def draw_one_of_two(kind):
    """Draws the figure "good", and "bad", which cannot be drawn."""

    def draw(own, run):
        good, bad = (plt.figure(figsize=(1, 1)) for _ in range(2))
        bad.text(0, 0, "$\\unknown{$")
        if kind == "a text":
            plt.close(bad)
        return {
            "good": RunFigure(good, "Good", "good"),
            "bad": kind if kind == "a text" else RunFigure(bad, "Bad", "bad"),
        }

    return draw


HOW = {
    "typo": (lambda own, run: run.no_such_attribute, "AttributeError", set()),
    "latex": (draw_one_of_two("latex"), "ValueError", {"good"}),
    "kind": (draw_one_of_two("a text"), "AttributeError", {"good"}),
}


@pytest.mark.parametrize("how", HOW)
def test_a_run_is_finished_and_says_in_one_line_what_is_not_drawn(how, undrawn, capsys, monkeypatch):
    (draw, error, names), before = HOW[how], plt.get_fignums()
    monkeypatch.setattr(Sum, "draw_figures", draw)
    with pytest.warns(UserWarning, match="could not be drawn") as said:
        resume_run(undrawn, quiet=True)
    (line,) = (str(warning.message) for warning in said)
    assert error in line and "\n" not in line and len(line) < 600
    assert read_sealed_json(undrawn / "run.json")["finished"] and plt.get_fignums() == before
    assert {file.stem for file in undrawn.glob("figures/*.png")} == names
    main(["resume", str(undrawn), "--quiet"])  # without another word, as warnings are errors here
    assert "the run was finished before" in capsys.readouterr().out


def test_a_full_disk_is_still_an_error(undrawn, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(SaveError):
        patch.setattr(Figure, "savefig", full)
        resume_run(undrawn, quiet=True)
    assert open_run(undrawn).is_finished and not list(undrawn.glob("figures/*.png"))
    assert resume_run(undrawn, quiet=True).summary and list(undrawn.glob("figures/*.png"))
