"""Stored arrays as a lazy dataset: any index gives what numpy gives, and reads no more than it needs."""

import builtins
import io
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import xarray

from popsim.store import stored_array
from popsim.store.array_group import open_arrays
from popsim.store.growing_arrays import GrowingArrays

N_ROWS, SHAPE = 230, (5, 32, 48)


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(0).normal(size=(N_ROWS, *SHAPE)).astype("f4")


def write(path, weights):
    store = GrowingArrays.create(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_array, "SHARD_ROWS", 50)
        patch.setattr(stored_array, "CHUNK_ROWS", 10)
        axes = ("member", "row", "column")
        store.append("kept", {"kept": ((), np.arange(N_ROWS) * 10), "weights": (axes, weights)})
    store.commit()
    return path


@pytest.fixture(scope="module")
def path(weights, tmp_path_factory):
    return write(tmp_path_factory.mktemp("lazy") / "h.zarr", weights)


@pytest.fixture
def shards_read(monkeypatch):
    """The shards of the weights that are opened within a test."""
    names: list[str] = []
    opened = io.open

    def counting(file, *arguments, **keywords):
        place = Path(os.path.realpath(f"/dev/fd/{file}") if isinstance(file, int) else file)
        if place.parent.name == "weights" and place.name != "zarr.json":
            names.append(place.name)
        return opened(file, *arguments, **keywords)

    monkeypatch.setattr(io, "open", counting)
    monkeypatch.setattr(builtins, "open", counting)
    return names


def test_only_what_is_needed_is_read(path, weights, shards_read):
    dataset = open_arrays(path)
    assert dataset.weights.shape == (N_ROWS, *SHAPE) and dataset.weights.dtype == np.float32
    assert set(dataset.coords) == {"kept"} and set(dataset.data_vars) == {"weights"}
    assert dataset.kept.dtype == np.int64
    assert dataset.weights.isel(kept=slice(3, 5), member=[1, 2]).shape == (2, 2, *SHAPE[1:])
    assert shards_read == []
    np.testing.assert_array_equal(dataset.weights[120], weights[120])
    assert shards_read == ["c.2.0.0.0"]
    shards_read.clear()
    np.testing.assert_array_equal(dataset.weights.sel(kept=[490, 500]), weights[49:51])
    assert shards_read == ["c.0.0.0.0", "c.1.0.0.0"]


@pytest.mark.parametrize("folder", ["a\\b", "x.__lock", "größe %"])
def test_any_folder_that_the_system_takes_is_read(folder, weights, tmp_path):
    (tmp_path / folder).mkdir()
    lazy = open_arrays(write(tmp_path / folder / "h.zarr", weights)).weights
    np.testing.assert_array_equal(lazy[[3, 120], :, 2:5], weights[[3, 120], :, 2:5])


def test_what_does_not_fit_into_memory_says_how_to_read_it(path, weights, monkeypatch):
    monkeypatch.setattr(stored_array, "memory_of_machine", lambda: weights.nbytes // 10)
    lazy = open_arrays(path).weights
    with pytest.raises(MemoryError, match=r"'weights' .* \.isel\({'kept': slice\(0, 50\)}\), or .* \.chunk"):
        lazy.mean("kept")
    part = lazy.isel(kept=slice(0, 5)).mean("kept")
    np.testing.assert_allclose(part, weights[:5].mean(0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(2))
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
        rows = slice(None) if isinstance(keys[0], int) else keys[0]
        np.testing.assert_array_equal(lazy[rows][..., keys[3]].values, weights[rows][..., keys[3]])
    points = [xarray.DataArray(places, dims="point") for places in ([3, 100, 229], [0, 4, 2])]
    found = lazy.isel(kept=points[0], member=points[1])
    np.testing.assert_array_equal(found, weights[[3, 100, 229], [0, 4, 2]])
    for past in (N_ROWS, -N_ROWS - 1, [0, N_ROWS]):
        with pytest.raises(IndexError):
            lazy[past].load()


def test_a_dataset_is_pickled_without_its_arrays(path, weights):
    stored = pickle.dumps(open_arrays(path))
    assert len(stored) < 2e4
    np.testing.assert_array_equal(pickle.loads(stored).weights, weights)
