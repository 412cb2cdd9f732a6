"""Runs that are killed, told to stop, out of disk, or damaged: short forms of `benchmarks/reliability`."""

import os
import pickle
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from faults.damage import Reader, cut_short, damaged, files_below, flip_bit
from faults.fork_server import ForkServer
from faults.kills import judge, kill_often
from interruptions import folder_of_others
from kept_runs import finished_run
from small_experiment import Sum

from popsim.experiments import open_run
from popsim.store import lock_folder

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server():
    with ForkServer() as server:
        yield server


@pytest.fixture(scope="module")
def whole(server, tmp_path_factory):
    """A run that was never interrupted: its folder, and what it holds."""
    path = tmp_path_factory.mktemp("whole") / "run"
    return path, server.run("run", path=str(path))


@pytest.fixture(scope="module")
def killed(server, whole, tmp_path_factory):
    """What a process left that was killed at several moments, and a copy of what it left in the middle."""
    left = kill_often(
        server,
        "run",
        tmp_path_factory.mktemp("killed") / "killed",
        np.random.default_rng(4),
        n_operations=6,
        last_operation=whole[1]["operations"],
        n_times=2,
        seconds=0.5 * whole[1]["seconds"],
    )
    last = whole[1]["digests"]["step"]
    begun = sorted((own for own in left if 0 < own.saved < last), key=lambda own: own.saved)
    middle = tmp_path_factory.mktemp("interrupted") / "run"
    return left, shutil.copytree(begun[len(begun) // 2].path, middle)


@pytest.mark.full
def test_a_killed_run_is_finished_bit_for_bit(server, whole, killed):
    verdicts = judge(server, "run", killed[0], whole[1]["digests"])
    assert len(verdicts) >= 6 and set(verdicts) == {"equal"}


def test_damage_is_never_read_for_something_else(tmp_path_factory, tmp_path):
    path = shutil.copytree(finished_run(tmp_path_factory), tmp_path / "run")
    reader, rng = Reader(path, build=Sum), np.random.default_rng(5)
    files = [file for file in files_below(path) if file.stat().st_size]
    verdicts = set()
    for fault in (flip_bit, cut_short):
        for file in rng.choice(np.array(files), 20):
            verdicts.add(damaged(file, lambda good, fault=fault: fault(good, rng), reader.read))
    for name in ("run.json", "summary.json", "history.zarr/zarr.json"):
        assert damaged(path / name, lambda good: flip_bit(good, rng), reader.read) == "refused"
        assert damaged(path / name, lambda good: None, reader.read) == "refused"
    assert verdicts <= {"right", "fell back", "refused"} and "refused" in verdicts


PLACES = ("run.json", "training.json", "history.zarr/zarr.json", "history.zarr/loss/c.0.0.0", "checkpoints/*")


@pytest.mark.parametrize("place", PLACES)
def test_a_pickle_in_the_place_of_a_file_is_refused_and_not_executed(place, tmp_path_factory, tmp_path):
    class Execute:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "executed"),)

    path = shutil.copytree(finished_run(tmp_path_factory), tmp_path / "run")
    for file in path.glob(place):
        file.write_bytes(pickle.dumps(Execute()))
    name = place.rpartition("/")[2].strip("*") or "checkpoint"
    with pytest.raises(ValueError, match=name), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of checkpoints that are passed over
        run = open_run(path)
        _ = run.ensemble, run.history.dataset.load()
    assert not (tmp_path / "executed").exists()


WRITTEN = ("run.json", "training.json", "log.jsonl", "history.zarr/zarr.json", "history.zarr/loss/c.0.0.0")
WRITTEN += ("checkpoints/000000007.safetensors", "figures/loss.png")
LEFT_FILES = [f"{name}.0123abcd.partial" for name in WRITTEN]
LEFT_FILES += ["run.lock.json", "history.zarr.0123abcd.partial/loss/c.0"]


@pytest.mark.full  # in short: test_checkpoints and test_lock
def test_a_folder_that_cannot_be_written_or_vanishes_or_is_locked(server, whole, killed):
    """And one with left-overs of every kind, all at once."""
    with folder_of_others() as folder:
        names = ("left", "r", "v", "m", "l")
        paths = {name: str(shutil.copytree(killed[1], folder / name)) for name in names}
        for name in LEFT_FILES:
            file = Path(paths["left"], name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b'{"half": ')
        for below, _, _ in os.walk(paths["r"]):
            os.chmod(below, 0o555)
        (folder / "elsewhere").mkdir()
        found = server.run("resume_all", kind="run", paths=[paths["left"]])
        assert found[paths["left"]] == whole[1]["digests"]
        with lock_folder(Path(paths["l"])):
            found |= server.run("resume_all", kind="run", paths=[paths["l"]])
        user = {"user": 65534} if os.getuid() == 0 else {}
        found |= server.run("resume_all", kind="run", paths=[paths["r"]], **user)
        found |= server.run("resume_all", kind="run", paths=[paths["v"]], vanish=["rm", "-rf"])
        move = ["mv", "-t", str(folder / "elsewhere")]
        found |= server.run("resume_all", kind="run", paths=[paths["m"]], vanish=move)
        errors = {name: found[paths[name]]["error"] for name in ("r", "v", "m", "l")}
        assert all(paths[name] in error for name, error in errors.items()), errors
        kinds = {"r": "ValueError", "v": "SaveError", "m": "SaveError", "l": "FolderLockedError"}
        assert all(errors[name].startswith(kind) for name, kind in kinds.items()), errors
