"""Arrays that grow: any order of appends, commits, truncations, kills and full disks is read bit by bit."""

import json
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
import small_shards
import xarray
from hypothesis import settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from interruptions import copied_at_operations, files_of_at_most

from popsim.store import stored_array as chunk_shapes
from popsim.store.array_group import open_arrays
from popsim.store.files import CorruptDataError, SaveError
from popsim.store.growing_arrays import GrowingArrays


@pytest.fixture
def small(monkeypatch):
    small_shards.use_small_shards(monkeypatch)


class AnyOrder(RuleBasedStateMachine):
    """Appends, commits, truncations, full disks and resumes: readers see the last commit, bit by bit."""

    def __init__(self):
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        small_shards.use_small_shards(self.patch)
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "h.zarr"
        self.store = GrowingArrays.create(self.path)
        self.lengths: dict[str, int] = {}
        self.commits: list[dict[str, int]] = [{}]
        self.before: list[tuple] = []

    @rule(axis=strategies.sampled_from([*small_shards.ROWS]), n_rows=strategies.integers(0, 15))
    def append(self, axis, n_rows):
        begin = self.lengths.get(axis, 0)
        self.store.append(axis, small_shards.ROWS[axis](begin, begin + n_rows))
        self.lengths[axis] = begin + n_rows

    @rule()
    def commit(self):
        assert self.store.commit() == self.lengths == self.store.lengths
        self.commits.append(dict(self.lengths))
        seen = {name: array.shape for name, array in xarray.open_zarr(self.path).variables.items()}
        assert seen == {name: array.shape for name, array in small_shards.expected(self.lengths).items()}

    @rule()
    def resume(self):
        self.store.close()
        self.store = GrowingArrays.open(self.path)
        self.lengths = dict(self.store.lengths)
        assert self.lengths == self.commits[-1]

    @rule(data=strategies.data())
    def truncate(self, data):
        self.commits = self.commits[: data.draw(strategies.integers(1, len(self.commits)))]
        self.lengths = dict(self.commits[-1])
        self.store.truncate(self.lengths)
        assert self.store.lengths == self.lengths

    @rule(n_syncs=strategies.integers(0, 30), n_rows=strategies.integers(1, 9))
    def commit_onto_a_full_disk(self, n_syncs, n_rows):
        left, sync = [n_syncs], os.fsync

        def fail_late(descriptor):
            left[0] -= 1
            if left[0] < 0:
                raise OSError(28, "No space left on device")
            sync(descriptor)

        self.append("batch", n_rows)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", fail_late)
            try:
                self.commit()
                return
            except SaveError:
                self.store.close()
        self.store = GrowingArrays.open(self.path)
        assert self.store.lengths in (self.commits[-1], self.lengths)  # the disk was full after the record
        self.lengths = dict(self.store.lengths)
        self.commits.append(dict(self.lengths))
        self.store.truncate(self.lengths)

    @rule()
    def open_a_reader(self):
        self.before.append((open_arrays(self.path), dict(self.commits[-1])))

    @invariant()
    def what_was_committed_is_read(self):
        lengths = self.commits[-1]
        small_shards.assert_holds(self.path, lengths)
        for reader, then in self.before:  # sees the rows of then, as far as they are not cut
            n_rows = min(then.get("batch", 0), lengths.get("batch", 0))
            if n_rows:
                np.testing.assert_array_equal(reader.loss[:n_rows], small_shards.losses(0, n_rows)["loss"][1])

    def teardown(self):
        self.store.close()
        self.patch.undo()
        self.folder.cleanup()


test_any_order = AnyOrder.TestCase
test_any_order.settings = settings(
    max_examples=7, stateful_step_count=20, deadline=None, derandomize=True, database=None
)


def test_a_reader_of_before_a_cut_sees_the_rows_that_are_there_again(small, tmp_path):
    """Two rows were committed, none, and one again."""
    store = GrowingArrays.create(tmp_path / "h.zarr")
    store.append("batch", small_shards.ROWS["batch"](0, 2))
    store.commit()
    reader = open_arrays(tmp_path / "h.zarr")
    store.truncate({})
    store.append("batch", small_shards.ROWS["batch"](0, 1))
    store.commit()
    np.testing.assert_array_equal(reader.loss[:1], small_shards.losses(0, 1)["loss"][1])
    with pytest.raises(CorruptDataError, match="must have 2 rows, got 1"):
        np.asarray(reader.loss[:2])
    store.close()


