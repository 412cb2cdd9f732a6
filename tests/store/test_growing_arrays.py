import os
import warnings

import numpy as np
import pytest
import small_shards
import xarray
import zarr
from short_form import every_nth

from popsim.store.arrays import _layout as chunk_shapes
from popsim.store.arrays.growing_arrays import GrowingArrays
from popsim.store.arrays.inspection import open_arrays, verify_arrays
from popsim.store.files import SaveError


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(chunk_shapes, "SHARD_ROWS", small_shards.SHARD_ROWS)
    monkeypatch.setattr(chunk_shapes, "CHUNK_ROWS", small_shards.CHUNK_ROWS)


@pytest.mark.parametrize("seed", every_nth(range(6), 3))
def test_any_order_of_appending_committing_reopening_and_truncating(seed, small, tmp_path):
    random = np.random.default_rng(seed)
    path = tmp_path / "h.zarr"
    store = GrowingArrays.create(path, fixed=small_shards.FIXED)
    lengths: dict[str, int] = {}
    commits = [{}]
    for _ in range(40):
        what = random.choice(["append", "append", "append", "commit", "open", "truncate"])
        if what == "append":
            axis = str(random.choice(list(small_shards.ROWS)))
            begin, n_rows = lengths.get(axis, 0), int(random.integers(0, 15))
            store.append(axis, small_shards.ROWS[axis](begin, begin + n_rows))
            lengths[axis] = begin + n_rows
        elif what == "commit":
            assert store.commit() == lengths == store.lengths
            commits.append(dict(lengths))
        elif what == "open":
            store.close()
            store = GrowingArrays.open(path)
            lengths = dict(commits[-1])
            assert store.lengths == lengths
        else:
            commits = commits[: random.integers(1, len(commits) + 1)]
            lengths = dict(commits[-1])
            store.truncate(lengths)
            assert store.lengths == lengths
        small_shards.assert_holds(path, commits[-1])
        assert_consolidated(path, commits[-1])
    assert verify_arrays(path) == []


def assert_consolidated(path, lengths):
    """Others see the committed rows and no others, without a warning."""
    opened = xarray.open_zarr(path)
    expected = small_shards.expected(lengths)
    assert {name: opened[name].shape for name in opened.variables} == {
        name: array.shape for name, array in expected.items()
    }


def test_zarr_reads_the_same(small, tmp_path):
    lengths = small_shards.write_small(tmp_path / "h.zarr")
    group = zarr.open_group(tmp_path / "h.zarr", mode="r")
    assert group.attrs["terms"] == small_shards.ATTRIBUTES["terms"]
    for name, array in small_shards.expected(lengths).items():
        found = group[name]
        assert isinstance(found, zarr.Array)
        np.testing.assert_array_equal(np.asarray(found[...]), array)


def test_large_rows_are_cut_into_parts(monkeypatch, tmp_path):
    monkeypatch.setattr(chunk_shapes, "SHARD_BYTES", 2**10)
    monkeypatch.setattr(chunk_shapes, "LARGEST_CHUNK_BYTES", 2**8)
    weights = np.random.default_rng(0).normal(size=(7, 3, 31, 17)).astype("f4")
    store = GrowingArrays.create(tmp_path / "h.zarr", fixed={"x": (("a", "b"), weights[0, 0])})
    store.append("n", {"w": (("member", "row", "column"), weights[:4])})
    store.append("n", {"w": (("member", "row", "column"), weights[4:])})
    store.commit()
    dataset = open_arrays(tmp_path / "h.zarr")
    np.testing.assert_array_equal(dataset.w, weights)
    np.testing.assert_array_equal(dataset.x, weights[0, 0])
    np.testing.assert_array_equal(dataset.w[::-2, 1, [30, 2, 2], 5:9], weights[::-2, 1][:, [30, 2, 2], 5:9])
    group = zarr.open_group(tmp_path / "h.zarr", mode="r")
    np.testing.assert_array_equal(np.asarray(group["w"][...]), weights)  # type: ignore[index]
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
    store = GrowingArrays.create(tmp_path / "h.zarr", fixed={"x": (axes, array)})
    store.append("n", {"y": (axes, np.stack([array, array]))})
    store.append("empty", {"z": (axes, np.stack([array])[:0])})
    assert store.commit() == {"n": 2, "empty": 0}
    dataset = open_arrays(tmp_path / "h.zarr")
    for found, wanted in ((dataset.x, array), (dataset.y[1], array), (dataset.z, np.stack([array])[:0])):
        np.testing.assert_array_equal(found.values, wanted)
        assert found.dtype == array.dtype.newbyteorder("=")
    assert verify_arrays(tmp_path / "h.zarr") == []


def test_the_rows_are_copied(tmp_path):
    store = GrowingArrays.create(tmp_path / "h.zarr")
    rows = np.zeros((1, 2))
    for number in range(5):
        rows[:] = number
        store.append("n", {"x": (("a",), rows)})
    store.commit()
    np.testing.assert_array_equal(open_arrays(tmp_path / "h.zarr").x[:, 0], np.arange(5))


