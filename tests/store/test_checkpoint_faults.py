"""What becomes of checkpoints when files, disks and processes fail."""

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from checkpoint_helpers import assert_intact, file_name, save_steps
from saving_process import SavingProcess, expected_arrays, saved_arrays
from short_form import mostly_in_full

from popsim.store.checkpoints import Checkpoints
from popsim.store.files import CorruptDataError, MismatchError, SaveError


@pytest.fixture(scope="module")
def process():
    process = SavingProcess()
    yield process
    process.close()


@pytest.fixture(scope="module")
def saved_once(tmp_path_factory):
    path = tmp_path_factory.mktemp("once") / "checkpoints"
    save_steps(Checkpoints(path), 1, 2)
    return path


@pytest.fixture
def saved(saved_once, tmp_path):
    """Checkpoints of steps 1 and 2."""
    return Checkpoints(shutil.copytree(saved_once, tmp_path / "checkpoints"))


def test_a_checkpoint_that_cannot_be_read_is_passed_over(saved):
    """The checkpoint before is read, with a warning that names the file; if there is none, an error does."""
    path = saved.file(2)
    good = path.read_bytes()
    path.write_bytes(b"")
    with pytest.warns(UserWarning, match=f"passed over.*{path.name}"):
        assert saved.restore(expected_arrays).step == 1
    for read in (lambda: saved.restore(expected_arrays, step=2), lambda: saved.verify(2)):
        with pytest.raises(CorruptDataError, match=path.name):
            read()
    path.write_bytes(good)
    assert_intact(saved, 2)


def test_all_damaged(saved):
    for step in (1, 2):
        saved.file(step).write_bytes(b"")
    with (
        pytest.warns(UserWarning, match="passed over"),
        pytest.raises(CorruptDataError, match="(?s)000000002.*000000001"),
    ):
        saved.restore(expected_arrays)
    save_steps(saved, 2, 3)
    assert_intact(saved, 2)


def test_a_renamed_checkpoint_is_refused(saved):
    saved.file(1).rename(saved.path / file_name(5))
    with pytest.raises(MismatchError, match="must be of step 5, got step 1"):
        saved.verify(5)


@pytest.mark.parametrize("n_kills", mostly_in_full([6, 20], [6]))
def test_a_process_killed_at_any_file_operation_loses_nothing(tmp_path, process, n_kills):
    """Step 2 is saved twice, so that a checkpoint is replaced; step 1 is deleted."""
    steps = [1, 2, 2, 3]
    n_operations = process.run(job="save", path=tmp_path / "whole", steps=steps, operation=0)["operations"]
    assert n_operations > 20
    for i, operation in enumerate(np.random.default_rng(2).integers(1, n_operations, n_kills)):
        path = tmp_path / f"operation {i}"
        answer = process.run(job="save", path=path, steps=steps, operation=int(operation))
        assert answer["status"] == -9
        _assert_nothing_lost(path, answer.get("done", 0))


@pytest.mark.parametrize("n_kills", mostly_in_full([4, 15], [4]))
def test_a_process_killed_at_any_time_loses_nothing(tmp_path, process, n_kills):
    for i, seconds in enumerate(np.random.default_rng(3).uniform(0, 0.4, n_kills)):
        path = tmp_path / f"time {i}"
        answer = process.run(job="save", path=path, steps=[*range(1, 6), *range(4, 1000)], seconds=seconds)
        assert answer["status"] == -9
        _assert_nothing_lost(path, min(answer.get("done", 0), 4))


def _assert_nothing_lost(path, done):
    """All complete checkpoints are intact, the newest is no older than `done`, and saving goes on."""
    checkpoints = Checkpoints(path)
    steps = checkpoints.steps()
    assert max(steps, default=0) >= done
    for step in steps:
        assert_intact(checkpoints, step)
    save_steps(checkpoints, 2000)
    assert checkpoints.steps() == [*steps, 2000][-3:]
    assert all(entry.suffix == ".safetensors" for entry in path.iterdir())


def test_a_full_disk_leaves_older_checkpoints_as_they_were(saved, process):
    for file_size in (0, 20, 150, 250, 600, 1500, 5000, 12_000):
        answer = process.run(job="save", path=saved.path, steps=[3], file_size=file_size)
        assert answer["error"] == "SaveError" and "steps [1, 2] are as they were" in answer["message"]
        assert "too large" in answer["message"] and "too large" in answer["cause"]
        assert sorted(path.name for path in saved.path.iterdir()) == [file_name(1), file_name(2)]
    for step in (1, 2):
        assert_intact(saved, step)
    save_steps(saved, 3)


def test_a_folder_that_cannot_be_written(process):
    """Saving is refused by name; reading needs no writing."""
    user = {"user": 65534} if os.getuid() == 0 else {}
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "checkpoints")
        os.chmod(name, 0o755)
        save_steps(Checkpoints(path), 1, 2)
        os.chmod(path, 0o555)
        answer = process.run(job="save", path=path, steps=[3], **user)
        assert answer["error"] == "SaveError" and "Permission denied" in answer["cause"]
        assert str(path) in answer["message"] and "steps [1, 2]" in answer["message"]
        assert "error" not in process.run(job="read", path=path, warm_up=1, step=2, **user)
        assert_intact(Checkpoints(path), 2)
        os.chmod(path, 0o755)


def test_a_folder_that_vanished(saved, tmp_path):
    shutil.rmtree(tmp_path)
    saved.save(3, saved_arrays(3), {})
    with pytest.raises(SaveError, match="step 3 could not be saved in .*checkpoints"):
        saved.wait()
    assert not tmp_path.exists()
