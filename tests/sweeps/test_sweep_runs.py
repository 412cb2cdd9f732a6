"""Sweeps that are trained: cells by number, in any order, killed, failed, and read together."""

import dataclasses
import shutil
import subprocess
import sys

import numpy as np
import pytest
from small_experiment import stopping_after
from small_training import assert_same
from swept_runs import Swept
from tensorboard_events import read_events

from popsim.cli import main
from popsim.experiments import RunStopped, open_run, run_experiment
from popsim.report import report_sweep
from popsim.store.identity import FolderLockedError
from popsim.sweeps import CellsFailed, Sweep, make_sweep, open_sweep, run_cell, run_sweep, verify_sweep
from popsim.sweeps.tables import sweep_table

pytestmark = pytest.mark.slow

AXES = {"rate": (1e-3, 1e-2), "hidden_noise": (0.0, 0.1), "n_units": (5, 4)}
SWEEP = Sweep(Swept(), AXES, range(1, 4), members_per_cell=8)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The sweep, its cells trained in an order of their own."""
    path = tmp_path_factory.mktemp("sweeps") / "sw"
    make_sweep(SWEEP, path)
    for number in (2, 0, 3, 1):
        run_cell(path, number)
    return path


@pytest.fixture
def copied(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "sw")


@pytest.mark.full
def test_the_cells_are_one_population(trained, tmp_path):
    """The same as all members of a size in one ensemble, also where blocks are of another width."""
    opened = open_sweep(trained)
    whole = dataclasses.replace(SWEEP, members_per_cell=None)
    make_sweep(whole, tmp_path / "whole")
    run_cell(tmp_path / "whole", 0)
    at_once = open_sweep(tmp_path / "whole")
    names = ["rate", "hidden_noise", "n_units", "seed"]
    cells = opened.summary(n_units=5).sort_values(names)
    ours = at_once.summary(n_units=5).sort_values(names)
    assert len(cells) == 12 and (cells[names].values == ours[names].values).all()
    np.testing.assert_allclose(cells["validation_loss"], ours["validation_loss"], rtol=1e-5)
    own, other = (
        one.history["trainables.network.recurrent_weights"]
        for one in (opened.where(n_units=5), at_once.where(n_units=5))
    )
    np.testing.assert_allclose(
        own.sel(member=cells.index).values, other.sel(member=ours.index).values, rtol=1e-5, atol=1e-7
    )


@pytest.mark.full
def test_a_member_alone_is_what_it_is_in_a_sweep(trained, tmp_path):
    """Trained by an experiment that knows of no grid."""
    opened = open_sweep(trained)
    alone = Swept(n_members=1, first_member=2, rate=1e-2, hidden_noise=0.0, n_units=4)
    run = run_experiment(alone, tmp_path / "alone", quiet=True)
    chosen = opened.where(rate=1e-2, hidden_noise=0.0, n_units=4, seed=2)
    assert chosen.n_members == 1
    np.testing.assert_allclose(chosen.history.loss.values, run.history.loss.values, rtol=1e-5)
    for name in ("recurrent_weights", "input_weights", "bias", "readout"):
        own, other = (getattr(ensemble.network, name) for ensemble in (chosen.ensemble(), run.ensemble))
        assert_same(own, other, rtol=1e-4, atol=1e-6)


def test_the_history_is_that_of_the_cells(trained):
    opened = open_sweep(trained)
    history = opened.history
    firsts = SWEEP.first_members()
    for number in range(SWEEP.n_cells):
        own = open_run(opened.folder.cell(number).path).history
        here = history.isel(member=slice(firsts[number], firsts[number + 1]))
        for name in ("loss", "validation_loss", "learning_rate"):
            np.testing.assert_array_equal(here[name].values, own[name].values)
        assert here.seed.values.tolist() == own.seed.values.tolist()
    assert history.attrs["left_out"] and "trainables.network.bias" not in history
    odd = opened.where(n_units=4, seed=[1, 3])
    part = odd.history["trainables.network.bias"]
    assert part.shape == (2, 8, 4) and part[0, 5].shape == (4,)
    whole = part.values
    np.testing.assert_array_equal(part.isel(member=[6, 1], trainables_batch=1).values, whole[1, [6, 1]])
    np.testing.assert_array_equal(part[:, 2:5, 1].values, whole[:, 2:5, 1])
    assert part["setting.n_units"].values.tolist() == [4] * 8
    assert opened.ensemble(n_units=4, seed=[1, 3]).network.bias.shape == (8, 4)
    with pytest.raises(ValueError, match="by values of n_units"):
        opened.ensemble()
    with pytest.raises(ValueError, match="got 'n_unit'. Perhaps you meant n_units"):
        opened.where(n_unit=4)
    with pytest.raises(ValueError, match="`seed` must be of"):
        opened.where(seed=9)


def test_the_summary_has_a_row_for_each_member(trained):
    opened = open_sweep(trained)
    summary = opened.summary()
    assert len(summary) == SWEEP.n_members == 24 and set(summary["state"]) == {"finished"}
    assert summary["result_tau_ms"].notna().all() and summary["frozen_from"].isna().all()
    assert len(summary.query("result_tau_ms > 0 and rate == 0.01")) == 12
    assert summary.attrs["titles"] == {"result_tau_ms": "tau (ms)"}
    assert all(name.isidentifier() for name in summary.columns)
    run = opened.run(3)
    rows = summary[summary["cell"] == 3]
    results = run.results()
    assert [column.name for column in results.columns] == ["rate", "hidden_noise", "seed", "tau"]
    expected = rows[["rate", "hidden_noise", "seed"]].map(str).values.tolist()
    assert [list(row.values[:3]) for row in results.rows] == expected
    np.testing.assert_allclose(
        rows["validation_loss"], run.history.total_validation_loss.values[-1], rtol=1e-6
    )


def test_the_index_is_made_again_from_the_cells(copied):
    expected = open_sweep(copied)
    expected.folder.index.unlink()
    slow = open_sweep(copied)  # from the cell.json of each cell
    for number in range(SWEEP.n_cells):
        expected.folder.cell(number).entry.unlink()
    expected.folder.index.write_bytes(b"damaged")
    slowest = open_sweep(copied)  # from the runs
    for own in (slow, slowest):
        assert own.summary().equals(expected.summary()) and own.history.equals(expected.history)
    shutil.rmtree(expected.folder.cell(1).path)
    (expected.folder.cell(2).path / "summary.json").write_text("{}")
    now = open_sweep(copied)
    assert [now.state_of(number) for number in range(4)] == ["finished", "not started", "damaged", "finished"]
    assert "summary.json" in now.problem_of(2)
    assert np.isnan(now.summary(cell=1)["validation_loss"]).all()
    with pytest.warns(UserWarning, match=r"are damaged, and NaN: 2; the first: .*summary\.json must match"):
        history = now.history
    for number in (1, 2):
        assert np.isnan(history.loss.sel(member=now.labels["cell"] == number).values).all()


def test_what_is_missing_is_trained_and_nothing_else(copied, trained, capsys):
    shutil.rmtree(copied / "cells" / "000001")
    before = {path: path.stat().st_mtime_ns for path in (copied / "cells").rglob("*") if path.is_file()}
    main(["--import", "swept_runs", "resume", str(copied), "--quiet", "--tensorboard"])
    assert "4 finished" in capsys.readouterr().out
    after = {path: path.stat().st_mtime_ns for path in (copied / "cells").rglob("*") if path.is_file()}
    assert {path: after[path] for path in before} == before
    events = read_events(copied / "cells/000001/tensorboard")["validation/total"]
    assert [step for step, _ in events] == [3, 7] and verify_sweep(copied) == {}
    assert_same(open_sweep(copied).run(1).ensemble, open_sweep(trained).run(1).ensemble)
    main(
        ["--import", "swept_runs", "sweep", "run", str(copied), "--cell", "1", "--tensorboard"]
    )  # does nothing
    assert "tau (ms)" in capsys.readouterr().out  # and nothing else was done
    assert after == {p: p.stat().st_mtime_ns for p in (copied / "cells").rglob("*") if p.is_file()}


@pytest.mark.full
def test_a_stopped_cell_goes_on_also_where_it_was_read_before(tmp_path):
    sweep = dataclasses.replace(SWEEP, experiment=Swept(n_batches=300, log_step=50), axes={}, seeds=range(2))
    make_sweep(sweep, tmp_path / "sw")
    with pytest.raises(RunStopped):
        run_cell(tmp_path / "sw", 0, stop=stopping_after(2))
    opened = open_sweep(tmp_path / "sw")
    assert opened.counts["stopped"] == 1 and "cell 0: stopped, " in sweep_table(opened)
    n_batches = opened.history.loss.values.shape[0]
    assert 0 < n_batches == opened.index.n_batches[0] < sweep.experiment.n_batches
    run = run_cell(tmp_path / "sw", 0)
    now = open_sweep(tmp_path / "sw")  # as in a notebook, which has read the history before
    np.testing.assert_array_equal(now.history.loss.values, run.history.loss.values)
    with pytest.raises(ValueError, match="`cell` must be 0 to 0, got 9"):
        run_sweep(tmp_path / "sw", [0, 9])
    make_sweep(sweep, tmp_path / "other")
    assert_same(run.ensemble, run_cell(tmp_path / "other", 0).ensemble)


@pytest.mark.full
def test_cells_fail_alone(tmp_path, capsys):
    sweep = Sweep(Swept(n_members=1), {"label": ("good", "unlucky", "fine")}, range(1))
    opened = make_sweep(sweep, tmp_path / "sw")
    with pytest.raises(CellsFailed, match="1 of 3 cells is not finished: 1; the first: the label is unlucky"):
        run_sweep(opened.folder.path)
    now = open_sweep(tmp_path / "sw")
    assert now.counts["finished"] == 2 and "the label is unlucky" in now.problem_of(1)
    assert "cell 1: stopped, 8 of 8 batches saved: failed on" in sweep_table(now)
    with pytest.raises(SystemExit) as end:
        main(["--import", "swept_runs", "resume", str(tmp_path / "sw"), "--quiet"])
    assert end.value.code == 1 and "1 of 3 cells" in capsys.readouterr().err
    report = report_sweep(now)
    assert "the label is unlucky" in report.page.read_text()
    foreign = open_sweep(tmp_path / "sw").folder
    shutil.rmtree(foreign.cell(1).path)
    shutil.copytree(foreign.cell(0).path, foreign.cell(1).path)  # a cell put in the place of another
    assert "must be cell 1 of this sweep" in open_sweep(tmp_path / "sw").problem_of(1)
    with pytest.raises(ValueError, match="must be cell 1 of this sweep"):
        run_cell(tmp_path / "sw", 1)


def test_show_export_and_info(copied, capsys, tmp_path):
    swept = ["--import", "swept_runs"]
    main([*swept, "show", str(copied)])
    page = (copied / "report.html").read_text()
    assert "Best settings" in page and "seeds" in page and page.count("<figure>") == 9
    assert (copied / "figures" / "rate_n_units.png").exists()
    main(
        [
            *swept,
            "export",
            str(copied),
            "--summary",
            str(tmp_path / "s.csv"),
            "--history",
            str(tmp_path / "h.nc"),
        ]
    )
    assert len((tmp_path / "s.csv").read_text().splitlines()) == 25
    main([*swept, "info", str(copied), "--verify"])
    assert "what was checked is as it was written" in capsys.readouterr().out
    for arguments, said in (
        (["show", str(copied), "--score", "tau"], "must be one of"),
        (["export", str(copied)], "must be given --summary or --history"),
        (["export", str(copied), "--summary", str(tmp_path / "s.csv")], "use --overwrite"),
    ):
        with pytest.raises(SystemExit):
            main([*swept, *arguments])
        assert said in capsys.readouterr().err
    shard = next((copied / "cells" / "000002" / "history.zarr" / "loss").glob("c.*"))
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(SystemExit):
        main([*swept, "info", str(copied), "--verify"])
    assert "DAMAGED: cells/000002/history.zarr" in capsys.readouterr().out


HOLDING = """
import pathlib, sys
from popsim.store import lock_folder
with lock_folder(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.full
def test_of_two_processes_that_take_a_cell_one_stops(copied):
    """As two machines that see one folder."""
    shutil.rmtree(copied / "cells" / "000003")
    (copied / "cells" / "000003").mkdir()
    command = [sys.executable, "-c", HOLDING, str(copied / "cells" / "000003")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(FolderLockedError, match="must be free, got .*000003: process .* holds it"):
            run_cell(copied, 3)
        told = []
        left = run_sweep(copied, tell=told.append)
        assert left.unfinished_cells == [3] and "cell 3 is left to process" in told[-1]
        table = sweep_table(open_sweep(copied))
        assert "cell 3: being trained by process" in table and "3 finished, 1 being trained" in table
    run_sweep(copied)
    assert open_sweep(copied).is_finished