def test_what_is_not_committed_is_not_seen(small, tmp_path):
    path = tmp_path / "h.zarr"
    small_shards.write_small(path, 10)
    store = GrowingArrays.open(path)
    store.append("batch", small_shards.losses(10, 50))
    store.append("new", {"x": ((), np.arange(30))})
    store.close()
    small_shards.assert_holds(path, {"batch": 10, "trainables_batch": 2})
    again = GrowingArrays.open(path)
    again.append("batch", small_shards.losses(10, 13))
    again.append("new", {"y": ((), np.arange(3.0))})
    again.append("newer", {"x": ((), np.arange(2.0))})
    again.commit()
    assert open_arrays(path).y.dtype == float and open_arrays(path).x.sizes == {"newer": 2}


def test_after_truncating_nothing_stale_is_left(small, tmp_path):
    path = tmp_path / "h.zarr"
    small_shards.write_small(path, 40)
    (path / "loss" / "notes.txt").write_text("of the user")
    (path / "loss" / "c.9.0.0.0123abcd.partial").write_text("left by a process that was killed")
    store = GrowingArrays.open(path)
    store.truncate({"batch": 8})
    small_shards.assert_holds(path, {"batch": 8})
    assert sorted(os.listdir(path / "loss")) == ["c.0.0.0", "c.1.0.0", "notes.txt", "zarr.json"]
    assert not (path / "trainables.count").exists()
    store.append("batch", small_shards.losses(8, 9))
    store.commit()
    small_shards.assert_holds(path, {"batch": 9})


def test_attributes_stay_until_others_are_given(tmp_path):
    path = tmp_path / "h.zarr"
    store = GrowingArrays.create(path, attributes={"terms": ("a",)})
    store.commit()
    assert open_arrays(path).attrs == {"terms": ["a"]}
    store.commit({"members": {"3": 1.5}})
    assert open_arrays(path).attrs == {"members": {"3": 1.5}}


@pytest.mark.parametrize(
    "attributes", [{"popsim_arrays": 1}, {"x": float("nan")}, {"x": {1, 2}}, {"x": object()}]
)
def test_attributes_that_are_no_json_are_refused(attributes, tmp_path):
    with pytest.raises(ValueError, match="attributes"):
        GrowingArrays.create(tmp_path / "h.zarr", attributes=attributes)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("fixed", "named"),
    [
        ({"x": (("a",), np.ones((2, 2)))}, "one axis for each name"),
        ({"x": (("a", "a"), np.ones((2, 2)))}, "one axis for each name"),
        ({"x": (("a",), np.ones(2)), "y": (("a",), np.ones(3))}, "axis 'a' of array 'y'"),
        ({"x": (("a",), np.array(["b"]))}, "one of the types"),
        ({"x": (("a",), np.array([{}]))}, "one of the types"),
        ({"x": (("a",), np.ones(1, complex))}, "one of the types"),
        ({"x": ((), np.ones(()))}, "'x' must have an axis"),
        *(({name: ((), np.ones(()))}, "plain folder") for name in ("", "a/b", "..", "a\\b", "zarr.json")),
        *(({name: ((), np.ones(()))}, "plain folder") for name in ("a..b", ".a", "__a", "a\n", "a" * 300)),
    ],
    ids=str,
)
def test_fixed_arrays_that_cannot_be_written_are_refused(fixed, named, tmp_path):
    with pytest.raises(ValueError, match=named):
        GrowingArrays.create(tmp_path / "h.zarr", fixed=fixed)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("axis", "rows", "named"),
    [
        ("n", {}, "must hold an array"),
        ("n", {"x": (("a",), np.ones((1, 2)))}, r"the arrays \['x', 'y'\]"),
        ("n", {"x": (("a",), np.ones((1, 2))), "z": ((), np.ones(1))}, r"the arrays \['x', 'y'\]"),
        ("n", {"x": (("a",), np.ones((1, 3))), "y": ((), np.ones(1))}, "rows of array 'x'"),
        ("n", {"x": (("b",), np.ones((1, 2))), "y": ((), np.ones(1))}, "rows of array 'x'"),
        ("n", {"x": (("a",), np.ones((1, 2), "f4")), "y": ((), np.ones(1))}, "rows of array 'x'"),
        ("n", {"x": (("a",), np.ones((1, 2))), "y": ((), np.ones(2))}, "'y' must have 1 rows"),
        ("n", {"x": (("a",), np.ones((1, 2))), "y": ((), np.ones(()))}, "single number"),
        ("m", {"x": ((), np.ones(1))}, "'x' must be new"),
        ("m", {"member": ((), np.ones(1))}, "'member' must be new"),
        ("m", {"z": (("a",), np.ones((1, 3)))}, "axis 'a' of array 'z'"),
        ("m", {"z": (("n",), np.ones((1, 3)))}, "grow along 'm' alone"),
        ("m", {"z": (("m",), np.ones((1, 3)))}, "one axis for each name"),
        ("m", {"z": (("member",), np.ones((1, 4)))}, "axis 'member' of array 'z'"),
        ("member", {"z": ((), np.ones(1))}, "must not grow"),
        ("m", {"../z": ((), np.ones(1))}, "plain folder"),
    ],
)
def test_rows_that_do_not_agree_are_refused_and_change_nothing(axis, rows, named, tmp_path):
    path = tmp_path / "h.zarr"
    store = GrowingArrays.create(path, fixed={"member": (("member",), np.arange(3))})
    first = {"x": (("a",), np.ones((2, 2))), "y": ((), np.ones(2))}
    store.append("n", first)
    with pytest.raises(ValueError, match=named):
        store.append(axis, rows)
    store.append("n", first)
    assert store.commit() == {"n": 4}
    assert sorted(os.listdir(path)) == ["member", "x", "y", "zarr.json"]


