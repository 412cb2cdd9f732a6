"""Populations divided over cells, which select among one another: the same as in one ensemble, to the bit."""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import distributed
import numpy as np
import pytest
from repository import HELPERS
from small_sweep import SWEEP
from small_training import assert_same
from swept_runs import Swept

from popsim.cli import main
from popsim.experiments import resume_run
from popsim.report import report_sweep
from popsim.store import CorruptDataError, MismatchError, read_sealed_json, write_sealed_json
from popsim.store.identity import FolderLockedError
from popsim.sweeps import (
    CellsFailed,
    Sweep,
    make_sweep,
    run_cell,
    run_in_processes,
    run_sweep,
    verify_sweep,
)
from popsim.sweeps.selection import SelectionPending, selecting
from popsim.sweeps.slurm import SlurmOptions, write_slurm_script
from popsim.training import ancestors

pytestmark = pytest.mark.slow

SELECTING = Swept(n_batches=9, log_step=3, select_every=3)
WHOLE = Sweep(SELECTING, {"rate": (1e-3, 1e-2, 3e-2)}, range(4), member_batch_size=3)
PARTS = dataclasses.replace(WHOLE, members_per_cell=6)


def same(divided, whole):
    """Compare everything that is kept, member by member, and the lines of descent."""
    labels = [*whole.sweep.axes, "seed"]
    ours, theirs = (one.summary().sort_values(labels).index.values for one in (whole, divided))
    here, there = whole.load(), divided.load()
    assert {"parent", "selection_score", "hyperparameter.learning_rate"} <= set(here.data_vars)
    assert set(here.data_vars) == set(there.data_vars)
    place = np.argsort(theirs)  # of each member of the divided one in the common order
    for name in here.data_vars:
        expected, found = here[name].sel(member=ours).values, there[name].sel(member=theirs).values
        if name == "parent":
            expected, found = np.argsort(ours)[expected.astype(int)], place[found.astype(int)]
        np.testing.assert_array_equal(found, expected, err_msg=name)
    lines = ancestors(there.parent.values)[:, theirs]
    np.testing.assert_array_equal(place[lines], np.argsort(ours)[ancestors(here.parent.values)[:, ours]])
    ensembles = (one.ensemble().network.bias for one in (divided, whole))
    found, expected = (own[order] for own, order in zip(ensembles, (theirs, ours), strict=True))
    assert_same(found, expected)


@pytest.fixture(scope="module")
def at_once(tmp_path_factory):
    path = tmp_path_factory.mktemp("selecting") / "whole"
    make_sweep(WHOLE, path)
    return run_sweep(path)


@pytest.mark.full  # in short: test_what_others_need_is_checked_and_named
def test_cells_select_as_one_ensemble_does(at_once, tmp_path):
    """Each trained up to a selection in turn, after one has stopped there and was asked to go on alone."""
    path = tmp_path / "sw"
    opened = make_sweep(PARTS, path)
    assert (at_once.sweep.n_cells, PARTS.n_cells) == (1, 2) and PARTS.selects_across_cells
    with pytest.raises(SelectionPending, match="000000 is saved after 3 batches, and waits for the other"):
        run_cell(path, 0)
    with pytest.raises(ValueError, match="must not be a cell that selects among the members of others"):
        resume_run(opened.folder.cell(0).path)
    finished = run_sweep(path)
    same(finished, at_once)
    report = report_sweep(finished)
    shown = {path.stem for path in report.figures}
    assert {"genealogy", "schedule_learning_rate"} <= shown and "Populations are" in report.page.read_text()
    parents = at_once.load().parent.values
    assert np.any(parents != np.arange(12)) and np.any(parents[:, :6] >= 6)  # also across the cells
    with pytest.raises(ValueError, match="the parents of the whole population"):
        ancestors(finished.where(cell=1).load().parent.values)


