"""Populations divided over cells, which select among one another: the same as in one ensemble, to the bit."""

import collections
import concurrent.futures
import dataclasses
import os
import signal
import subprocess
import sys
import time
import types

import distributed
import numpy as np
import pytest
from repository import HELPERS
from short_form import every_nth
from small_sweep import SWEEP
from small_training import assert_same
from swept_runs import Swept

from popsim.cli import main
from popsim.experiments import resume_run
from popsim.report import report_sweep
from popsim.store import CorruptDataError, MismatchError, lock_folder, read_json
from popsim.sweeps import Sweep, executors, make_sweep, run_cell, run_sweep, verify_sweep
from popsim.sweeps.cell_training import CellPopulation, SelectionPending, read_selections
from popsim.sweeps.cells import SweepCell
from popsim.sweeps.executors import CellOutcome, Work
from popsim.sweeps.progress import SweepProgress
from popsim.sweeps.running import _follow
from popsim.sweeps.slurm import SlurmOptions, write_slurm_script
from popsim.training import ancestors
from popsim.training.population_updates.divided_population import StoppedForSelection

pytestmark = pytest.mark.slow

SELECTING = Swept(n_batches=6, log_step=3, select_every=3)
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
        first = sweep.members_of(number)[0]
        np.testing.assert_array_equal(sweep.members_at_places(number)[places], first + np.arange(places.size))


def test_what_others_need_is_checked_and_named(at_once, tmp_path):
    """The scores of other cells, and the checkpoints from which a cell inherits; then all select."""
    opened = make_sweep(PARTS, tmp_path / "sw")
    folder, (heir, other) = opened.folder, (1, 0)
    parents, own = at_once.load("parent").parent.values[0], PARTS.places_of(heir)
    assert not np.isin(parents[own], own).all()  # it inherits from the other one
    for number in (heir, other):
        with pytest.raises(SelectionPending):
            run_cell(folder.path, number)
    scores, checkpoint = folder.selection(other), folder.cell(other).checkpoints / "000000003.safetensors"
    good, weights = scores.read_bytes(), checkpoint.read_bytes()
    population = CellPopulation(opened, heir)
    read = {
        scores: lambda: population.gather_scores(3, np.zeros(6)),
        checkpoint: lambda: population.read_part(other, 3, {}),
    }
    for file, damage, said in (
        (scores, folder.selection(heir).read_bytes(), "must be of this cell of the sweep"),
        (scores, good.replace(b"cell", b"sell"), r"\.json must match its checksum"),
        (checkpoint, b"", "000000003"),
        (checkpoint, None, "from which cell 1 inherits; it is missing. If it cannot be restored"),
    ):
        file.unlink() if damage is None else file.write_bytes(damage)
        with pytest.raises((CorruptDataError, MismatchError), match=said):
            read[file]()
        assert verify_sweep(folder.path)
        scores.write_bytes(good)
        checkpoint.write_bytes(weights)
    same(run_sweep(folder.path, [heir]), at_once)  # with the cell that selects with it
    assert verify_sweep(folder.path) == {}
    folder.selection(heir).unlink()  # which does not come again, as the cell is finished
    work = Work(opened, collections.deque(), SweepProgress(opened, [other]), print, bool)
    failed, _ = _follow(((number, CellOutcome("waits")) for number in (other,)), work)
    assert failed[other].startswith("it waits at a selection for the scores of 1. If it cannot be restored")


def test_cells_that_select_are_trained_together_by_one_process(tmp_path, capsys):
    opened = make_sweep(SWEEP, tmp_path / "sw")
    for options in ([], ["--cell", "1"], ["--workers", "1"], ["--scheduler", "tcp://nowhere:1"]):
        with pytest.raises(SystemExit) as end:
            main(["--import", "swept_runs", "sweep", "run", str(tmp_path / "sw"), "--cell", "0", *options])
        assert end.value.code == 2
        assert "select among one another. To train all of them" in capsys.readouterr().err
    with pytest.raises(ValueError, match="`path` must be of a sweep whose cells are trained each by itself"):
        write_slurm_script(opened, SlurmOptions())
    assert not (tmp_path / "sw" / "logs").exists()
    words = ["sweep", "--config", str(opened.folder.path), "--out", str(tmp_path / "new"), "--only-make"]
    main(["--import", "swept_runs", *words])
    printed = capsys.readouterr().out
    assert "Next, to train all cells" in printed and "--cell" not in printed and "--slurm" not in printed


class CountingCells:
    """Four cells that only count batches and take their scores from their places, in a random order.

    They are held by others at times, lose their last checkpoint, see late that a selection is decided, and
    are repeated where their worker was killed after they had come to one.
    """

    def __init__(self, opened, n_batches, seed):
        self.opened, self.n_batches, self.rng = opened, n_batches, np.random.default_rng(seed)
        self.saved, self.seen = [2] * opened.n_cells, {}

    def __call__(self, cells):
        while cells:
            cells.rotate(self.rng.integers(len(cells)))
            number = cells.popleft()
            yield number, self.train(number)

    def train(self, number):
        population = CellPopulation(self.opened, number)
        chance = self.rng.random()
        if chance < 0.2:
            return CellOutcome("left", "process 1")
        if chance < 0.4:
            self.saved[number] = max(2, self.saved[number] - 2)
        if chance > 0.8 and self.saved[number] in read_selections(self.opened, number):
            return CellOutcome("waits")
        while (batch := self.saved[number]) < self.n_batches:
            try:
                scores = population.gather_scores(batch, 100.0 * batch + population.own_places)
            except StoppedForSelection:
                population.write_pending()
                if self.rng.random() < 0.3:  # its worker is killed before it can say so, and Dask repeats it
                    continue
                return CellOutcome("waits")
            self.seen.setdefault((number, batch), []).append(scores)
            self.saved[number] += 2
        return CellOutcome()


