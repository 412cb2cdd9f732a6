"""Populations divided over cells, which select among one another: the same as in one ensemble, to the bit."""

import dataclasses
import itertools
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from repository import HELPERS
from small_training import assert_same
from swept_runs import Swept

from popsim.experiments import resume_run
from popsim.report import report_sweep
from popsim.store import CorruptDataError, MismatchError
from popsim.sweeps import CellsFailed, Sweep, SweepFolder, make_sweep, open_sweep, run_cell, run_sweep
from popsim.sweeps.populations import SelectionPending, Waiting
from popsim.sweeps.slurm import SlurmOptions, slurm_script
from popsim.training import SharedPopulation, ancestors

pytestmark = pytest.mark.slow

SELECTING = Swept(n_batches=9, log_step=3, select_every=3)
WHOLE = Sweep(SELECTING, {"rate": (1e-3, 1e-2, 3e-2)}, range(4), member_batch_size=3)
PARTS = dataclasses.replace(WHOLE, members_per_cell=6)


def same(divided, whole):
    """Compare everything that is kept, member by member, and the lines of descent."""
    labels = [*whole.sweep.axes, "seed"]
    ours, theirs = (one.summary().sort_values(labels).index.values for one in (whole, divided))
    here, there = whole.history, divided.history
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


@pytest.mark.full
def test_cells_select_as_one_ensemble_does(at_once, tmp_path):
    """Each trained up to a selection in turn, after one has stopped there and was asked to go on alone."""
    path = tmp_path / "sw"
    opened = make_sweep(PARTS, path)
    assert (at_once.sweep.n_cells, PARTS.n_cells) == (1, 2) and PARTS.selects_across_cells
    with pytest.raises(
        SelectionPending, match="000000 is saved after 3 batches, and waits for cell 1 of its"
    ):
        run_cell(path, 0, patience=0.0)
    with pytest.raises(ValueError, match="must not be a cell that selects among the members of others"):
        resume_run(opened.folder.cell(0).path)
    with pytest.raises(CellsFailed, match="1 of 2 .*: 0; the first: it waits for other cells"):
        run_sweep(path, [0])
    finished = run_sweep(path)
    same(finished, at_once)
    report = report_sweep(finished)
    shown = {path.stem for path in report.figures}
    assert {"genealogy", "schedule_learning_rate"} <= shown and "Populations are" in report.page.read_text()
    parents = at_once.history.parent.values
    assert np.any(parents != np.arange(12)) and np.any(parents[:, :6] >= 6)  # also across the cells
    with pytest.raises(ValueError, match="the parents of the whole population"):
        ancestors(finished.where(cell=1).history.parent.values)


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


def test_what_others_wrote_is_waited_for_and_checked(tmp_path):
    places = (np.array([0, 2]), np.array([3, 1]))

    def part(number, run_id="0" * 32):
        return SharedPopulation(tmp_path / "shared", number, places, run_id)

    rows = [{"weights": np.array([[10.0 * own], [own]])} for own in (1, 2)]
    one, other = part(0), part(1)
    one.offer(5, np.array([0.5, 0.25]), rows[0])
    assert one.has_offered(5) and (one.newest_selection(0), one.newest_selection(1)) == (5, -1)
    assert (
        one.missing_trainings(5) == [1]
        and other.missing_trainings(5, [1]) == [1]
        and other.missing_trainings(5, [0]) == []
    )
    other.offer(5, np.array([4.0, 3.0]), rows[1])
    assert one.scores(5).tolist() == [0.5, 3.0, 0.25, 4.0]
    found = one.rows_of(5, np.array([1, 2, 3, 1]), rows[0])["weights"]
    assert found.ravel().tolist() == [2.0, 1.0, 20.0, 2.0]
    with pytest.raises(MismatchError, match="must be a part of the run"):
        part(0, "1" * 32).scores(5)
    for batch in (10, 15, 20, 25):
        other.offer(batch, np.zeros(2), rows[1])
    with pytest.raises(
        CorruptDataError, match="part 1 of .*shared has the members of batches 10, 15, 20, 25"
    ):
        one.missing_trainings(5)
    for wrong, said in (
        ({"part": 2}, "`part` must be 0 to 1, got 2"),
        ({"places": (np.array([0, 1]), np.array([1, 2]))}, "each place of a population once"),
        ({"n_kept": 1}, "`n_kept` must be at least 2"),
    ):
        with pytest.raises(ValueError, match=said):
            dataclasses.replace(one, **wrong)


BATCHES = (3, 6)
PLACES = (np.array([0, 2]), np.array([3, 1]))


def offered(batch, population, part):
    """The scores and the members that a training has before a selection."""
    first = 100.0 * batch + 10 * population + part
    return first + PLACES[part], {"weights": first + np.array([[0.25], [0.5]])}


def shared(selections, population, part, sweep_id):
    folder = selections / f"{population:06d}"
    return SharedPopulation(folder, part, PLACES, sweep_id, population=population)


