"""Sweeps that are trained: cells by number, in any order, killed, failed, and read together."""

import contextlib
import dataclasses
import importlib.util
import shutil
import subprocess
import sys

import numpy as np
import pytest
from small_training import assert_same
from swept_runs import Swept
from tensorboard_events import read_events

from popsim._shared.user_code import users_code
from popsim.cli import main
from popsim.experiments import open_run, run_experiment
from popsim.report import report_sweep
from popsim.store.identity import FolderLockedError
from popsim.sweeps import CellsFailed, Sweep, make_sweep, open_sweep, run_cell, run_sweep, verify_sweep
from popsim.sweeps.overview import state_text

pytestmark = pytest.mark.slow

SWEEP = Sweep(Swept(), {"rate": (1e-3, 1e-2), "n_units": (5, 4)}, range(1, 4))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The sweep, its two cells trained in an order of their own."""
    path = tmp_path_factory.mktemp("sweeps") / "sw"
    make_sweep(SWEEP, path)
    for number in (1, 0):
        run_cell(path, number)
    return path


@pytest.fixture
def copied(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "sw")


@pytest.mark.full
def test_the_cells_are_one_population(trained, tmp_path):
    """The same where it is divided further, in blocks of another width; a member, as one trained alone."""
    make_sweep(dataclasses.replace(SWEEP, members_per_cell=2), tmp_path / "divided")
    opened, divided = open_sweep(trained), run_sweep(tmp_path / "divided")
    assert divided.sweep.n_cells == 6
    names = ["rate", "n_units", "seed"]
    ours, cells = (one.summary(n_units=5).sort_values(names) for one in (opened, divided))
    assert len(cells) == 6 and (cells[names].values == ours[names].values).all()
    np.testing.assert_allclose(cells["validation_loss"], ours["validation_loss"], rtol=1e-5)
    run = run_experiment(Swept(n_members=1, first_member=2, n_units=4), tmp_path / "alone", quiet=True)
    for one in (opened, divided):
        chosen = one.where(rate=1e-2, n_units=4, seed=2)
        np.testing.assert_allclose(chosen.load().loss.values, run.history.loss.values, rtol=1e-5)
        for name in ("recurrent_weights", "input_weights", "bias", "readout"):
            own, other = (getattr(ensemble.network, name) for ensemble in (chosen.ensemble(), run.ensemble))
            assert_same(own, other, rtol=1e-4, atol=1e-6)


def test_the_history_is_that_of_the_cells(trained):
    opened = open_sweep(trained)
    history = opened.load()
    for number in range(SWEEP.n_cells):
        own = open_run(opened.folder.cell(number).path).history
        here = history.isel(member=SWEEP.members_of(number))
        for name in ("loss", "validation_loss", "learning_rate"):
            np.testing.assert_array_equal(here[name].values, own[name].values)
        assert here.seed.values.tolist() == own.seed.values.tolist()
    np.testing.assert_array_equal(history.loss[2, [7, 1, 5]].values, history.loss.values[2, [7, 1, 5]])
    assert opened.total_loss is opened.total_loss and opened.total_loss.shape == (8, 12)
    assert history.attrs["left_out"] and "trainables.network.bias" not in history
    odd = opened.where(n_units=4, seed=[1, 3])
    part = odd.load("trainables.network.bias")["trainables.network.bias"]
    assert part.shape == (2, 4, 4) and part[0, 3].shape == (4,)
    whole = part.values
    np.testing.assert_array_equal(part.isel(member=[3, 1], trainables_batch=1).values, whole[1, [3, 1]])
    np.testing.assert_array_equal(part[:, 2:4, 1].values, whole[:, 2:4, 1])
    assert part["setting.n_units"].values.tolist() == [4] * 4
    assert opened.ensemble(n_units=4, seed=[1, 3]).network.bias.shape == (4, 4)
    for use, said in (
        (opened.ensemble, "by values of n_units"),
        (lambda: opened.where(n_unit=4), "got 'n_unit'. Perhaps you meant n_units"),
        (lambda: opened.where(seed=9), "`seed` must be of"),
    ):
        with pytest.raises(ValueError, match=said):
            use()


def test_the_summary_has_a_row_for_each_member(trained):
    opened = open_sweep(trained)
    summary = opened.summary()
    assert len(summary) == SWEEP.n_members == 12 and set(summary["state"]) == {"finished"}
    assert summary["result_tau_ms"].notna().all() and summary["frozen_from"].isna().all()
    assert len(summary.query("result_tau_ms > 0 and rate == 0.01")) == 6
    assert summary.attrs["titles"] == {"result_tau_ms": "tau (ms)"}
    assert all(name.isidentifier() for name in summary.columns)
    run = opened.run(1)
    rows = summary[summary["cell"] == 1]
    results = run.results()
    assert [column.name for column in results.columns] == ["rate", "seed", "tau"]
    expected = rows[["rate", "seed"]].map(str).values.tolist()
    assert [list(row.values[:2]) for row in results.rows] == expected
    np.testing.assert_allclose(
        rows["validation_loss"], run.history.total_validation_loss.values[-1], rtol=1e-6
    )


def test_what_is_missing_is_trained_and_nothing_else(copied, trained, capsys):
    losses = open_sweep(copied).load().loss
    expected = losses.values
    shutil.rmtree(copied / "cells" / "000001")
    before = {path: path.stat().st_mtime_ns for path in (copied / "cells").rglob("*") if path.is_file()}
    main(["resume", str(copied), "--quiet", "--tensorboard"])
    assert "2 finished" in capsys.readouterr().out
    after = {path: path.stat().st_mtime_ns for path in (copied / "cells").rglob("*") if path.is_file()}
    assert {path: after[path] for path in before} == before
    events = read_events(copied / "cells/000001/tensorboard")["validation/total"]
    assert [step for step, _ in events] == [3, 7] and verify_sweep(copied) == {}
    assert_same(open_sweep(copied).run(1).ensemble, open_sweep(trained).run(1).ensemble)
    np.testing.assert_array_equal(losses.values, expected)  # of a history that was opened before
    main(["sweep", "run", str(copied), "--cell", "1", "--tensorboard"])
    assert "tau (ms)" in capsys.readouterr().out  # and nothing else was done
    assert after == {p: p.stat().st_mtime_ns for p in (copied / "cells").rglob("*") if p.is_file()}


def test_cells_of_different_code_are_told(copied, monkeypatch, capsys):
    shutil.rmtree(copied / "cells" / "000001")
    assert "code" not in open_sweep(copied).summary().columns
    monkeypatch.setattr(
        "popsim.experiments.run_options.users_code",
        lambda *parts: users_code(*parts) | {"Swept.build_task": "of today"},
    )
    with pytest.warns(UserWarning, match=r"made with other code than this one: `Swept\.build_task` differ"):
        run_cell(copied, 1)
    with pytest.warns(UserWarning, match="different code, see the column `code`"):
        rows = open_sweep(copied).summary()
    assert rows["code"].nunique() == 2 and rows.groupby("cell")["code"].nunique().eq(1).all()
    main(["info", str(copied)])
    assert "cells were trained by different code" in capsys.readouterr().out


@pytest.mark.full
def test_cells_fail_alone(tmp_path, capsys):
    sweep = Sweep(Swept(n_members=1), {"label": ("good", "unlucky", "fine")}, range(1))
    opened = make_sweep(sweep, tmp_path / "sw")
    with pytest.raises(CellsFailed, match="1 of 3 cells is not finished: 1; the first: the label is unlucky"):
        run_sweep(opened.folder.path)
    now = open_sweep(tmp_path / "sw")
    assert now.counts["finished"] == 2 and "the label is unlucky" in now.problem_of(1)
    assert "cell 1: stopped, 8 of 8 batches saved: failed on" in state_text(now)
    with pytest.raises(SystemExit) as end:
        main(["resume", str(tmp_path / "sw"), "--quiet"])
    assert end.value.code == 1 and "1 of 3 cells" in capsys.readouterr().err
    assert "the label is unlucky" in report_sweep(now).page.read_text()


def test_show_export_and_info(copied, capsys, tmp_path):
    def run(*words):
        with contextlib.suppress(SystemExit):
            main([*map(str, words)])
        return "".join(capsys.readouterr())

    run("show", copied)
    page = (copied / "report.html").read_text()
    assert "Best settings" in page and "seeds" in page and page.count("<figure>") == 5
    assert (copied / "figures" / "rate_n_units.png").exists()
    run("export", copied, "--summary", tmp_path / "s.csv", "--history", tmp_path / "h.nc")
    assert len((tmp_path / "s.csv").read_text().splitlines()) == 13
    find = importlib.util.find_spec
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", lambda name: None if name == "dask" else find(name))
        assert "where dask is installed" in run("export", copied, "--history", tmp_path / "large.nc")
    assert "what was checked is as it was written" in run("info", copied, "--verify")
    assert "must be one of" in run("show", copied, "--score", "tau")
    assert "must be given --summary, --history, got none" in run("export", copied)
    assert "use --overwrite" in run("export", copied, "--summary", tmp_path / "s.csv")
    shard = next((copied / "cells" / "000001" / "history.zarr" / "loss").glob("c.*"))
    shard.write_bytes(shard.read_bytes()[:-1])
    assert "DAMAGED: cells/000001/history.zarr" in run("info", copied, "--verify")


HOLDING = """
import pathlib, sys
from popsim.store import lock_folder
with lock_folder(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_of_two_processes_that_take_a_cell_one_stops(copied):
    """As two machines that see one folder."""
    place, told = copied / "cells" / "000001", []
    shutil.rmtree(place)
    place.mkdir()
    command = [sys.executable, "-c", HOLDING, str(place)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(FolderLockedError, match="must be free, got .*000001: process .* holds it"):
            run_cell(copied, 1)
        left = run_sweep(copied, tell=told.append)
        assert left.unfinished_cells == [1] and "cell 1 is left to process" in told[-1]
        table = state_text(open_sweep(copied))
        assert "cell 1: being trained by process" in table and "1 finished, 1 being trained" in table
    assert open_sweep(copied).counts["not started"] == 1