@pytest.mark.parametrize("seed", every_nth(range(10), 3))
def test_all_cells_of_a_population_select_by_the_same_scores(seed, tmp_path, monkeypatch):
    monkeypatch.setattr(SweepCell, "read", lambda cell: types.SimpleNamespace(run_id=None))
    experiment = dataclasses.replace(SELECTING, n_batches=14, select_every=2)
    sweep = Sweep(experiment, {"rate": (1e-3, 1e-2)}, range(4), members_per_cell=2)
    opened = make_sweep(sweep, tmp_path / "sw")
    cells, told = CountingCells(opened, 14, seed), []
    queue = collections.deque(range(4))
    work = Work(opened, queue, SweepProgress(opened, range(4)), told.append, lambda: False)
    assert _follow(cells(queue), work) == (dict.fromkeys(range(4), ""), None)
    assert any("is awaited: process 1 trains it up to the next selection" in line for line in told)
    assert set(cells.seen) == {(number, batch) for number in range(4) for batch in range(2, 14, 2)}
    for (_, batch), scores in cells.seen.items():
        np.testing.assert_array_equal(scores, [100.0 * batch + np.arange(8)] * len(scores))
    assert all([*read_selections(opened, number)] == [8, 10, 12] for number in range(4))


def wait_for(found):
    """Wait until something is found, and return it."""
    until = time.monotonic() + 600
    while not (value := found()):
        assert time.monotonic() < until
        time.sleep(0.01)
    return value


def has_selected(folder, n_batches):
    return folder.selection(0).exists() and n_batches in read_json(folder.selection(0))["selections"]


def process_behind(folder):
    """The process of the cell that is furthest behind, once another is ahead."""
    cells = map(folder.cell, range(4))
    steps = [max([0, *(int(file.stem) for file in cell.checkpoints.glob("*.safetensors"))]) for cell in cells]
    process = int((folder.holder(int(np.argmin(steps))) or f"process {os.getpid()}").split()[1])
    return process if min(steps) < max(steps) and max(steps) > 2 and process != os.getpid() else None


@pytest.mark.full  # in short: test_all_cells_of_a_population_select_by_the_same_scores
def test_a_population_selects_the_same_in_processes(tmp_path, monkeypatch):
    """Of one cell the process is killed as another is ahead; one is held longer than is waited for."""
    monkeypatch.setattr(executors, "SECONDS_HELD", -1)
    monkeypatch.setattr(executors, "SECONDS_TO_RETRY", 0.01)
    experiment = Swept(n_batches=14, batch_size=2, log_step=7, select_every=2)
    whole = Sweep(experiment, {"rate": (1e-3, 1e-2)}, range(4), member_batch_size=1)
    parts = dataclasses.replace(whole, members_per_cell=2)
    assert parts.n_cells == 4 and whole.n_cells == 1
    make_sweep(whole, tmp_path / "whole")
    folder = make_sweep(parts, tmp_path / "sw").folder
    folder.cell(3).path.mkdir()
    told = []

    def hold():
        with lock_folder(folder.cell(3).path):
            wait_for(lambda: [line for line in told if "cell 3 is awaited" in line])

    with concurrent.futures.ThreadPoolExecutor() as pool:
        held = pool.submit(hold)
        killed = pool.submit(lambda: os.kill(wait_for(lambda: process_behind(folder)), signal.SIGKILL))
        finished = run_sweep(folder.path, n_workers=2, tell=told.append)
        assert held.result() is killed.result() is None
    assert [*read_selections(finished, 0)] == [8, 10, 12]
    assert verify_sweep(folder.path) == {}
    same(finished, run_sweep(tmp_path / "whole"))


@pytest.mark.full  # in short: test_all_cells_of_a_population_select_by_the_same_scores
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of distributed, as its workers are killed
def test_a_population_selects_the_same_on_dask(tmp_path):
    """64 members in four cells. Its client is killed after a selection, and later a worker."""
    long = dataclasses.replace(SELECTING, n_batches=30, log_step=20, select_every=10)
    whole = Sweep(long, {"rate": (1e-3, 1e-2)}, range(32), member_batch_size=4)
    make_sweep(whole, tmp_path / "whole")
    opened = make_sweep(dataclasses.replace(whole, members_per_cell=16), tmp_path / "sw")
    folder, path = opened.folder, str(opened.folder.path)
    assert (opened.sweep.n_members, opened.sweep.n_cells) == (64, 4)
    command = [sys.executable, "-m", "popsim.cli", "--import", "swept_runs", "sweep", "run", path]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HELPERS), os.environ.get("PYTHONPATH", "")])}
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        began = subprocess.Popen([*command, "--scheduler", cluster.scheduler_address], env=env)
        wait_for(lambda: has_selected(folder, "10"))
        began.kill()
        began.wait()
        worker = next(iter(client.run(os.getpid).values()))

        def kill():
            wait_for(lambda: has_selected(folder, "20"))
            os.kill(worker, signal.SIGKILL)

        with concurrent.futures.ThreadPoolExecutor() as pool:
            killed = pool.submit(kill)
            finished = run_sweep(path, scheduler=client)
            assert killed.result() is None
    assert verify_sweep(path) == {}
    same(finished, run_sweep(tmp_path / "whole"))
