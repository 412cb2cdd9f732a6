"""A figure that cannot be drawn costs one line, never the results of a training."""

import dataclasses
import errno
import json

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure
from reported_runs import Reported
from short_form import mostly_in_full

from popsim.cli import main
from popsim.experiments import RunFigure, open_run, register_experiment, resume_run, run_experiment
from popsim.store import SaveError

pytestmark = pytest.mark.slow


@register_experiment
@dataclasses.dataclass(frozen=True)
class Drawing(Reported):
    """Networks learn to sum up, and the figure "bad" cannot be drawn."""

    name = "drawing"

    how: str = "typo"
    """why it cannot be drawn"""

    def draw_figures(self, run):
        good, bad = (plt.figure(figsize=(1, 1)) for _ in range(2))
        if self.how == "typo":
            return run.no_such_attribute
        if self.how == "kind":
            plt.close(bad)
        if self.how == "latex":
            bad.text(0, 0, "$\\unknown{$")
        kinds = {"kind": "a text", "latex": RunFigure(bad, "Bad", "bad")}
        return {"good": RunFigure(good, "Good", "good"), "bad": kinds[self.how]}


HOW = {"typo": "AttributeError", "latex": "ValueError", "kind": "AttributeError"}
SMALL = {"n_members": 2, "n_batches": 8, "batch_size": 4, "log_step": 2}  # as of other tests


@pytest.fixture(params=mostly_in_full(HOW, ("typo",)), scope="module")
def drawing(request, tmp_path_factory):
    """A finished run whose figures cannot be drawn, and what was said of it."""
    path = tmp_path_factory.mktemp("drawing") / "run"
    with pytest.warns(UserWarning, match="could not be drawn") as said:
        run_experiment(Drawing(how=request.param, **SMALL), path, quiet=True)
    return path, request.param, said


def test_a_run_is_finished_and_says_in_one_line_what_is_not_drawn(drawing, capsys):
    path, how, said = drawing
    (line,) = (str(warning.message) for warning in said)
    assert HOW[how] in line and "\n" not in line and len(line) < 600
    assert json.loads((path / "run.json").read_text())["finished"]
    names = {file.stem for file in (path / "figures").glob("*.png")} if how != "typo" else set()
    assert names == (set() if how == "typo" else {"good"})
    assert resume_run(path, quiet=True).is_finished  # without another word, as warnings are errors here
    main(["resume", str(path), "--quiet"])
    assert "the run was finished before" in capsys.readouterr().out


def test_a_full_disk_is_still_an_error(tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(SaveError):
        patch.setattr(Figure, "savefig", full)
        run_experiment(Reported(**SMALL), tmp_path / "run", quiet=True)
    assert open_run(tmp_path / "run").is_finished and not list((tmp_path / "run" / "figures").glob("*.png"))
    assert resume_run(tmp_path / "run", quiet=True).summary
    assert list((tmp_path / "run" / "figures").glob("*.png"))
