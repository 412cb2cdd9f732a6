"""Cells that were killed, and files of a sweep that were damaged or lost: what is said, and what is read."""

import contextlib
import re
import shutil

import numpy as np
import pytest
from faults.damage import cut_short, flip_bit
from faults.sweep_damage import SweepReader, files_of
from interruptions import copied_at_operations
from short_form import mostly_in_full
from small_sweep import DIVIDED, SELECTING, copy, make_begun, make_trained
from small_training import assert_same

from popsim.cli import main
from popsim.store import read_sealed_json, write_sealed_json
from popsim.sweeps import CellsFailed, Sweep, make_sweep, open_sweep, run_cell, run_sweep, verify_sweep
from popsim.sweeps.tables import sweep_table

pytestmark = pytest.mark.slow
LOSS = "history.zarr/loss/c.0.0.0"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished cell of four members, and one that has stopped."""
    return make_trained(tmp_path_factory.mktemp("trained") / "sw")


@pytest.fixture
def copied(trained, tmp_path):
    return copy(trained, tmp_path)


def test_what_is_not_trained_yet_is_nan(tmp_path):
    opened = make_sweep(DIVIDED, tmp_path / "sw")
    for name in ("total_loss", "total_validation_loss"):
        losses = getattr(opened, name)
        assert losses.sizes["member"] == 8 and losses.dims[1] == "member" and losses.size == 0
        assert losses["setting.rate"].values.tolist() == opened.labels["rate"].tolist()
    assert opened.summary()["validation_loss"].isna().all() and "loss" not in opened.history


@pytest.mark.full
def test_a_cell_that_is_killed_hides_nothing_of_the_others(trained, tmp_path):
    path = copy(trained, tmp_path)
    shutil.rmtree(path / "cells" / "000001")
    expected = open_sweep(path).total_loss.isel(member=slice(0, 4)).values
    with copied_at_operations(path, tmp_path / "left", every=16) as left:
        finished = run_cell(path, 1)
    assert len(left) > 6
    for each in left:
        opened = open_sweep(each)
        losses = opened.total_loss
        assert losses.sizes["member"] == 8
        np.testing.assert_array_equal(losses.isel(member=slice(0, 4)), expected)
        assert len(opened.summary()) == 8 and sweep_table(opened)
        assert opened.examine().counts["damaged"] == 0
        assert set(verify_sweep(each)) <= {"cells/000001/cell.json"}  # between it and the summary
    for each in left[:: max(1, len(left) // 2)]:
        assert_same(run_sweep(each).run(1).ensemble, finished.ensemble)
        assert verify_sweep(each) == {}


def test_the_command_names_what_is_missing(copied, capsys):
    lost = ("sweep.yaml", "cells/000000/cell.json", "cells/000001/run.json")
    for name in lost:
        (copied / name).unlink()
    (copied / "index.safetensors").unlink()
    with pytest.raises(SystemExit) as end:
        main(["info", str(copied), "--verify"])
    said = capsys.readouterr()
    assert end.value.code == 2 and "what was checked" not in said.out
    assert "index.safetensors was missing: it is made again" in said.out
    for name in lost:
        assert f"DAMAGED: {name}: " in said.out and name in said.err
    (copied / "sweep.json").unlink()
    with pytest.raises(SystemExit) as end:
        main(["resume", str(copied)])
    assert end.value.code == 2 and "it has no sweep.json" in capsys.readouterr().err


def test_derived_files_are_made_again(copied):
    expected = open_sweep(copied)
    (copied / "sweep.yaml").write_text("damaged: yes")
    expected.folder.cell(0).entry.write_text("{}")
    (copied / "index.safetensors").write_bytes(b"damaged")
    problems = verify_sweep(copied)
    assert set(problems) == {"sweep.yaml", "cells/000000/cell.json", "index.safetensors"}
    (copied / "sweep.yaml").unlink()
    run_sweep(copied, [0])
    assert verify_sweep(copied) == {} and open_sweep(copied).summary().equals(expected.summary())
    shutil.rmtree(copied / "cells" / "000001")
    (told,) = verify_sweep(copied).items()
    assert told[0] == "cells/000001" and "resume" in told[1]
    assert open_sweep(copied).state_of(1) == "not started" and verify_sweep(copied) == {}


def test_a_cell_that_was_killed_after_its_summary_is_finished(copied):
    folder = open_sweep(copied).folder.cell(0)
    finished = folder.description.read_bytes()
    content = read_sealed_json(folder.description)
    write_sealed_json(
        folder.description, {name: content[name] for name in content if name not in ("finished", "figures")}
    )
    folder.entry.unlink()
    run_sweep(copied)
    assert folder.description.read_bytes() == finished and verify_sweep(copied) == {}


def test_an_old_checkpoint_that_is_damaged_damages_no_cell(copied):
    run_sweep(copied)
    files = sorted((copied / "cells" / "000000" / "checkpoints").iterdir())
    assert len(files) > 1
    files[0].write_bytes(files[0].read_bytes()[:-9])
    assert open_sweep(copied).examine().counts["finished"] == 2
    assert [*verify_sweep(copied)] == [f"cells/000000/checkpoints/{files[0].name}"]


DAMAGES = {
    "lost": (LOSS, None, True),
    "a flipped bit": (LOSS, lambda content: bytes([content[0] ^ 1]) + content[1:], False),
    "zarr.json": ("history.zarr/zarr.json", lambda content: content[:-9], True),
    "summary.json": ("summary.json", lambda content: content.replace(b"5", b"6"), True),
    "no run.json": ("run.json", None, True),
    "a log of another run": (
        "log.jsonl",
        lambda content: re.sub(rb'(id": ")\w+', rb"\1" + b"0" * 32, content),
        True,
    ),
    "a checkpoint": ("checkpoints/000000002.safetensors", lambda content: content[:-9], True),
}


@pytest.mark.full
@pytest.mark.parametrize("what", mostly_in_full(DAMAGES, ("lost",)))
def test_one_damaged_cell_is_named_and_fails_nothing_of_the_others(what, copied, capsys, tmp_path):
    before = run_sweep(copied).total_loss.isel(member=slice(4, 8)).values
    name, damage, is_visible = DAMAGES[what]
    file = copied / "cells" / "000000" / name
    content = file.read_bytes()
    file.unlink() if damage is None else file.write_bytes(damage(content))
    is_of_history = "history" in name or "run.json" in name or "summary" in name
    with pytest.warns(UserWarning, match="000000") if is_of_history else contextlib.nullcontext():
        losses = open_sweep(copied).total_loss.load()
        main(["show", str(copied), "--out", str(tmp_path / "shown")])
    assert losses.isel(member=slice(0, 4)).isnull().all() == is_of_history
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


@pytest.mark.full  # in short: test_one_damaged_cell and test_what_is_missing_is_trained
def test_a_damaged_cell_is_trained_again_or_repaired(copied):
    """Where it has stopped, from its last sound checkpoint; else when its folder is removed."""
    expected = run_sweep(copy(copied, copied.parent / "whole")).ensemble(n_units=4)
    (copied / "cells" / "000000" / LOSS).unlink()
    with pytest.raises(CellsFailed, match="1 of 2 cells is not finished: 0"):
        run_sweep(copied)
    assert_same(open_sweep(copied).ensemble(n_units=4), expected)  # the one that had stopped
    shutil.rmtree(copied / "cells" / "000000")
    assert run_sweep(copied).is_finished and verify_sweep(copied) == {}
    opened = open_sweep(copied)
    opened.folder.cell(0).summary.unlink()
    with pytest.warns(UserWarning, match=r"summary\.json; it is missing: it is made again"):
        run_sweep(copied)
    assert verify_sweep(copied) == {}


def test_failures_and_selections_are_verified(tmp_path):
    path = make_begun(tmp_path / "begun")
    assert verify_sweep(path) == {}
    (path / "failures" / "000001.json").write_text("{")
    offered = next((path / "selections").rglob("*.safetensors"))
    offered.write_bytes(offered.read_bytes()[:-1])
    assert set(verify_sweep(path)) == {"failures/000001.json", offered.relative_to(path).as_posix()}
    sweep = Sweep(SELECTING, {"rate": (1e-3, 1e-2)}, range(1), members_per_cell=1)
    path = run_sweep(make_sweep(sweep, tmp_path / "sw").folder.path).folder.path
    assert verify_sweep(path) == {}
    (path / "selections/000000/000001.json").unlink()
    assert [*verify_sweep(path)] == ["selections/000000/000001.json"]
    shutil.rmtree(path / "selections")
    assert [*verify_sweep(path)] == ["selections/000000/000000.json", "selections/000000/000001.json"]


@pytest.mark.full
@pytest.mark.parametrize("make", mostly_in_full([flip_bit, cut_short], (flip_bit,)))
def test_no_damage_of_a_sweep_is_read_silently(make, copied):
    """The short form of `benchmarks/reliability/sweep_damage.py`."""
    reader, rng = SweepReader(copied), np.random.default_rng(5)
    files = [file for file in files_of(copied) if file.name != "log.jsonl"]
    for file in [files[i] for i in rng.permutation(len(files))[:12]]:
        verdict, is_verified = reader.damaged(file, lambda good: make(good, rng))
        assert not verdict.startswith("WRONG"), (file, verdict)
        assert verdict == "right" or is_verified or file.name == "index.safetensors", (file, verdict)
    assert reader.read() == "right"
