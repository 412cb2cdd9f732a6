"""A figure that cannot be drawn costs one line, never the results of a training."""

import dataclasses
import errno
import json
import shutil

import matplotlib.pyplot as plt
import pytest
import small_training
from matplotlib.figure import Figure
from reported_runs import Reported
from short_form import mostly_in_full
from small_training import train
from swept_runs import Swept
from tensorboard_events import read_events

from popsim.cli import main
from popsim.experiments import EXPERIMENTS, RunFigure, open_run, resume_run, run_experiment
from popsim.report import compare_runs, report_run, report_sweep
from popsim.store import SaveError
from popsim.sweeps import Sweep, make_sweep, run_sweep
from popsim.training import TaskTrainer

pytestmark = pytest.mark.slow


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
SMALL = {"n_members": 2, "n_batches": 4, "batch_size": 4, "log_step": 2}


@pytest.fixture(params=mostly_in_full(HOW, ("typo",)), scope="module")
def drawing(request, tmp_path_factory):
    """A finished run whose figures cannot be drawn, and what was said of it."""
    path = tmp_path_factory.mktemp("drawing") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EXPERIMENTS, "drawing", Drawing)
        with pytest.warns(UserWarning, match="could not be drawn") as said:
            run_experiment(Drawing(how=request.param, **SMALL), path, quiet=True)
        yield path, request.param, said


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


@pytest.mark.full
def test_a_page_says_what_is_not_drawn(drawing, tmp_path, as_users_run):
    path, how, _ = drawing
    opened = plt.get_fignums()
    with pytest.warns(UserWarning, match="could not be drawn"):
        report = report_run(open_run(path), tmp_path / "report")
    page = report.page.read_text()
    assert "could not be drawn" in page and HOW[how] in page and "Weights over training" in page
    with pytest.warns(UserWarning), pytest.raises(SystemExit) as end:
        main(
            [
                "export",
                str(path),
                "--figures",
                str(tmp_path / "figures"),
                "--model",
                str(tmp_path / "m.safetensors"),
            ]
        )
    assert end.value.code == 1 and (tmp_path / "m.safetensors").exists()
    assert plt.get_fignums() == opened


@pytest.mark.full
def test_settings_of_matplotlib_that_fail_cost_figures_only(tmp_path, monkeypatch):
    """As `text.usetex: True` does without LaTeX, in each place that draws."""
    monkeypatch.setitem(EXPERIMENTS, "drawing", Drawing)
    monkeypatch.setitem(EXPERIMENTS, "swept", Swept)

    def fail(*args, **kwargs):
        raise RuntimeError("Failed to process string with tex because latex could not be found\nmore")

    path = tmp_path / "run"
    with pytest.warns(UserWarning, match="could not be drawn: RuntimeError: Failed to process"):
        monkeypatch.setattr(Figure, "savefig", fail)
        run = run_experiment(Drawing(how="latex", **SMALL), path, quiet=True)
    assert run.is_finished and run.summary
    sweep = Sweep(Swept(n_batches=2, log_step=2), {"rate": (1e-3, 1e-2)}, range(2))
    make_sweep(sweep, tmp_path / "sweep")
    swept = run_sweep(tmp_path / "sweep")
    with pytest.warns(UserWarning, match="could not be drawn") as said:
        pages = [
            report_run(run, tmp_path / "report"),
            report_sweep(swept, tmp_path / "of_sweep"),
            compare_runs([path, shutil.copytree(path, tmp_path / "again")], tmp_path / "comparison"),
        ]
    assert all("\n" not in str(warning.message) for warning in said)
    assert all(
        "could not be drawn: RuntimeError" in page.page.read_text() and not page.figures for page in pages
    )
    with pytest.raises(SystemExit) as end:
        main(["show-task", "center-out", "--out", str(tmp_path / "task.png")])
    assert end.value.code == 1


def test_tensorboard_goes_on_without_a_figure(tmp_path):
    pytest.importorskip("tensorboardX")
    trainer = TaskTrainer(
        small_training.OPTIMIZER,
        enable_tensorboard=True,
        tensorboard_logdir=tmp_path,
        validation_figures=lambda states, trials: {"bad": states.no_such_attribute},
    )
    with pytest.warns(UserWarning, match="`validation_figures` could not be drawn: AttributeError"):
        train(2, trainer=trainer)
    assert (1, pytest.approx(1e-2)) in read_events(tmp_path)["learning_rate"]


def test_a_full_disk_is_still_an_error(tmp_path, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "reported", Reported)

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(SaveError):
        patch.setattr(Figure, "savefig", full)
        run_experiment(Reported(**SMALL), tmp_path / "run", quiet=True)
    assert open_run(tmp_path / "run").is_finished and not list((tmp_path / "run" / "figures").glob("*.png"))
    assert resume_run(tmp_path / "run", quiet=True).summary
    assert list((tmp_path / "run" / "figures").glob("*.png"))
