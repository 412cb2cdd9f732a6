"""Lost power costs no more than a kill: what was written is on disk, and parts are before their records."""

import os
import time

import equinox as eqx
import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest
import small_training
from lost_power import FlushedDisk
from small_sweep import SELECTING

from popsim.analysis.figures import save_figure
from popsim.store import Checkpoints, GrowingArrays, append_json_line, save_model, write_sealed_json
from popsim.store.files import make_folder
from popsim.store.identity import HOLDER, LOCK
from popsim.store.json_files import keep_json_lines, read_json
from popsim.store.stored_array import ArrayLayout, StoredArray
from popsim.sweeps import Sweep, make_sweep, run_sweep
from popsim.training import TaskTrainer


def parts_of_arrays(source, target):
    """Yield the folders, descriptions and parts of the arrays in a record."""
    record = read_json(source)
    for name, metadata in record["consolidated_metadata"]["metadata"].items():
        layout = ArrayLayout.parse(metadata)
        folder = target.parent / name
        yield from (folder, *(folder / layout.shard_name(place) for place in layout.places()))


def listed_checkpoints(source, target):
    return [
        target.parent / f"checkpoints/{step:09d}.safetensors" for step in read_json(source)["checkpoints"]
    ]


NEEDS = {
    "h.zarr/zarr.json": parts_of_arrays,
    "history.zarr/zarr.json": parts_of_arrays,
    "training.json": listed_checkpoints,
    "summary.json": lambda source, target: [target.parent / "log.jsonl"],
}


@pytest.fixture
def disk(tmp_path, monkeypatch):
    return FlushedDisk(tmp_path, monkeypatch, needs=NEEDS, ignored=(LOCK, HOLDER))


def append_rows(folder):
    """Append rows that fill a file, and some more; yield after each commit."""
    store = GrowingArrays.create(folder / "h.zarr")
    for n_rows in (5000, 3):
        yield
        store.append("batch", {"x": (("unit",), np.ones((n_rows, 3)))})
        store.commit()
    yield
    store.truncate({"batch": 10})


def save_checkpoints(folder):
    checkpoints = Checkpoints(folder / "checkpoints", n_kept=1)
    for step in (1, 2):
        checkpoints.save(step, {"x": np.ones(3)}, {})
        checkpoints.wait()
        yield


def append_lines(folder):
    for number in range(2):
        append_json_line(folder / "log.jsonl", {"batch": number})
        yield
    keep_json_lines(folder / "log.jsonl", lambda line: line["batch"] < 1)


def draw(folder):
    figure, _ = plt.subplots()
    save_figure(figure, folder / "figures" / "of one", "one")
    plt.close(figure)
    yield


WRITERS = {
    "arrays": append_rows,
    "checkpoints": save_checkpoints,
    "a log": append_lines,
    "figures": draw,
    "folders": lambda folder: [make_folder(folder / "one" / "two", parents=True)],
    "a description": lambda folder: [write_sealed_json(folder / "run.json", {"n": n}) for n in range(2)],
    "a model": lambda folder: [
        save_model(folder / "model.safetensors", eqx.nn.Linear(2, 3, key=jax.random.key(0)))
    ],
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_what_a_writer_has_written_is_on_disk(write, disk, tmp_path, monkeypatch):
    """The parts of arrays are written late, by their thread: a record must wait for them."""
    write_part = StoredArray.write
    monkeypatch.setattr(StoredArray, "write", lambda *arguments: time.sleep(0.3) or write_part(*arguments))
    for _ in write(tmp_path):
        assert disk.lost() == []
    assert disk.lost() == [] and disk.too_early == {}
    assert [*tmp_path.iterdir()]


def assert_history_before_checkpoints(disk, folder):
    """A checkpoint says how many rows the history has, which is committed before it."""
    names = [path for path in disk.renamed if path.startswith(f"{folder}/")]
    commits = np.cumsum([name.endswith("history.zarr/zarr.json") for name in names])
    saves = np.cumsum(["/checkpoints/" in name for name in names])
    assert saves[-1] > 0 and np.all(commits >= saves)


@pytest.mark.slow
def test_a_training_is_on_disk_and_parts_before_their_records(disk, tmp_path):
    trainer = TaskTrainer(small_training.OPTIMIZER, chkpt_dir=tmp_path / "run")
    small_training.train(6, trainer=trainer, log_step=2)
    assert disk.too_early == {} and disk.lost() == []
    assert_history_before_checkpoints(disk, tmp_path / "run")


@pytest.mark.slow
@pytest.mark.full
def test_a_sweep_is_on_disk_and_parts_before_their_records(disk, tmp_path):
    """Its cells select among one another; each is a run."""
    sweep = Sweep(SELECTING, {"rate": (1e-3, 1e-2)}, range(1), members_per_cell=1)
    folder = run_sweep(make_sweep(sweep, tmp_path / "made" / "sweep").folder.path).folder.path
    assert disk.too_early == {} and disk.lost() == []
    written = {os.path.basename(path) for path in disk.renamed}
    assert written >= {"sweep.json", "run.json", "training.json", "summary.json"}
    for cell in (folder / "cells").iterdir():
        assert_history_before_checkpoints(disk, cell)
    assert [*folder.glob("selections/*.json")] and [*folder.glob("cells/*/log.jsonl")]
