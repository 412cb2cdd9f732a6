"""Sweeps before anything is trained: their cells, their folder, the tables and the bar."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
from swept_runs import Swept

from popsim.experiments import CenterOut
from popsim.store import MismatchError, RunFolder, write_json
from popsim.store.identity import RUN_ID
from popsim.store.run_folder import DescribedRun
from popsim.sweeps import Sweep, make_sweep, open_sweep, run_sweep, verify_sweep
from popsim.sweeps.cells import _last_losses
from popsim.sweeps.progress import SweepProgress
from popsim.sweeps.results import metric_columns
from popsim.sweeps.sweep import Division

AXES = {"rate": (1e-3, 1e-2), "n_units": (3, 4), "hidden_noise": (0.0, 0.1, 0.2), "label": ("a", "b")}


def rows_of(sweep):
    """What identifies each member, by its number in the sweep."""
    rows = []
    for cell in sweep.cells():
        assert len(rows) == sweep.members_of(cell.number)[0]
        labels = sweep.labels_of(cell.number)
        grid, own = cell.experiment.members.settings, cell.experiment
        for place in range(own.n_members):
            row = tuple(labels[name][place] for name in (*AXES, "seed"))
            built = {**{name: getattr(own, name) for name in AXES}, **{k: v[place] for k, v in grid.items()}}
            assert row == (*(built[name] for name in AXES), own.members.ids[place])
            rows.append(row)
    return rows


@pytest.mark.parametrize("most", [None, 60, 7, 1])
def test_cells_divide_the_members_into_grids_and_cover_each_once(most):
    """Also where the division is read as it was written, and the experiment has other settings of members."""
    sweep = Sweep(Swept(), AXES, range(3, 8), members_per_cell=most)
    rows = rows_of(sweep)
    expected = itertools.product(*AXES.values(), range(3, 8))
    assert sorted(rows) == sorted(expected) and len(rows) == sweep.n_members == 120
    widths = [cell.experiment.n_members for cell in sweep.cells()]
    assert len(widths) == sweep.n_cells and max(widths) <= (most or 30)
    if most is None:
        assert sweep.member_axes == ("rate", "hidden_noise") and widths == [30] * 4
    with pytest.raises(ValueError, match=f"`cell` must be 0 to {sweep.n_cells - 1}"):
        sweep.cell(sweep.n_cells)
    written = json.loads(json.dumps(dataclasses.asdict(sweep.division)))
    other = Sweep(Swept(), AXES, range(3, 8), members_per_cell=3)
    again = other.with_division(Division(**written))
    assert rows_of(again) == rows and again.n_cells == sweep.n_cells


def test_values_that_are_no_numbers_are_trained_in_cells_of_their_own():
    sweep = Sweep(CenterOut(), {"hidden_noise": (None, 0.1), "vision_delay": (0.0, 0.05)}, range(2))
    assert sweep.member_axes == ("vision_delay",) and sweep.n_cells == 2


def test_a_folder_holds_one_sweep(tmp_path):
    sweep = Sweep(Swept(), {"rate": (1e-3, 1e-2)}, range(2))
    opened = make_sweep(sweep, tmp_path / "sw")
    assert opened.sweep == sweep and opened.counts["not started"] == 1 and not opened.is_finished
    with pytest.raises(ValueError, match="To continue it: popsim --import swept_runs resume .*sw"):
        make_sweep(sweep, tmp_path / "sw")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(ValueError, match="it has thesis.tex"):
        make_sweep(sweep, tmp_path / "full")
    text = opened.folder.description.read_text()
    opened.folder.description.write_text(text.replace('"n_units": 5', '"n_units": 6'))
    with pytest.raises(ValueError, match="checksum"):
        open_sweep(tmp_path / "sw")
    write_json(opened.folder.description, {"format": 3})
    for use in (open_sweep, verify_sweep, run_sweep):
        with pytest.raises(MismatchError, match=r"must have format 1, got 3"):
            use(tmp_path / "sw")


def test_progress_says_how_long_a_cell_has_compiled(tmp_path, capsys):
    opened = make_sweep(Sweep(Swept(), {"n_units": (3, 4)}, range(2)), tmp_path / "sw")
    progress = SweepProgress(opened, [0, 1])
    for program, said in (("training", "compiling … 0 s"), ("loss", "compiling the loss … 0 s")):
        with progress.display():
            progress.begin_cell(0)
            progress.on_compilation(program)
        assert capsys.readouterr().err.startswith(f"sweep: 0/16 batches, 0/2 cells, {said}")
    with progress.display():
        progress.on_pause(0)
    assert "compiling" not in capsys.readouterr().err


def test_the_last_losses_are_those_before_a_member_was_stopped(tmp_path):
    """A frozen member has none. A line that a kill has cut counts for nothing."""
    losses = [[1.0, 4.0, 7.0], [2.0, 5.0, 8.0], [3.0, None, None]]
    lines = [
        {RUN_ID: "own", "batch": n, "seconds": 0, "loss": {"a": a, "b": [1] * 3}, "validation_loss": {"a": a}}
        for n, a in enumerate(losses)
    ]
    folder = RunFolder(tmp_path)
    folder.log.write_text("\n".join(map(json.dumps, lines)) + '\n{"batch": 3')
    frozen, stopped = np.array([np.nan, np.nan, 2.0]), np.array([np.nan, 2.0, np.nan])
    run = DescribedRun(folder, folder.description, {RUN_ID: "own"})
    last = _last_losses(run, frozen, stopped, must_exist=True)
    np.testing.assert_array_equal(last["training_loss"], [4.0, 6.0, np.nan])
    np.testing.assert_array_equal(last["validation_loss"], [3.0, np.nan, np.nan])
    other = DescribedRun(folder, folder.description, {RUN_ID: "other"})
    with pytest.raises(MismatchError, match="the last line of"):
        _last_losses(other, frozen, stopped, must_exist=False)


def test_metrics_are_identifiers_and_none_is_lost():
    titles = ["error (mm), noise on, mean", "speed (cm/s)", "a²", "a³", "50 %"]
    columns = metric_columns(titles)
    words = ("error_mm_noise_on_mean", "speed_cm_per_s", "a", "a_2", "50_percent")
    assert list(columns) == [f"result_{word}" for word in words] and list(columns.values()) == titles
