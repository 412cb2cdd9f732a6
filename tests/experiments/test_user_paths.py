"""Whatever path a user names works through the whole life of a run and a sweep, or is refused in one line."""

import os
import shlex
import signal
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import tensorstore
from short_form import every_nth, mostly_in_full
from small_experiment import stopping_after
from swept_runs import Swept

import popsim.sweeps
import popsim.sweeps.on_dask
from popsim.analysis.figures import save_animation, save_figure
from popsim.cli import main
from popsim.experiments import open_run, read_run_info, resume_run, run_experiment, run_or_resume, verify_run
from popsim.experiments.run_options import RunStopped
from popsim.report import compare_runs, report_run, report_sweep
from popsim.store import (
    load_model,
    open_arrays,
    read_model_details,
    save_model,
    write_netcdf,
)
from popsim.store.arrays import _stored_array
from popsim.sweeps.slurm import SlurmOptions, write_slurm_script
from popsim.training import SharedPopulation, TaskTrainer, adam, open_history, save_history

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
    "240 letters": "x" * 240,
    "a long path": DEEP,
}
IN_SHORT = ("marks of shells",)

REFUSED = {
    "a backslash": "a\\b",
    "a newline": "a\nb",
    "an escape": "a\x1b[31mb",
    "delete": "a\x7fb",
    "a control of C1": "a\x9bb",
    "nothing": "a\0b",
    "a line separator": "a\u2028b",
    "a paragraph separator": "a\u2029b",
    "an override of direction": "a\u202eb",
    "bytes that are no UTF-8": "caf\udce9",
    "a lock of tensorstore": "a.__lock",
    "256 letters": "x" * 256,
    "256 bytes": "é" * 128,
    "a path that is too long": "/".join(["d" * 200] * 19),
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


def _entrances(run, opened):
    """Where a user names a path to the API, as functions of it."""
    task, ensemble = run.experiment.build_task(), run.experiment.build_ensemble()
    sweep = opened.sweep
    return {
        "run_experiment": lambda path: run_experiment(SMALL, path),
        "run_or_resume": lambda path: run_or_resume(SMALL, path),
        "resume_run": resume_run,
        "open_run": open_run,
        "open_run of a script": lambda path: open_run(path, task=task, build=SMALL.build_model),
        "read_run_info": read_run_info,
        "verify_run": verify_run,
        "TaskTrainer": lambda path: TaskTrainer(adam(1e-3), chkpt_dir=path),
        "tensorboard": lambda path: TaskTrainer(adam(1e-3), tensorboard_logdir=path),
        "open_history": open_history,
        "save_history": lambda path: save_history(path, None),
        "SharedPopulation": lambda path: SharedPopulation(path, 0, (np.arange(1),), run_id="0" * 32),
        "save_model": lambda path: save_model(path, ensemble),
        "load_model": lambda path: load_model(path, ensemble),
        "read_model_details": read_model_details,
        "write_netcdf": lambda path: write_netcdf(run.history.dataset, path),
        "report_run": lambda path: report_run(run, Path(path)),
        "compare_runs": lambda path: compare_runs([Path(path), run.folder.path], Path("compared")),
        "compare_runs, out": lambda path: compare_runs([run.folder.path] * 2, Path(path)),
        "make_sweep": lambda path: popsim.sweeps.make_sweep(sweep, path),
        "open_sweep": popsim.sweeps.open_sweep,
        "run_sweep": popsim.sweeps.run_sweep,
        "run_cell": lambda path: popsim.sweeps.run_cell(path, 0),
        "run_on_dask": popsim.sweeps.on_dask.run_on_dask,
        "report_sweep": lambda path: report_sweep(opened, Path(path)),
        "write_slurm_script": lambda path: write_slurm_script(opened, SlurmOptions(), Path(path)),
        "save_figure": lambda path: save_figure(plt.figure(), Path(path), "figure"),
        "save_animation": lambda path: save_animation(None, path),
    }


def _commands(run, opened):
    run, sweep = str(run.folder.path), str(opened.folder.path)
    return {
        "train --out": ["train", "swept", "--out"],
        "train --resume --out": ["train", "swept", "--resume", "--out"],
        "resume": ["resume"],
        "info": ["info"],
        "show": ["show"],
        "show --out": ["show", run, "--out"],
        "show sweep --out": ["show", sweep, "--out"],
        "compare": ["compare", run],
        "compare --out": ["compare", run, f"{sweep}/cells/000000", "--out"],
        "show-task --out": ["show-task", "flip-flop", "--out"],
        "export": ["export", "--model", "model"],
        "export --model": ["export", run, "--model"],
        "export --history": ["export", run, "--history"],
        "export --figures": ["export", f"{run}", "--figures"],
        "export --summary": ["export", sweep, "--summary"],
        "export sweep --history": ["export", sweep, "--history"],
        "sweep --out": ["sweep", "swept", "--grid", "n_units=3,4", "--out"],
        "sweep --dry-run --out": ["sweep", "swept", "--grid", "n_units=3,4", "--dry-run", "--out"],
        "sweep --config": ["sweep", "--config", f"{sweep}/sweep.yaml", "--out"],
        "sweep run": ["sweep", "run"],
        "sweep run --cell": ["sweep", "run", "--cell", "0"],
        "sweep script": ["sweep", "script", "--slurm"],
        "sweep script --out": ["sweep", "script", "--slurm", sweep, "--out"],
    }


def _below(folder):
    return sorted(str(path) for path in folder.rglob("*"))


@pytest.mark.parametrize("form", every_nth(REFUSED, 12))
def test_a_path_that_cannot_work_is_refused_before_anything_is_made(
    form, run_and_sweep, place, tmp_path, as_users_run, monkeypatch
):
    before = _below(tmp_path)
    inside = _below(run_and_sweep[0].folder.path.parent)
    for entrance, call in _entrances(*run_and_sweep).items():
        with pytest.raises(ValueError, match="^`") as refusal:
            call(REFUSED[form])
        message = str(refusal.value)
        assert "path" in message and message.isprintable() and len(message) < 1200, entrance
        assert not any(word in message for word in ("damaged", "there is no", "it has no")), entrance
    plt.close("all")
    assert _below(tmp_path) == before and _below(run_and_sweep[0].folder.path.parent) == inside


@pytest.mark.parametrize("form", every_nth([form for form in REFUSED if form != "nothing"], 3))
def test_commands_refuse_a_path_that_cannot_work(form, run_and_sweep, place, tmp_path, capsys):
    before = _below(tmp_path)
    inside = _below(run_and_sweep[0].folder.path.parent)
    for name, words in _commands(*run_and_sweep).items():
        path = f"{REFUSED[form]}/figure.png" if name == "show-task --out" else REFUSED[form]
        with pytest.raises(SystemExit) as end:
            main([*words, path])
        output = capsys.readouterr()
        assert end.value.code == 2 and output.err.count("\n") == 1, name
        assert "path" in output.err and "damaged" not in output.err, name
    assert _below(tmp_path) == before and _below(run_and_sweep[0].folder.path.parent) == inside


@pytest.mark.parametrize(
    "form", ["a backslash", "a newline", "an override of direction", "a lock of tensorstore"]
)
def test_a_path_that_leads_where_nothing_can_work_is_refused(
    form, run_and_sweep, tmp_path, as_users_run, monkeypatch
):
    (tmp_path / REFUSED[form]).mkdir()
    monkeypatch.chdir(tmp_path / REFUSED[form])
    for entrance, call in _entrances(*run_and_sweep).items():
        with pytest.raises(ValueError, match="^`.*must lead to a path without") as refusal:
            call("run.gif" if entrance == "save_animation" else "run")
        assert str(refusal.value).isprintable(), entrance
    plt.close("all")
    assert _below(tmp_path) == [str(tmp_path / REFUSED[form])]


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


ANSWERS = {
    "a path that it cannot parse": 'Error parsing object member "kvstore": Invalid file path: "a/../b/"',
    "too many open files": "RESOURCE_EXHAUSTED: Failed to open: Too many open files [os_error_code='24']",
    "as older versions say it": "Error opening file [OS error 13: EACCES Permission denied]",
    "a stale handle": "UNKNOWN: Error reading local file: Stale file handle [os_error_code='116']",
}


@pytest.mark.parametrize(
    ("step", "answer"),
    [("_open_array", answer) for answer in ANSWERS]
    + [("array", answer) for answer in ANSWERS if "parse" not in answer],
)
def test_only_what_is_read_from_bytes_is_damage(answer, step, run_and_sweep, monkeypatch):
    folder = run_and_sweep[0].folder.path

    def fail(*_, **__):
        raise ValueError(ANSWERS[answer])

    module = tensorstore if step == "array" else _stored_array
    monkeypatch.setattr(module, step, fail)
    with pytest.raises(OSError, match="loss|batch|member"):
        _ = open_history(folder).loss.values
