"""What becomes of checkpoints when files, disks and processes fail, or somebody forges them."""

import json
import os
import pickle
import shutil
import tempfile
from pathlib import Path

import jax
import numpy as np
import pytest
from bit_flips import count_outcomes, cut_short, flip_bit
from checkpoint_helpers import assert_intact, bits_of, file_name, reseal, save_steps, structs_of
from saving_process import SavingProcess, expected_arrays, saved_arrays
from short_form import mostly_in_full

from popsim.store.array_file import MAX_HEADER_BYTES
from popsim.store.checkpoints import Checkpoints
from popsim.store.files import CorruptDataError, SaveError


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


@pytest.mark.parametrize("n_faults", mostly_in_full([40, 200], [40]))
def test_a_flipped_bit_is_never_read(saved, n_faults):
    saved.file(1).unlink()
    outcomes = count_outcomes(
        saved.path,
        flip_bit,
        lambda: bits_of(saved.restore(expected_arrays, step=2).arrays),
        n_faults=n_faults,
        seed=0,
        refusals=CorruptDataError,
    )
    assert outcomes == {"refused": n_faults}


@pytest.mark.parametrize("n_faults", mostly_in_full([20, 100], [20]))
def test_a_file_cut_short_is_never_read(saved, n_faults):
    saved.file(1).unlink()
    outcomes = count_outcomes(
        saved.path,
        cut_short,
        lambda: bits_of(saved.restore(expected_arrays, step=2).arrays),
        n_faults=n_faults,
        seed=1,
        refusals=CorruptDataError,
    )
    assert outcomes == {"refused": n_faults}


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
    with pytest.raises(CorruptDataError, match="must be of step 5, got step 1"):
        saved.verify(5)


class _Execute:
    """When unpickled, makes a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_nothing_in_a_checkpoint_is_executed(saved, tmp_path):
    marker = tmp_path / "executed"
    saved.file(2).write_bytes(pickle.dumps(_Execute(marker)))
    with pytest.raises(CorruptDataError, match=file_name(2)):
        saved.restore(expected_arrays, step=2)
    assert not marker.exists()


def test_links_and_pipes_are_refused(saved, tmp_path):
    path = saved.file(2)
    path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")
    with pytest.raises(CorruptDataError, match=f"{path.name} must be a plain file, got a link"):
        saved.verify(2)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(CorruptDataError, match=f"{path.name} must be a plain file, got a pipe"):
        saved.verify(2)


FORGED = {
    "huge": {"shape": [10**15], "dtype": "float32"},
    "huger": {"shape": [10**18, 10**18], "dtype": "float32"},
    "huge and empty": {"shape": [0, 10**18, 10**18], "dtype": "float32"},
    "negative": {"shape": [-64, -50], "dtype": "float32"},
    "true": {"shape": [True], "dtype": "float32"},
    "objects": {"shape": [64, 50], "dtype": "object"},
    "strings": {"shape": [64, 50], "dtype": "<U8"},
    "no dtype": {"shape": [64, 50], "dtype": "nonsense"},
    "keys": {"shape": [64, 50], "dtype": "key<nonsense>"},
    "no shape": {"dtype": "float32"},
    "other": {"shape": [50, 64], "dtype": "float32"},
    "narrow": {"shape": [64, 50], "dtype": "float16"},
}


@pytest.mark.parametrize("entry", FORGED.values(), ids=FORGED)
def test_a_forged_entry_is_refused_at_once(saved, process, entry):
    """Also when what the caller expects was derived from the checkpoint."""

    def believe(details):
        return expected_arrays({}) | {"weight": jax.ShapeDtypeStruct(tuple(entry["shape"]), entry["dtype"])}

    reseal(saved.file(2), {"weight": entry})
    with pytest.raises(CorruptDataError, match="000000002.*'weight'"):
        saved.restore(believe, step=2)


def rewrite_header(file, change):
    """Change the header of a safetensors file, also where its checksums do not allow it."""
    content = file.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.dumps(change(json.loads(content[8:end]))).encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header + content[end:])


HEADERS = {
    "huge": lambda header: header | {"weight": header["weight"] | {"shape": [10**9, 10**6]}},
    "far": lambda header: header | {"weight": header["weight"] | {"data_offsets": [2**40, 2**41]}},
    "overlapping": lambda header: header | {"weight": header["step"]},
    "narrow": lambda header: header | {"weight": header["weight"] | {"dtype": "F16"}},
    "without it": lambda header: {name: own for name, own in header.items() if name != "weight"},
    "no metadata": lambda header: {name: own for name, own in header.items() if name != "__metadata__"},
    "other metadata": lambda header: header | {"__metadata__": {"popsim": "[" * 10**5}},
    "null": lambda header: None,
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_forged_header_is_refused_at_once(saved, process, name):
    rewrite_header(saved.file(2), HEADERS[name])
    answer = process.run(job="read", path=saved.path, warm_up=1, step=2)
    assert answer["error"] in ("CorruptDataError", "MismatchError"), answer
    assert file_name(2) in answer["message"]
    assert answer["seconds"] < 1 and answer["megabytes"] < 200


def test_a_huge_header_is_refused_unread_or_takes_little(saved, process):
    reseal(saved.file(2), more=[[]] * 250_000)
    answer = process.run(job="read", path=saved.path, warm_up=1, step=2)
    assert "error" not in answer and answer["seconds"] < 1 and answer["megabytes"] < 200
    rewrite_header(saved.file(2), lambda header: header | {"more": "x" * MAX_HEADER_BYTES})
    answer = process.run(job="read", path=saved.path, warm_up=1, step=2)
    assert "its header is too long" in answer["message"] and answer["megabytes"] < 20


def test_many_zeros_are_no_forgery(tmp_path):
    zeros = {"zeros": np.zeros(2**24, np.float32)}
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, zeros, {})
    assert not checkpoints.restore(lambda details: structs_of(zeros)).arrays["zeros"].any()


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
