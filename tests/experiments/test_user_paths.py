"""Whatever path a user names works through the whole life of a run and a sweep, or is refused in one line."""

import os
import shlex
import signal
from pathlib import Path

import numpy as np
import pytest
from short_form import mostly_in_full
from small_experiment import stopping_after
from swept_runs import Swept

import popsim.sweeps
import popsim.sweeps.on_dask
from popsim.cli import main
from popsim.experiments import open_run, read_run_info, run_experiment, verify_run
from popsim.experiments.run_options import RunStopped
from popsim.report import report_run
from popsim.store import (
    open_arrays,
)
from popsim.training import TaskTrainer, adam, open_history

SMALL = Swept(n_members=2, n_batches=4, log_step=2)
DEEP = "/".join(["d" * 200] * 15)  # 3,015 bytes of the 4,096 that Linux takes

ACCEPTED = {
    "the parent": "../x",
    "through the parent": "a/../../x",
    "two slashes": "a//b",
    "two slashes at the beginning": "/{tmp}/x",
    "dots and a slash at the end": "./a/./b/",
    "a link": "link",
    "below a link": "link/x",
    "the parent of a link": "link/../x",
    "spaces": " a  b ",
    "quotes": "a'b\"c`d",
    "marks of addresses": "a#b?c%20d&e=f",
    "marks of shells": "$HOME;~*[a]{b}|<>!",
    "an option": "-x",
    "other scripts": "é 日本 ́",
    "a scheme": "memory:",
    "a backslash": "a\\b",
    "240 letters": "x" * 240,
    "a long path": DEEP,
}
IN_SHORT = ("marks of shells",)

REFUSED = {
    "nothing": "",
    "bytes that are no UTF-8": "caf\udce9",
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder to work in, with a link; returns the path of a form there."""
    (tmp_path / "work").mkdir()
    (tmp_path / "elsewhere" / "deeper").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    Path("link").symlink_to(tmp_path / "elsewhere" / "deeper")
    return lambda form: form.replace("{tmp}", str(tmp_path).lstrip("/"))


def _killed_at_a_log_point(entry):
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("form", mostly_in_full(ACCEPTED, IN_SHORT))
def test_a_run_lives_at_any_path(form, place, monkeypatch, capsys, tmp_path):
    path = place(ACCEPTED[form])
    monkeypatch.setattr("popsim.report.run_report.SECTIONS", ())
    train = ["train", "swept", f"--out={path}", "--members", "2", "--n-batches", "4", "--log-step", "2"]
    build = Swept.build_trainer
    with monkeypatch.context() as during:
        during.setattr(
            Swept, "build_trainer", lambda self, **own: build(self, **own, log_fns=[_killed_at_a_log_point])
        )
        with pytest.raises(SystemExit) as end:
            main([*train, "--quiet", "--batch-size", "2"])
    assert end.value.code == 75
    message = capsys.readouterr().err.strip().splitlines()
    assert len(message) == 1 and "; to continue: " in message[0]
    command = shlex.split(message[0].partition(": popsim ")[2])
    assert os.path.samefile(command[-1], path)
    main([*command, "--quiet"])
    main(["info", command[-1], "--verify"])
    assert "what was checked is as it was written" in capsys.readouterr().out

    assert verify_run(path) == {} and open_run(path).is_finished
    assert np.isfinite(open_run(path).history.loss.values).all()
    assert np.isfinite(open_history(path).loss.values).all()
    assert np.isfinite(open_arrays(Path(path) / "history.zarr").loss.values).all()
    assert open_run(path).ensemble is not None
    assert report_run(open_run(path)).page.exists()
    Path("exported").mkdir()
    files = {kind: f"exported/{kind * 35:.240}" for kind in ("model", "history")}
    main(["export", command[-1], *(f"--{kind}={file}" for kind, file in files.items())])
    assert {str(file) for file in Path("exported").iterdir()} == {*files.values()}


@pytest.mark.full
@pytest.mark.parametrize("form", ACCEPTED)
def test_a_sweep_lives_at_any_path(form, place, capsys):
    path = place(ACCEPTED[form])
    sweep = popsim.sweeps.Sweep(SMALL, {"n_units": (3, 4)}, range(1))
    popsim.sweeps.make_sweep(sweep, path)
    with pytest.raises(RunStopped):
        popsim.sweeps.run_sweep(path, stop=stopping_after(1))
    opened = popsim.sweeps.run_sweep(path)
    assert opened.is_finished
    assert np.isfinite(popsim.sweeps.open_sweep(path).history.loss.values).all()
    command = shlex.split(opened.folder.command("info"))[-1]
    main(["info", command, "--verify"])
    main(["export", command, "--summary", "summary.csv"])
    main(["show", command])
    main(["sweep", "script", "--slurm", command])
    assert os.path.samefile(opened.folder.path, path)
    assert (Path(path) / "sweep.sbatch").exists() and "DAMAGED" not in capsys.readouterr().out


@pytest.fixture(scope="module")
def run_and_sweep(tmp_path_factory):
    """A finished run, and a sweep of which one cell is trained."""
    folder = tmp_path_factory.mktemp("finished")
    run = run_experiment(SMALL, folder / "run", quiet=True)
    sweep = popsim.sweeps.Sweep(SMALL, {"n_units": (3, 4)}, range(1))
    popsim.sweeps.make_sweep(sweep, folder / "sweep")
    return run, popsim.sweeps.run_sweep(folder / "sweep", [0])


ENTRANCES = {
    "run_experiment": lambda path: run_experiment(SMALL, path),
    "open_run": open_run,
    "read_run_info": read_run_info,
    "TaskTrainer": lambda path: TaskTrainer(adam(1e-3), chkpt_dir=path),
    "open_sweep": popsim.sweeps.open_sweep,
    "train --out": lambda path: main(["train", "swept", "--out", path]),
    "show": lambda path: main(["show", path]),
}


def _below(folder):
    return sorted(str(path) for path in folder.rglob("*"))


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("form", REFUSED)
def test_a_path_that_cannot_work_is_refused_before_anything_is_made(form, entrance, place, tmp_path):
    before = _below(tmp_path)
    with pytest.raises((ValueError, SystemExit)):
        ENTRANCES[entrance](REFUSED[form])
    assert _below(tmp_path) == before


@pytest.mark.parametrize("entrance", sorted({*ENTRANCES} - {"TaskTrainer"}))
def test_a_name_that_the_system_refuses_ends_in_its_error(entrance, place, tmp_path):
    before = _below(tmp_path)
    with pytest.raises((OSError, SystemExit)):
        ENTRANCES[entrance]("x" * 256)
    assert _below(tmp_path) == before


def test_a_lazy_history_is_read_from_where_it_was_opened(run_and_sweep, tmp_path, monkeypatch):
    folder = run_and_sweep[0].folder.path
    (tmp_path / "latest").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    datasets = [open_history("latest"), open_history(os.path.relpath(folder))]
    monkeypatch.chdir("/")
    (tmp_path / "latest").unlink()
    (tmp_path / "latest").mkdir()
    for dataset in datasets:
        assert np.isfinite(dataset.loss.values).all()