def offer_all(selections, sweep_id):
    """Write what two populations of two cells offer."""
    for batch, population, part in itertools.product(BATCHES, (0, 2), (0, 1)):
        shared(selections, population, part, sweep_id).offer(batch, *offered(batch, population, part))


def train_again(population):
    """All that a cell reads when it is trained again: the scores and members of its population."""
    received = []
    for batch in BATCHES:
        scores, rows = offered(batch, 0, 1)
        if not population.has_offered(batch):
            population.offer(batch, scores, rows)
        assert not (waits_for := population.missing_trainings(batch)), f"it waits for {waits_for}"
        rows = population.rows_of(batch, np.arange(4), rows)["weights"]
        received.append((population.scores(batch).tolist(), rows.tolist()))
    return received


@pytest.fixture(scope="module")
def offers(tmp_path_factory):
    """What two sweeps of the same settings offer."""
    folder = tmp_path_factory.mktemp("offers")
    offer_all(folder / "sweep", "a" * 32)
    offer_all(folder / "foreign", "b" * 32)
    return folder


@pytest.mark.parametrize("cell", ["000000", "000001"])
def test_a_file_in_the_place_of_another_is_said_by_name(cell, offers, tmp_path):
    """Of another cell, population, selection or sweep, each intact in itself; also one that is lost."""
    selections = shutil.copytree(offers / "sweep", tmp_path / "sweep")
    others = {file: file.read_bytes() for file in offers.rglob("*") if file.is_file()}
    lost = shared(selections, 0, 1, "a" * 32)
    expected = train_again(lost)
    for file in [
        *(selections / "000000").glob(f"{cell}*/*3.safetensors"),
        selections / f"000000/{cell}.json",
    ]:
        good = file.read_bytes()
        for other, content in others.items():
            if other.suffix != file.suffix or content == good:
                continue
            file.write_bytes(content)
            assert lost.damage(), (file, other)
            with pytest.raises((CorruptDataError, MismatchError), match=rf"{selections}/000000/{cell}[-.]"):
                train_again(lost)
        if cell == "000001" and file.suffix != ".json":
            file.unlink()
            assert lost.damage() and train_again(lost) == expected and file.exists()  # it is written again
        file.write_bytes(good)
    assert train_again(lost) == expected and lost.damage() == {}


def test_a_lost_offer_that_is_computed_otherwise_is_said(offers, tmp_path):
    lost = shared(shutil.copytree(offers / "sweep", tmp_path / "sweep"), 0, 1, "a" * 32)
    (tmp_path / "sweep" / "000000" / "000001-members" / "000000003.safetensors").unlink()
    scores, rows = offered(3, 0, 1)
    assert not lost.has_offered(3)
    with pytest.raises(CorruptDataError, match="000001-members/000000003.* computed again differs"):
        lost.offer(3, scores, {"weights": rows["weights"] + 1e-6})
    lost.offer(3, scores, rows)
    assert lost.has_offered(3) and lost.damage() == {}


def test_a_cell_is_waited_for_while_it_is_trained_and_a_little_longer(tmp_path):
    opened = make_sweep(PARTS, tmp_path / "sw")
    tended = {1}

    class Here(SweepFolder):
        def holder(self, number):
            return "somebody" if number in tended else None

    waiting = Waiting(Here(opened.folder.path), PARTS.population_of(0), patience=0.2)
    began = time.monotonic()
    while time.monotonic() < began + 0.3:
        assert waiting([1])
    tended.clear()
    assert waiting([1]) and waiting.given_up == ()
    time.sleep(0.25)
    assert not waiting([1]) and waiting.given_up == (1,)


def test_jobs_of_a_script_take_the_cells_in_turn(tmp_path):
    lines = slurm_script(make_sweep(PARTS, tmp_path / "sw"), SlurmOptions()).splitlines()
    assert "#SBATCH --array=0-1" in lines and any(line.startswith("train  #") for line in lines)
    assert not any("for ((" in line for line in lines)


@pytest.mark.full  # in short: test_cells_select_as_one_ensemble_does
def test_a_population_selects_the_same_in_two_processes(tmp_path):
    """One of the processes is killed on the way, and others take over its cells."""
    long = dataclasses.replace(SELECTING, n_batches=40, log_step=20, select_every=10)
    whole = Sweep(long, {"rate": (1e-3, 1e-2)}, range(16), member_batch_size=4)
    make_sweep(whole, tmp_path / "whole")
    path = tmp_path / "sw"
    opened = make_sweep(dataclasses.replace(whole, members_per_cell=8), path)
    assert opened.sweep.n_cells == 4
    command = [sys.executable, "-m", "popsim.cli", "--import", "swept_runs", "sweep", "run", str(path)]
    env = {**os.environ, "PYTHONPATH": str(HELPERS)}
    running = [subprocess.Popen([*command, "--devices", "1"], env=env) for _ in range(2)]
    while not [*(path / "selections").glob("*/000003-scores/*")]:
        time.sleep(0.1)
    running[0].send_signal(signal.SIGKILL)
    assert [process.wait() for process in running] == [-signal.SIGKILL, 0]
    same(open_sweep(path), run_sweep(tmp_path / "whole"))