def test_places_are_those_of_the_whole_however_it_is_divided():
    """Members of settings of the model or the task are populations of their own."""
    axes = {"hidden_noise": (0.0, 0.1), "rate": (1e-3, 1e-2, 3e-2), "n_units": (4, 5)}
    sweep = Sweep(SELECTING, axes, range(3, 8), members_per_cell=4)
    assert sweep.member_axes == ("rate",) and sweep.cell_axes == ("hidden_noise", "n_units")
    whole = dataclasses.replace(sweep, members_per_cell=None)
    assert whole.n_cells == 4 and not whole.selects_across_cells
    for number in range(sweep.n_cells):
        cells = sweep.population_of(number)
        assert number in cells and len(cells) == sweep.n_cells // 4
        labels, expected = sweep.labels_of(number), whole.labels_of(number // len(cells))
        places = sweep.places_of(number)
        for name, values in labels.items():
            assert [expected[name][place] for place in places] == values
        first = sweep.members_of(number).start
        np.testing.assert_array_equal(sweep.members_at_places(number)[places], first + np.arange(places.size))


def begin(path):
    """Make a sweep and train its cells up to the first selection."""
    opened = make_sweep(PARTS, path)
    with selecting(opened, without_lock=False) as rounds:
        for number in range(PARTS.n_cells):
            with pytest.raises(SelectionPending) as pending:
                run_cell(path, number)
            rounds.add(number, pending.value.n_batches, pending.value.scores)
    return opened.folder


def test_what_others_need_is_checked_and_named(at_once, tmp_path):
    """The scores of a population, and the checkpoints of other cells from which a cell inherits."""
    folder = begin(tmp_path / "sw")
    parents = at_once.load("parent").parent.values[0]
    heir = next(n for n in (0, 1) if not np.isin(parents[PARTS.places_of(n)], PARTS.places_of(n)).all())
    scores = folder.selections / "000000.json"
    checkpoint = folder.cell(1 - heir).checkpoints / "000000003.safetensors"
    good, weights = scores.read_bytes(), checkpoint.read_bytes()
    foreign = tmp_path / "foreign.json"
    write_sealed_json(foreign, {**read_sealed_json(scores), "sweep": "0" * 32})
    for file, damage, said in (
        (scores, foreign.read_bytes(), "must be of this population of the sweep"),
        (scores, good.replace(b"cells", b"sells"), r"000000\.json must match its checksum"),
        (checkpoint, b"", "000000003"),
        (checkpoint, None, f"from which cell {heir} inherits; it is missing. If it cannot be restored"),
    ):
        file.unlink() if damage is None else file.write_bytes(damage)
        with pytest.raises((CorruptDataError, MismatchError), match=said):
            run_cell(folder.path, heir)
        assert verify_sweep(folder.path)
        scores.write_bytes(good)
        checkpoint.write_bytes(weights)
    same(run_sweep(folder.path), at_once)
    assert verify_sweep(folder.path) == {}
    scores.unlink()
    assert [*verify_sweep(folder.path)] == ["selections/000000.json"]
    shutil.rmtree(folder.cell(1).path)
    with pytest.raises(CellsFailed, match="before batch 3, whose scores are lost. If it cannot be restored"):
        run_sweep(folder.path)


def test_cells_that_select_are_trained_together_by_one_process(tmp_path, capsys):
    opened = make_sweep(SWEEP, tmp_path / "sw")
    for options in ([], ["--cell", "1"], ["--workers", "1"], ["--scheduler", "tcp://nowhere:1"]):
        with pytest.raises(SystemExit) as end:
            main(["--import", "swept_runs", "sweep", "run", str(tmp_path / "sw"), "--cell", "0", *options])
        assert end.value.code == 2
        assert "select among one another. To train all of them" in capsys.readouterr().err
    for run in (run_sweep, run_in_processes):
        with pytest.raises(ValueError, match="`cells` must have all cells of a population, .*: also 1"):
            run(tmp_path / "sw", [0])
    with pytest.raises(ValueError, match="`path` must be of a sweep whose cells are trained each by itself"):
        write_slurm_script(opened, SlurmOptions())
    assert not (tmp_path / "sw" / "logs").exists()
    words = ["sweep", "--config", str(opened.folder.config), "--out", str(tmp_path / "new"), "--only-make"]
    main(["--import", "swept_runs", *words])
    printed = capsys.readouterr().out
    assert "Next, to train all cells" in printed and "--cell" not in printed and "--slurm" not in printed
    errors = []

    def train():
        try:
            run_sweep(tmp_path / "sw")
        except FolderLockedError as error:
            errors.append(str(error))

    with selecting(opened, without_lock=False):
        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
    assert "selections: another thread of this process holds it" in errors[0]
    assert not [*(tmp_path / "sw" / "cells").iterdir()]


def wait_for_selection(path, n_batches):
    until = time.monotonic() + 600
    while f'"{n_batches}"' not in (path.read_text() if path.exists() else ""):
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.full  # in short: test_what_others_need_is_checked_and_named
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of distributed, as its workers are killed
def test_a_population_selects_the_same_on_dask(tmp_path):
    """Its client is killed after a selection, and later a worker."""
    long = dataclasses.replace(SELECTING, n_batches=30, log_step=20, select_every=10)
    whole = Sweep(long, {"rate": (1e-3, 1e-2)}, range(8), member_batch_size=4)
    make_sweep(whole, tmp_path / "whole")
    path = tmp_path / "sw"
    scores = path / "selections" / "000000.json"
    opened = make_sweep(dataclasses.replace(whole, members_per_cell=8), path)
    assert opened.sweep.n_cells == 2
    command = [sys.executable, "-m", "popsim.cli", "--import", "swept_runs", "sweep", "run", str(path)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HELPERS), os.environ.get("PYTHONPATH", "")])}
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        began = subprocess.Popen([*command, "--scheduler", cluster.scheduler_address], env=env)
        wait_for_selection(scores, 10)
        began.send_signal(signal.SIGKILL)
        began.wait()
        worker = next(iter(client.run(os.getpid).values()))

        def kill():
            wait_for_selection(scores, 20)
            os.kill(worker, signal.SIGKILL)

        thread = threading.Thread(target=kill)
        thread.start()
        finished = run_in_processes(path, scheduler=client)
        thread.join()
    assert verify_sweep(path) == {}
    same(finished, run_sweep(tmp_path / "whole"))