def test_folders_that_are_there_or_not_are_refused(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for name in ("file", "folder"):
        with pytest.raises(ValueError, match="must not exist"):
            GrowingArrays.create(tmp_path / name)
    for name in ("file", "folder", "none"):
        with pytest.raises(ValueError, match=f"`path` must be a folder of arrays.*{name}"):
            GrowingArrays.open(tmp_path / name)
        with pytest.raises(ValueError, match=f"`path` must be a folder of arrays.*{name}"):
            open_arrays(tmp_path / name)
        with pytest.raises(ValueError, match=f"`path` must be a folder of arrays.*{name}"):
            verify_arrays(tmp_path / name)


def test_what_a_killed_create_left_is_replaced(tmp_path):
    left, theirs = tmp_path / "h.zarr.0123abcd.partial", tmp_path / "h.zarr.partial"
    for folder in (left, theirs):
        folder.mkdir()
        (folder / "rest").write_text("")
    GrowingArrays.create(tmp_path / "h.zarr")
    assert sorted(os.listdir(tmp_path)) == ["h.zarr", "h.zarr.partial"] and os.listdir(
        tmp_path / "h.zarr"
    ) == ["zarr.json"]


@pytest.mark.parametrize("lengths", [{"n": 4}, {"n": -1}, {"m": 1}])
def test_only_what_is_committed_can_be_truncated_to(lengths, tmp_path):
    store = GrowingArrays.create(tmp_path / "h.zarr")
    store.append("n", {"x": ((), np.arange(3))})
    store.commit()
    store.append("n", {"x": ((), np.arange(3))})
    with pytest.raises(ValueError, match=f"axis {next(iter(lengths))!r} must be from 0 to"):
        store.truncate(lengths)
    assert store.commit() == {"n": 6}


def interrupt(*arguments):
    raise KeyboardInterrupt


@pytest.mark.parametrize("call", ["append", "commit"])
def test_an_interrupted_call_is_not_committed(call, monkeypatch, tmp_path):
    store = GrowingArrays.create(tmp_path / "h.zarr")
    rows = {"x": ((), np.arange(3)), "y": ((), np.arange(3))}
    store.append("n", rows)
    lengths = store.commit()
    calls = {"append": lambda: store.append("n", rows), "commit": store.commit}
    store.append("n", rows)
    where = {"append": (store._buffers["y"], "add"), "commit": (store, "_write")}
    with monkeypatch.context() as patch:
        patch.setattr(*where[call], interrupt)
        with pytest.raises(KeyboardInterrupt):
            calls[call]()
    for later in calls.values():
        with pytest.raises(SaveError, match="interrupted"):
            later()
    store.truncate(lengths)
    store.append("n", rows)
    assert store.commit() == {"n": 6}
    np.testing.assert_array_equal(open_arrays(tmp_path / "h.zarr").y, [0, 1, 2, 0, 1, 2])


def memory_and_files() -> tuple[int, int]:
    """Bytes of this process in memory, and how many files it has open."""
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is read from /proc")
@pytest.mark.full
def test_many_rows_one_by_one_take_constant_memory_and_few_files(tmp_path):
    path = tmp_path / "h.zarr"
    store = GrowingArrays.create(path)
    loss = np.random.default_rng(0).normal(size=(100_000, 5, 3)).astype("f4")
    used = []
    for number in range(len(loss)):
        row = loss[number : number + 1]
        store.append("batch", {"batch": ((), np.array([number])), "loss": (("member", "term"), row)})
        if number % 20_000 == 19_999:
            store.commit()
            used.append(memory_and_files())
    np.testing.assert_array_equal(open_arrays(path).loss, loss)
    assert max(memory for memory, _ in used) < used[0][0] + 16e6
    assert len({files for _, files in used}) == 1
    assert sum(len(files) for _, _, files in os.walk(path)) < 64


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


def test_nothing_warns_when_a_store_is_dropped(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = GrowingArrays.create(tmp_path / "h.zarr")
        store.append("n", {"x": ((), np.arange(3))})
        del store
