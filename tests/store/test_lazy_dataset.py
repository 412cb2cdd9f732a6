import builtins
import io
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import small_shards

from popsim.store.arrays import _layout as chunk_shapes
from popsim.store.arrays.growing_arrays import GrowingArrays
from popsim.store.arrays.inspection import open_arrays

N_ROWS, SHAPE = 230, (5, 32, 48)


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(0).normal(size=(N_ROWS, *SHAPE)).astype("f4")


@pytest.fixture(scope="module")
def path(weights, tmp_path_factory):
    path = tmp_path_factory.mktemp("lazy") / "h.zarr"
    store = GrowingArrays.create(path, fixed={"member": (("member",), np.arange(5))})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunk_shapes, "SHARD_ROWS", 50)
        patch.setattr(chunk_shapes, "CHUNK_ROWS", 10)
        axes = ("member", "row", "column")
        store.append("kept", {"kept": ((), np.arange(N_ROWS) * 10), "weights": (axes, weights)})
    store.commit()
    return path


@pytest.fixture
def files_read(monkeypatch):
    """The files opened within a test."""
    files: list[Path] = []
    opened = io.open

    def counting(file, *arguments, **keywords):
        files.append(Path(os.path.realpath(f"/dev/fd/{file}") if isinstance(file, int) else file))
        return opened(file, *arguments, **keywords)

    monkeypatch.setattr(io, "open", counting)
    monkeypatch.setattr(builtins, "open", counting)
    return files


def shards(files: list[Path]) -> list[str]:
    return [file.name for file in files if file.parent.name == "weights" and file.name != "zarr.json"]


def test_opening_reads_no_weights(path, files_read):
    dataset = open_arrays(path)
    assert dataset.weights.shape == (N_ROWS, *SHAPE) and dataset.weights.dtype == np.float32
    assert "weights" in repr(dataset)
    assert dataset.weights.isel(kept=slice(3, 5), member=[1, 2]).shape == (2, 2, *SHAPE[1:])
    assert files_read and shards(files_read) == []


def test_only_what_is_needed_is_read(path, weights, files_read):
    selected = open_arrays(path).weights
    np.testing.assert_array_equal(selected[120], weights[120])
    assert shards(files_read) == ["c.2.0.0.0"]
    files_read.clear()
    np.testing.assert_array_equal(selected.sel(kept=[490, 500]), weights[49:51])
    assert shards(files_read) == ["c.0.0.0.0", "c.1.0.0.0"]


@pytest.mark.parametrize("how", ["mean", "std"])
def test_what_does_not_fit_into_memory_says_how_to_read_it(how, path, weights, monkeypatch):
    monkeypatch.setattr("popsim.store.arrays._stored_array.memory_of_machine", lambda: weights.nbytes // 10)
    lazy = open_arrays(path).weights
    with pytest.raises(MemoryError, match=r"'weights' .* \.isel\({'kept': slice\(0, 50\)}\), or .* \.chunk"):
        getattr(lazy, how)("kept")
    part = getattr(lazy.isel(kept=slice(0, 5)), how)("kept")
    np.testing.assert_allclose(part, getattr(weights[:5], how)(0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_any_index_gives_what_numpy_gives(seed, path, weights):
    random = np.random.default_rng(seed)
    lazy = open_arrays(path).weights

    def index(length):
        kind = random.integers(4)
        if kind == 0:
            return int(random.integers(-length, length))
        if kind == 1:
            ends = [None if random.random() < 0.3 else int(random.integers(-length, length)) for _ in "ab"]
            part = slice(*ends, [None, 1, 2, -1, -3][random.integers(5)])
            return part if range(length)[part] else slice(0, 0)  # xarray fails on [3:5:-1]
        if kind == 2:
            return random.integers(-length, length, size=random.integers(0, 7))
        return random.random(length) < 0.3

    for _ in range(30):
        keys = [index(length) for length in lazy.shape]
        wanted = weights
        for axis, key in reversed(list(enumerate(keys))):
            wanted = wanted[(slice(None),) * axis + (key,)]
        np.testing.assert_array_equal(lazy[tuple(keys)].values, wanted)
        twice = lazy[keys[0] if not isinstance(keys[0], int) else slice(None)][..., keys[3]]
        np.testing.assert_array_equal(
            twice.values, (weights if isinstance(keys[0], int) else weights[keys[0]])[..., keys[3]]
        )


@pytest.mark.parametrize("key", [N_ROWS, -N_ROWS - 1, [0, N_ROWS]])
def test_an_index_past_the_end_is_refused(key, path):
    with pytest.raises(IndexError):
        open_arrays(path).weights[key].load()


def test_points_along_two_axes(path, weights):
    import xarray

    rows = xarray.DataArray([3, 100, 229], dims="point")
    members = xarray.DataArray([0, 4, 2], dims="point")
    found = open_arrays(path).weights.isel(kept=rows, member=members)
    np.testing.assert_array_equal(found, weights[[3, 100, 229], [0, 4, 2]])


def test_labels_are_coordinates_of_integers(path):
    dataset = open_arrays(path)
    assert set(dataset.coords) == {"kept", "member"} and set(dataset.data_vars) == {"weights"}
    assert dataset.kept.dtype == dataset.member.dtype == np.int64
    assert int(dataset.weights.sel(kept=70, member=3).kept) == 70


def test_a_dataset_is_pickled_without_its_arrays(path, weights):
    stored = pickle.dumps(open_arrays(path))
    assert len(stored) < 2e4
    np.testing.assert_array_equal(pickle.loads(stored).weights, weights)


def test_a_reader_sees_what_was_committed_when_it_opened(monkeypatch, tmp_path):
    small_shards.use_small_shards(monkeypatch)
    path = tmp_path / "h.zarr"
    small_shards.write_small(path, 10)
    before = open_arrays(path)
    store = GrowingArrays.open(path)
    store.append("batch", small_shards.losses(10, 27))
    store.commit()
    np.testing.assert_array_equal(before.loss, small_shards.losses(0, 10)["loss"][1])
