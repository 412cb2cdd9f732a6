import json
import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from repository import HELPERS
from short_form import mostly_in_full

from popsim.store.arrays.growing_arrays import GrowingArrays
from popsim.store.arrays.inspection import open_arrays
from popsim.store.files import SaveError, write_file

FAULTS = [(3, 1, 2), (20, 6, 10)]  # kills at operations, kills at times, and full disks


@pytest.mark.parametrize("n_faults", mostly_in_full(FAULTS, FAULTS[:1]))
def test_a_writer_that_is_killed_or_finds_the_disk_full_can_go_on(tmp_path, n_faults):
    script = HELPERS / "killed_writers.py"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(script.parent), *sys.path])}
    operations, times, full_disks = n_faults
    faults = {"--operations": operations, "--times": times, "--full-disks": full_disks}
    options = [str(word) for option in faults.items() for word in option]
    done = subprocess.run(
        [sys.executable, script, tmp_path, *options],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["wrong"] == [], (found, done.stderr)
    ends = Counter(found["ends"])
    assert set(ends) <= {0, 3, -9} and ends[-9] >= 0.9 * operations and ends[3] >= 0.4 * full_disks, ends


def fail(*arguments):
    raise OSError(28, "No space left on device")


def test_a_full_disk_is_told_at_the_next_call(monkeypatch, tmp_path):
    path = tmp_path / "h.zarr"
    store = GrowingArrays.create(path)
    rows = {"x": (("a",), np.ones((64, 10_000)))}
    store.append("n", rows)
    assert store.commit() == {"n": 64}
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(SaveError, match=r"x/c\.\d+\.0"):  # noqa: PT012
            for _ in range(20):
                store.append("n", rows)
    for call in (lambda: store.append("n", rows), store.commit, lambda: store.truncate({"n": 64})):
        with pytest.raises(SaveError, match="No space left on device"):
            call()
    assert not list(path.rglob("*.partial"))
    np.testing.assert_array_equal(open_arrays(path).x, rows["x"][1])
    store = GrowingArrays.open(path)
    store.truncate({"n": 10})
    store.append("n", rows)
    assert store.commit() == {"n": 74}


def test_a_full_disk_is_told_by_commit_and_create(monkeypatch, tmp_path):
    store = GrowingArrays.create(tmp_path / "h.zarr")
    store.append("n", {"x": ((), np.arange(3))})
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(SaveError, match="x/c.0"):
            store.commit()
        with pytest.raises(SaveError, match=r"other\.zarr"):
            GrowingArrays.create(tmp_path / "other.zarr")
    assert not (tmp_path / "other.zarr").exists()
    assert open_arrays(tmp_path / "h.zarr").sizes == {}
    GrowingArrays.create(tmp_path / "other.zarr")


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SaveError, match="file"):
        GrowingArrays.create(tmp_path / "file" / "h.zarr")
    with pytest.raises(SaveError, match="missing"):
        write_file(tmp_path / "missing" / "file", [b""])
    store = GrowingArrays.create(tmp_path / "h.zarr")
    (tmp_path / "h.zarr").rename(tmp_path / "moved.zarr")
    with pytest.raises(SaveError, match=r"h\.zarr"):
        store.append("n", {"x": ((), np.arange(3))})