def test_large_rows_are_cut_into_parts(monkeypatch, tmp_path):
    monkeypatch.setattr(chunk_shapes, "SHARD_BYTES", 2**10)
    monkeypatch.setattr(chunk_shapes, "LARGEST_CHUNK_BYTES", 2**8)
    weights = np.random.default_rng(0).normal(size=(4, 2, 31, 17)).astype("f4")
    store = GrowingArrays.create(tmp_path / "h.zarr")
    for rows in (weights[:3], weights[3:]):
        store.append("n", {"w": (("member", "row", "column"), rows)})
    store.commit()
    dataset = open_arrays(tmp_path / "h.zarr")
    np.testing.assert_array_equal(dataset.w, weights)
    np.testing.assert_array_equal(dataset.w[::-2, 1, [30, 2, 2], 5:9], weights[::-2, 1][:, [30, 2, 2], 5:9])
    assert max(file.stat().st_size for file in (tmp_path / "h.zarr" / "w").glob("c.*")) < 2**10


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((0, 3)),
        np.zeros((3, 0), "i2"),
        np.array([True]),
        np.array([1, 2**63], "u8"),
        np.arange(6.0).reshape(2, 3).T,
        np.arange(5, dtype=">i4"),
        np.float16([np.nan, np.inf, -0.0]),
    ],
    ids=str,
)
def test_arrays_of_any_shape_and_type_are_kept(array, tmp_path):
    axes = tuple(f"axis {i}" for i in range(array.ndim))
    store = GrowingArrays.create(tmp_path / "h.zarr")
    store.append("n", {"y": (axes, np.stack([array, array]))})
    store.append("empty", {"z": (axes, np.stack([array])[:0])})
    assert store.commit() == {"n": 2, "empty": 0}
    dataset = open_arrays(tmp_path / "h.zarr")
    for found, wanted in ((dataset.y[1], array), (dataset.z, np.stack([array])[:0])):
        np.testing.assert_array_equal(found.values, wanted)
        assert found.dtype == array.dtype.newbyteorder("=")
    assert not small_shards.damage(tmp_path / "h.zarr")


def test_after_truncating_nothing_stale_is_left_and_foreign_files_are(small, tmp_path):
    path = tmp_path / "h.zarr"
    small_shards.write_small(path, 40)
    (path / "loss" / "notes.txt").write_text("of the user")
    (path / "loss" / "c.9.0.0.0123abcd.partial").write_text("left by a process that was killed")
    store = GrowingArrays.open(path)
    store.truncate({"batch": 8})
    assert sorted(os.listdir(path / "loss")) == ["c.0.0.0", "c.1.0.0", "notes.txt"]
    assert not (path / "trainables.count").exists()


DISAGREEING = [
    ("n", {"x": (("a",), np.ones((1, 2)))}),
    ("n", {"x": (("a",), np.ones((1, 1))), "y": ((), np.ones(1))}),
    ("n", {"x": (("b",), np.ones((1, 2))), "y": ((), np.ones(1))}),
    ("n", {"x": (("a",), np.ones((1, 2), "f4")), "y": ((), np.ones(1))}),
    ("n", {"x": (("a",), np.ones((1, 2))), "y": ((), np.ones(2))}),
    ("m", {"x": ((), np.ones(1))}),
    ("m", {"z": (("a",), np.ones(1))}),
    ("m", {"z": ((), np.ones(1, complex))}),
    ("m", {"../z": ((), np.ones(1))}),
]


def test_rows_that_do_not_agree_are_refused_and_change_nothing(tmp_path):
    path = tmp_path / "h.zarr"
    store = GrowingArrays.create(path)
    first = {"x": (("a",), np.ones((2, 2))), "y": ((), np.ones(2))}
    store.append("n", first)
    for axis, rows in DISAGREEING:
        with pytest.raises(ValueError, match="array"):
            store.append(axis, rows)
    store.append("n", first)
    assert store.commit() == {"n": 4}
    assert sorted(os.listdir(path)) == ["x", "y", "zarr.json"]


def interrupt(*arguments):
    raise KeyboardInterrupt


@pytest.mark.parametrize("call", ["append", "commit"])
def test_a_call_that_is_interrupted_loses_no_row_of_the_calls_before(call, small, monkeypatch, tmp_path):
    store = GrowingArrays.create(tmp_path / "h.zarr")
    rows = {"x": ((), np.arange(4)), "y": ((), np.arange(4))}
    store.append("n", rows)
    store.commit()
    store.append("m", {"z": ((), np.arange(2))})
    with monkeypatch.context() as patch:
        patch.setattr(store, "_write", interrupt)
        with pytest.raises(KeyboardInterrupt):  # where the rows fill a file, as they are written
            store.append("n", rows) if call == "append" else store.commit()
    assert store.appended_lengths == {"n": 4, "m": 2} == store.commit()
    assert not small_shards.damage(tmp_path / "h.zarr")
    np.testing.assert_array_equal(open_arrays(tmp_path / "h.zarr").y, np.arange(4))


