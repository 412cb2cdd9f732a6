"""Whatever path a user names works through the whole life of a run and a sweep, or is refused in one line."""

import os
import shlex
import signal
from pathlib import Path

import numpy as np
import pytest
from swept_runs import Swept

from popsim.cli import main
from popsim.experiments import open_run, run_experiment, verify_run
from popsim.report import report_run
from popsim.training import TaskTrainer, adam

ACCEPTED = {
    "through the parent": "a/../../x",
    "dots and slashes": "./a/.//b/",
    "the parent of a link": "link/../x",
    "quotes": "a'b\"c`d",
    "marks of shells": "$HOME;~*[a]{b}|<>!#?%20&=",
    "an option": "-x",
    "other scripts": "é 日本 ́",
    "a scheme": "memory:",
    "a backslash": "a\\b",
    "a long path": "/".join(["d" * 200] * 15),  # 3,015 bytes of the 4,096 that Linux takes
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Work in a folder with a link."""
    (tmp_path / "work").mkdir()
    (tmp_path / "elsewhere" / "deeper").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    Path("link").symlink_to(tmp_path / "elsewhere" / "deeper")


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("form", ACCEPTED)
def test_a_run_lives_at_any_path(form, place, monkeypatch, capsys):
    path = ACCEPTED[form]
    monkeypatch.setattr("popsim.report.run_report.SECTIONS", ())
    train = ["train", "swept", f"--out={path}", "--members", "2", "--n-batches", "4", "--log-step", "2"]
    build = Swept.build_trainer
    kill = [lambda entry: os.kill(os.getpid(), signal.SIGTERM)]  # at a log point
    with monkeypatch.context() as during, pytest.raises(SystemExit) as end:
        during.setattr(Swept, "build_trainer", lambda self, **own: build(self, **own, log_fns=kill))
        main([*train, "--quiet", "--batch-size", "2"])
    assert end.value.code == 75
    message = capsys.readouterr().err.strip().splitlines()
    assert len(message) == 1 and "; to continue: " in message[0]
    command = shlex.split(message[0].partition(": popsim ")[2])
    assert os.path.samefile(command[-1], path)
    main([*command, "--quiet"])
    main(["info", command[-1], "--verify"])
    assert "what was checked is as it was written" in capsys.readouterr().out

    run = open_run(path)
    assert verify_run(path) == {} and run.is_finished and run.ensemble is not None
    assert np.isfinite(run.history.loss.values).all() and report_run(run).page.exists()
    Path("exported").mkdir()
    files = {"model": f"exported/{'model' * 40}", "history": f"exported/{'history' * 30}.nc"}
    main(["export", command[-1], *(f"--{kind}={file}" for kind, file in files.items())])
    assert {str(file) for file in Path("exported").iterdir()} == {*files.values()}


ENTRANCES = {
    "run_experiment": lambda path: run_experiment(Swept(n_members=2, n_batches=4, log_step=2), path),
    "open_run": open_run,
    "TaskTrainer": lambda path: TaskTrainer(adam(1e-3), chkpt_dir=path),
    "train --out": lambda path: main(["train", "swept", "--out", path]),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("path", ["", "caf\udce9"], ids=["nothing", "bytes that are no UTF-8"])
def test_a_path_that_cannot_work_is_refused_before_anything_is_made(path, entrance, place, tmp_path):
    before = {*tmp_path.rglob("*")}
    with pytest.raises((ValueError, SystemExit)):
        ENTRANCES[entrance](path)
    assert {*tmp_path.rglob("*")} == before
