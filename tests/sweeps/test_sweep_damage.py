"""Cells that were killed, and files of a sweep that were damaged or lost: what is said, and what is read."""

import contextlib
import dataclasses
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from faults.damage import cut_short, flip_bit
from faults.sweep_damage import SweepReader, files_of
from interruptions import copied_at_operations
from short_form import mostly_in_full
from small_sweep import DIVIDED, SWEEP, copy, make_begun, make_trained
from small_training import assert_same
from swept_runs import Swept

from popsim.cli import main
from popsim.store import CorruptDataError, MismatchError, files, read_sealed_json, write_sealed_json
from popsim.sweeps import CellsFailed, make_sweep, open_sweep, run_cell, run_sweep, verify_sweep
from popsim.sweeps.opened_sweep import read_sweep
from popsim.sweeps.overview import state_text

pytestmark = pytest.mark.slow
LOSS = "history.zarr/loss/c.0.0.0"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished cell of four members, and one that has stopped."""
    return make_trained(tmp_path_factory.mktemp("trained") / "sw")


@pytest.fixture
def copied(trained, tmp_path):
    return copy(trained, tmp_path)


def test_a_stopped_cell_has_what_is_saved_and_goes_on(copied):
    """Also where its history was read before."""
    opened = open_sweep(copied)
    before, n = opened.total_loss.values, opened.notes[1].n_batches
    assert opened.counts["stopped"] == 1 and f"cell 1: stopped, {n} of 2 batches saved" in state_text(opened)
    assert n > 0 and np.isfinite(before[:n]).all() and np.isnan(before[n:, 4:]).all()
    after = run_sweep(copied).total_loss.values
    assert np.isfinite(after).all() and np.array_equal(after[:n], before[:n])
    with pytest.raises(ValueError, match="`cell` must be 0 to 1, got 9"):
        run_sweep(copied, [0, 9])


def test_what_is_not_trained_yet_is_nan(tmp_path):
    opened = make_sweep(DIVIDED, tmp_path / "sw")
    assert opened.summary()["validation_loss"].isna().all()
    assert opened.load().sizes["member"] == 8 and not opened.load().data_vars
    with pytest.raises(ValueError, match="`names` must be of what cells have recorded so far, got 'loss'"):
        _ = opened.total_loss


@pytest.mark.full
def test_a_cell_that_is_killed_hides_nothing_of_the_others(trained, tmp_path):
    path = copy(trained, tmp_path)
    shutil.rmtree(path / "cells" / "000001")
    expected = open_sweep(path).total_loss.isel(member=slice(0, 4)).values
    with copied_at_operations(path, tmp_path / "left", every=10) as left:
        finished = run_cell(path, 1)
    assert len(left) > 6
    for each in left:
        opened = open_sweep(each)
        losses = opened.total_loss
        assert losses.sizes["member"] == 8
        np.testing.assert_array_equal(losses.isel(member=slice(0, 4)), expected)
        assert len(opened.summary()) == 8 and state_text(opened)
        assert opened.examine().counts["damaged"] == 0
        assert verify_sweep(each) == {}
    for each in left[:: max(1, len(left) // 2)]:
        assert_same(run_sweep(each).run(1).ensemble, finished.ensemble)
        assert verify_sweep(each) == {}


def test_the_command_names_what_is_missing(copied, capsys):
    name = "cells/000001/run.json"
    (copied / name).unlink()
    with pytest.raises(SystemExit) as end:
        main(["info", str(copied), "--verify"])
    said = capsys.readouterr()
    assert end.value.code == 2 and "what was checked" not in said.out
    assert f"DAMAGED: {name}: " in said.out and name in said.err
    shutil.rmtree(copied / "cells" / "000001")
    main(["info", str(copied), "--verify"])
    said = capsys.readouterr().out
    assert "1 finished, 1 not started" in said and "whether the whole folder of a cell was removed" in said
    (copied / "sweep.json").unlink()
    with pytest.raises(SystemExit) as end:
        main(["resume", str(copied)])
    assert end.value.code == 2 and "it has no sweep.json" in capsys.readouterr().err


def test_a_cell_that_was_killed_after_its_summary_is_finished(copied):
    description = open_sweep(copied).folder.cell(0).description
    finished, content = description.read_bytes(), read_sealed_json(description)
    killed = {name: content[name] for name in content if name not in ("finished", "figures")}
    write_sealed_json(description, killed)
    run_sweep(copied, [0])
    assert description.read_bytes() == finished and verify_sweep(copied) == {}


def test_a_cell_that_cannot_be_looked_at_hides_no_other(copied):
    """Of the other, an old checkpoint is damaged, which damages no cell, as does a file of failures."""
    failure = open_sweep(copied).folder.failure(1)
    failure.parent.mkdir()
    failure.write_text("{")
    checkpoint = next((copied / "cells" / "000000" / "checkpoints").iterdir())
    old = checkpoint.with_name("000000001.safetensors")
    old.write_bytes(checkpoint.read_bytes()[:-9])
    assert open_sweep(copied).examine().counts["damaged"] == 0
    assert {*verify_sweep(copied)} == {"failures/000001.json", f"cells/000000/checkpoints/{old.name}"}
    history = copied / "cells" / "000001" / "history.zarr" / "zarr.json"
    history.unlink()
    assert history.name in open_sweep(copied).problem_of(1)
    history.symlink_to(history)
    opened = read_sweep(copied, is_known=False).with_notes()
    assert [note.state for note in opened.notes] == ["finished", "damaged"]
    assert history.name in opened.problem_of(1) and "cell 1: damaged: " in state_text(opened)
    (copied / "cells" / "000000" / "summary.json").write_text("{}")
    assert "summary.json must match" in open_sweep(copied).problem_of(0)


DAMAGES = {
    "lost": (LOSS, None, True),
    "a flipped bit": (LOSS, lambda content: bytes([content[0] ^ 1]) + content[1:], False),
    "zarr.json": ("history.zarr/zarr.json", lambda content: content[:-9], True),
    "summary.json": ("summary.json", lambda content: content.replace(b"5", b"6"), True),
    "no run.json": ("run.json", None, True),
    "a log of another run": (
        "log.jsonl",
        lambda content: re.sub(rb'(id": ")\w+', rb"\g<1>" + b"0" * 32, content),
        True,
    ),
    "a line of the log": ("log.jsonl", lambda content: content[:-20] + b"\n", True),
    "a checkpoint": ("checkpoints/000000002.safetensors", lambda content: content[:-9], True),
}


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:a checkpoint is damaged")
@pytest.mark.parametrize("what", mostly_in_full(DAMAGES, ("lost",)))
def test_one_damaged_cell_is_named_and_fails_nothing_of_the_others(what, copied, capsys, tmp_path):
    before = run_sweep(copied).total_loss.isel(member=slice(4, 8)).values
    name, damage, is_visible = DAMAGES[what]
    file = copied / "cells" / "000000" / name
    content = file.read_bytes()
    file.unlink() if damage is None else file.write_bytes(damage(content))
    is_noticed = "checkpoint" not in name  # as the sweep is opened, or its history read
    with pytest.warns(UserWarning, match="000000") if is_noticed else contextlib.nullcontext():
        losses = open_sweep(copied).total_loss.load()
        main(["show", str(copied), "--out", str(tmp_path / "shown")])
    assert losses.isel(member=slice(0, 4)).isnull().all() == is_noticed
    assert_same(losses.isel(member=slice(4, 8)).values, before)
    assert any(key.startswith("cells/000000") for key in verify_sweep(copied))
    if not is_visible:
        return
    with pytest.raises(SystemExit) as end:
        main(["info", str(copied)])
    assert end.value.code == 2 and "DAMAGED: cells/000000: " in capsys.readouterr().out
    with pytest.raises(
        CellsFailed, match="1 of 2 cells is not finished: 0; the first: .*folder is removed: "
    ):
        run_sweep(copied)


@pytest.mark.full
def test_a_cell_is_repaired_where_that_is_safe(copied):
    """As one that was stopped, from its last sound checkpoint; else when its folder is removed."""
    expected = run_sweep(copy(copied, copied.parent / "whole")).ensemble(label="b")
    (copied / "cells" / "000000" / LOSS).unlink()
    with pytest.raises(CellsFailed, match="1 of 2 cells is not finished: 0"):
        run_sweep(copied)
    assert_same(open_sweep(copied).ensemble(label="b"), expected)  # the one that had stopped
    shutil.rmtree(copied / "cells" / "000000")
    assert run_sweep(copied).is_finished and verify_sweep(copied) == {}
    opened = open_sweep(copied)
    opened.folder.cell(0).summary.unlink()
    with pytest.warns(UserWarning, match=r"summary\.json; it is missing: it is made again"):
        run_sweep(copied)
    assert verify_sweep(copied) == {}


@pytest.mark.full
@pytest.mark.parametrize("make", mostly_in_full([flip_bit, cut_short], (flip_bit,)))
def test_no_damage_of_a_sweep_is_read_silently(make, copied):
    """The short form of `benchmarks/reliability/sweep_damage.py`."""
    reader, rng = SweepReader(copied), np.random.default_rng(5)
    chosen = [file for file in files_of(copied) if file.name != "log.jsonl"]
    for file in [chosen[i] for i in rng.permutation(len(chosen))[:12]]:
        verdict, is_verified = reader.damaged(file, lambda good: make(good, rng))
        assert not verdict.startswith("WRONG"), (file, verdict)
        assert verdict == "right" or is_verified, (file, verdict)
    assert reader.read() == "right"


@pytest.mark.full
@pytest.mark.parametrize("settings", [{"cost": "task", "rate": "trainer", "n_units": "model"}, {}])
def test_the_cells_are_those_that_were_written_down(settings, tmp_path, monkeypatch):
    """Where the experiment has other settings of members than when the sweep was made."""
    copied, axes = tmp_path / "sw", {"rate": (1e-3, 1e-2), "n_units": (3, 4), "cost": (0.1,)}
    make_sweep(dataclasses.replace(DIVIDED, axes=axes), copied)
    run_cell(copied, 0)
    before = open_sweep(copied)
    monkeypatch.setattr(Swept, "member_settings", settings)
    if "rate" in settings:
        now = open_sweep(copied)
        assert now.summary().equals(before.summary()) and verify_sweep(copied) == {}
        assert now.where(rate=1e-3).load().loss.equals(before.where(rate=1e-3).load().loss)
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
    """Of a finished cell and of one that has stopped."""
    place = open_sweep(copied).folder.cell(number).description
    described = read_sealed_json(place)
    OTHER[what](described)
    write_sealed_json(place, described)
    opened = open_sweep(copied).examine()
    assert opened.notes[number].state == "damaged" and what in opened.problem_of(number)
    chosen = opened.where(cell=number)
    with pytest.warns(UserWarning, match=f"are damaged, and NaN: {number}; the first: "):
        assert np.isnan(chosen.summary()["validation_loss"]).all()
    with pytest.warns(UserWarning, match="are damaged, and NaN"):
        assert np.isnan(opened.total_loss.sel(member=opened.labels["cell"] == number)).all()
    with pytest.warns(UserWarning, match=what), pytest.raises(ValueError, match=f"got 'loss'.*{what}"):
        _ = chosen.total_loss
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
    """Also where the sweep was opened before it came there."""
    opened = open_sweep(copied)
    one, other = (opened.folder.cell(number).history for number in (0, 1))
    for source, target in ((one, copied / "aside"), (other, one), (copied / "aside", other)):
        shutil.move(source, target)
    said = "a cell is damaged, and NaN where it cannot be read: .* of the run"
    with pytest.warns(UserWarning, match=said), pytest.raises(ValueError, match="recorded so far"):
        _ = opened.total_loss
    assert {Path(name).parts[1] for name in verify_sweep(copied)} == {"000000", "000001"}


@pytest.mark.full
def test_a_sweep_is_reached_by_a_link_and_may_hold_files_of_others(tmp_path):
    sweep = make_begun(tmp_path / "sw")
    (tmp_path / "link").symlink_to(sweep)
    (sweep / "notes").symlink_to(tmp_path / "nowhere")
    (sweep / "cells" / "notes").symlink_to(tmp_path / "nowhere")
    left = [sweep / f"{name}.0123abcd.partial" for name in ("run.lock.json", "sweep.json")]
    for path in left:
        path.write_text("half")
    assert run_sweep(tmp_path / "link").is_finished and verify_sweep(tmp_path / "link") == {}
    assert not any(path.exists() for path in left) and not os.path.lexists(sweep / "failures" / "000001.json")
    assert all(os.path.islink(path) for path in (sweep / "notes", sweep / "cells" / "notes"))


@pytest.mark.parametrize("n_steps", [0, 1, 2])
def test_a_start_that_was_interrupted_blocks_nothing(n_steps, tmp_path, monkeypatch):
    """After any number of files that were written, as where the disk is full or the process is killed."""
    written = iter(range(n_steps))
    replace = files.Path.replace

    def until_full(self, target):
        if next(written, None) is None:
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(files.Path, "replace", until_full)
    with contextlib.suppress(OSError):
        make_sweep(SWEEP, tmp_path / "sw")
    monkeypatch.undo()
    if (tmp_path / "sw" / "sweep.json").exists():
        with pytest.raises(ValueError, match="To continue it: popsim .*resume "):
            make_sweep(SWEEP, tmp_path / "sw")
    else:
        make_sweep(SWEEP, tmp_path / "sw")
    with contextlib.suppress(CellsFailed):
        run_sweep(tmp_path / "sw", [])
    assert verify_sweep(tmp_path / "sw") == {}
