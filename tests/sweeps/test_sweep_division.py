"""What a sweep says of its cells, whatever the experiment says later."""

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from small_sweep import DIVIDED, copy, make_trained
from swept_runs import Swept

from popsim.cli import main
from popsim.store import CorruptDataError, MismatchError, read_sealed_json, write_json, write_sealed_json
from popsim.sweeps import (
    CellsFailed,
    Sweep,
    open_sweep,
    run_cell,
    run_sweep,
    verify_sweep,
)
from popsim.sweeps.division import Division

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return make_trained(tmp_path_factory.mktemp("divided") / "sw")


@pytest.fixture
def copied(trained, tmp_path):
    return copy(trained, tmp_path)


@pytest.mark.parametrize(("most", "n_seeds"), [(None, 1), (1, 3), (5, 3)])
def test_a_division_is_read_as_it_was_written(most, n_seeds):
    axes = {"rate": (1e-3, 1e-2, 1e-1), "n_units": (3, 4), "cost": (0.1, 0.2)}
    sweep = Sweep(Swept(), axes, range(2, 2 + n_seeds), most)
    described = json.loads(json.dumps(sweep.division.to_json(sweep.axes)))
    again = sweep.with_division(Division.parse(described, sweep.axes, n_seeds))
    assert again == sweep and again.member_axes == ("rate", "cost") and again.cell_axes == ("n_units",)
    assert [*map(str, again.cells())] == [*map(str, sweep.cells())]
    assert np.array_equal(again.first_members(), sweep.first_members())


@pytest.mark.full
@pytest.mark.parametrize(
    "settings",
    [{"cost": "task", "rate": "trainer", "n_units": "model"}, {}],
)
def test_the_cells_are_those_that_were_written_down(settings, copied, monkeypatch):
    """Where the experiment has other settings of members than when the sweep was made."""
    before = open_sweep(copied)
    monkeypatch.setattr(Swept, "member_settings", settings)
    if "rate" in settings:
        now = open_sweep(copied)
        assert now.summary().equals(before.summary()) and verify_sweep(copied) == {}
        assert now.where(rate=1e-3).history.loss.equals(before.where(rate=1e-3).history.loss)
        return
    for use in (open_sweep, verify_sweep, run_sweep, lambda path: run_cell(path, 1)):
        with pytest.raises(MismatchError, match=r"swept must train the cells that .*sweep\.json has: `grid`"):
            use(copied)


OTHER = {
    "rate": lambda described: described["settings"].update(grid=[["rate", [0.001, 0.1]], ["cost", [0.1]]]),
    "part of": lambda described: described["part_of"].update(cell=0),
}


@pytest.mark.parametrize(("number", "what"), [(0, "rate"), (1, "part of")])
def test_a_cell_that_is_not_what_the_plan_says_is_damaged_by_name(what, number, copied, capsys):
    """Of a finished cell and of one that has stopped; also where there is an index already."""
    place = open_sweep(copied).folder.cell(number).description
    described = read_sealed_json(place)
    OTHER[what](described)
    write_sealed_json(place, described)
    opened = open_sweep(copied)
    assert opened.state_of(number) == "damaged" and what in opened.problem_of(number)
    chosen = opened.where(cell=number)
    with pytest.warns(UserWarning, match=f"are damaged, and NaN: {number}; the first: "):
        assert np.isnan(chosen.summary()["validation_loss"]).all()
    with pytest.warns(UserWarning, match="are damaged, and NaN"):
        assert np.isnan(opened.total_loss.sel(member=opened.labels["cell"] == number)).all()
    for use in (lambda: opened.run(number), chosen.ensemble, lambda: run_cell(copied, number)):
        with pytest.raises((MismatchError, CorruptDataError), match=what):
            use()
    assert [what in said for said in verify_sweep(copied).values()] == [True]
    with pytest.raises(CellsFailed, match=f"of 2 cells is not finished: {number}; the first: .*{what}"):
        run_sweep(copied, [number])
    with pytest.raises(SystemExit) as end:
        main(["info", str(copied)])
    assert end.value.code == 2 and f"DAMAGED: cells/00000{number}: " in capsys.readouterr().out


def test_a_history_of_another_cell_is_not_read(copied):
    """Also where the index was made before it came there."""
    opened = open_sweep(copied)
    for number in (0, 1):
        shutil.move(opened.folder.cell(number).history, copied / str(number))
    for number in (0, 1):
        shutil.move(copied / str(number), opened.folder.cell(1 - number).history)
    with pytest.warns(UserWarning, match="a cell is damaged, and NaN where it cannot be read: .* of the run"):
        assert opened.total_loss.isnull().all()
    assert {Path(name).parts[1] for name in verify_sweep(copied)} == {"000000", "000001"}


def test_a_division_that_does_not_fit_is_refused(copied):
    place = copied / "sweep.json"
    described = read_sealed_json(place)
    described["division"]["member_axes"].update(rate=[1])
    write_sealed_json(place, described)
    with pytest.raises(CorruptDataError, match=r"sweep\.json must describe a sweep: its division must"):
        open_sweep(copied)


def test_an_unknown_format_is_refused(tmp_path):
    write_json(tmp_path / "sweep.json", {"format": 3})
    for use in (open_sweep, verify_sweep, run_sweep):
        with pytest.raises(MismatchError, match=r"must have format 1, got 3"):
            use(tmp_path)


def test_every_combination_is_in_one_cell():
    expected = itertools.product(*DIVIDED.axes.values(), DIVIDED.seeds)
    labels = [DIVIDED.labels_of(number) for number in range(DIVIDED.n_cells)]
    rows = [row for own in labels for row in zip(*own.values(), strict=True)]
    assert sorted(rows) == sorted(expected)