def test_fewer_rows_than_were_appended_can_be_committed(small, tmp_path):
    store = GrowingArrays.create(tmp_path / "h.zarr")
    for first in (0, 10):
        store.append("n", {"x": ((), np.arange(first, first + 10))})
    store.append("m", {"z": ((), np.arange(2))})
    assert store.commit({"n": 9}) == {"n": 9}
    for lengths in ({"n": 10}, {"m": 1}):
        with pytest.raises(ValueError, match="`lengths` must be at most"):
            store.truncate(lengths)
    np.testing.assert_array_equal(open_arrays(tmp_path / "h.zarr").x, np.arange(9))
    assert store.commit() == {"n": 20, "m": 2}
    np.testing.assert_array_equal(open_arrays(tmp_path / "h.zarr").x, np.arange(20))


def test_waiting_rows_are_bounded(monkeypatch, tmp_path):
    store = GrowingArrays.create(tmp_path / "h.zarr")
    rows = np.zeros((64, 3, 100, 100), "f4")
    waiting = []
    write = store._write

    def counted(*arguments):
        write(*arguments)
        waiting.append(sum(n_bytes for n_bytes, _ in store._waiting))

    monkeypatch.setattr(store, "_write", counted)
    for _ in range(20):
        store.append("n", {f"w{i}": (("member", "row", "column"), rows) for i in range(3)})
    kept = sum(buffer._shard_rows().nbytes for buffer in store._buffers.values())
    assert kept <= chunk_shapes.BUFFERED_BYTES and max(waiting) <= chunk_shapes.BUFFERED_BYTES
    store.commit()


def goes_on(folder):
    """Check that what was committed is whole, and that who continues ends where it should."""
    path, checkpoint = folder / "h.zarr", folder / "checkpoint.json"
    if (path / "zarr.json").exists():
        committed = GrowingArrays.open(path).lengths
        small_shards.assert_holds(path, committed)
        if checkpoint.exists():
            assert all(committed[axis] >= n for axis, n in json.loads(checkpoint.read_text()).items())
    small_shards.train(path, checkpoint, 24)
    small_shards.assert_holds(path, {"batch": 24, "trainables_batch": 4})
    assert not [*folder.rglob("*.partial")]


@pytest.mark.parametrize("every", [23, pytest.param(3, marks=pytest.mark.full)])
def test_a_writer_that_is_killed_at_any_file_operation_can_go_on(every, small, tmp_path):
    (tmp_path / "run").mkdir()
    with copied_at_operations(tmp_path / "run", tmp_path / "left", every) as left:
        small_shards.train(tmp_path / "run" / "h.zarr", tmp_path / "run" / "checkpoint.json", 24)
    assert len(left) > 5
    for copy in left:
        goes_on(copy)


def test_a_truncation_that_is_killed_at_any_file_operation_loses_no_row_of_the_record(small, tmp_path):
    """Rows are removed after the record no longer has them."""
    path = tmp_path / "h.zarr"
    small_shards.write_small(path, 40)
    with copied_at_operations(path, tmp_path / "left") as left:
        GrowingArrays.open(path).truncate({"batch": 8})
    seen = []
    for copy in left:
        lengths = GrowingArrays.open(copy).lengths
        seen.append(lengths["batch"])
        small_shards.assert_holds(copy, lengths)
    assert seen == sorted(seen, reverse=True) and {*seen} == {40, 8}


def test_a_full_disk_is_told_at_the_next_call_and_leaves_what_was_committed(tmp_path):
    path = tmp_path / "h.zarr"
    store = GrowingArrays.create(path)
    rows = {"x": (("a",), np.random.default_rng(0).normal(size=(64, 10_000)))}
    store.append("n", rows)
    assert store.commit() == {"n": 64}
    with files_of_at_most(10_000), pytest.raises(SaveError, match=r"x/c\.\d+\.0"):  # noqa: PT012
        for _ in range(20):
            store.append("n", rows)
        store.commit()
    for call in (lambda: store.append("n", rows), store.commit, lambda: store.truncate({"n": 64})):
        with pytest.raises(SaveError, match="too large"):
            call()
    assert not list(tmp_path.rglob("*.partial"))
    np.testing.assert_array_equal(open_arrays(path).x, rows["x"][1])
    store = GrowingArrays.open(path)
    store.truncate({"n": 10})
    store.append("n", rows)
    assert store.commit() == {"n": 74}
