"""NetCDF files: the same numbers, legal names, checksums, and full disks."""

import json
import os

import ml_dtypes
import numpy as np
import pytest
import xarray
from interruptions import files_of_at_most

import popsim
from popsim.store.exported_files import write_netcdf
from popsim.store.files import SaveError

NUMBERS = np.random.default_rng(0)


def reread(path):
    return xarray.open_dataset(path, engine="h5netcdf")


def dataset():
    loss = NUMBERS.normal(size=(6, 2, 3)).astype("f4")
    loss[0, 0, 0], loss[1, 0, 0] = np.nan, np.inf
    weight = NUMBERS.normal(size=(4, 2, 3, 5))
    own_axes = ("network.cell.weight_hh axis 0", "network.cell.weight_hh axis 1")
    return xarray.Dataset(
        {
            "loss": (("batch", "member", "term"), loss, {"long_name": "weighted loss", "unit_size": 1.5}),
            "trainables.network.cell.weight_hh": (("trainables_batch", "member", *own_axes), weight),
            "frozen": ("member", [True, False]),
            "frozen_from": ("member", np.array([-1, 2**40])),
            "step": ((), np.int16(7)),
            "nothing": (("validation_batch", "member"), np.zeros((0, 2), "f4")),
            "half": ("member", np.array([0.5, np.nan], np.float16)),
            "brain": ("member", np.array([-2.0, np.nan], ml_dtypes.bfloat16)),
        },
        coords={
            "batch": np.arange(6),
            "term": ["effort", "position", "größe"],
            "seed": ("member", np.array([3, 5], "u4")),
            "setting.noise std": ("member", [0.1, 0.2]),
        },
        attrs={"terms": ["effort"], "members": {"seed": [None] * 20000}, "kept": True, "version": 3},
    )


def test_a_dataset_comes_back_with_legal_names(tmp_path):
    given = dataset()
    write_netcdf(given, tmp_path / "d.nc")
    read = reread(tmp_path / "d.nc")
    axes = {f"network.cell.weight_hh axis {i}": f"network.cell.weight_hh_axis_{i}" for i in (0, 1)}
    expected = given.rename({**axes, "setting.noise std": "setting.noise_std"})
    xarray.testing.assert_equal(read, expected.assign(brain=expected.brain.astype("f4")))
    dtypes = {"seed": "u4", "batch": "i8", "frozen_from": "i8", "frozen": "?", "step": "i2", "loss": "f4"}
    dtypes |= {"half": "f4", "brain": "f4"}  # NetCDF has no half precision
    assert all(read[name].dtype == dtype for name, dtype in dtypes.items())
    assert read.loss.attrs == given.loss.attrs
    attributes = {name: json.loads(read.attrs[name]) for name in ("terms", "members", "kept")}
    assert {**attributes, "version": read.attrs["version"]} == given.attrs
    assert read.attrs["popsim"] == popsim.__version__


def test_blocks_and_chunks_cover_everything(tmp_path, monkeypatch):
    given = xarray.Dataset({"x": (("a", "b", "c"), NUMBERS.normal(size=(13, 11, 7)))})
    for block in (8, 700, 5000):
        monkeypatch.setattr("popsim.store.exported_files.BLOCK_BYTES", block)
        write_netcdf(given, tmp_path / "d.nc", overwrite=True)
        xarray.testing.assert_equal(reread(tmp_path / "d.nc").load(), given)


def test_a_flipped_bit_is_noticed_by_whoever_reads(tmp_path):
    path = tmp_path / "d.nc"
    write_netcdf(xarray.Dataset({"x": ("a", NUMBERS.normal(size=10**4))}), path)
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(OSError, match="filter"):
        reread(path).load()


def test_what_netcdf_cannot_hold_is_refused_by_name(tmp_path):
    for values in (np.ones(2, complex), np.array([1, "a"], object)):
        with pytest.raises(ValueError, match="'x'"):
            write_netcdf(xarray.Dataset({"x": ("a", values)}), tmp_path / "d.nc")
    with pytest.raises(ValueError, match="'a_b' again"):
        write_netcdf(xarray.Dataset({"a b": ("c", [1]), "a/b": ("c", [1])}), tmp_path / "d.nc")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("limit", [0, 900, 4500, 9000, 10**5, 17 * 10**5])
def test_a_full_disk_leaves_the_old_file_and_nothing_else_and_does_not_crash(limit, tmp_path):
    """HDF5 by itself ends the process with a segmentation fault."""
    path = tmp_path / "d.nc"
    write_netcdf(xarray.Dataset({"x": ("a", [1, 2])}), path)
    before = path.read_bytes()
    small = {f"small {i}": ((f"axis {i}",), np.arange(i)) for i in range(1, 10)}
    given = xarray.Dataset({"x": (("a", "b", "c"), NUMBERS.normal(size=(20, 300, 40))), **small})
    with files_of_at_most(limit), pytest.raises(SaveError, match=f"{path}.*too large|too large.*{path}"):
        write_netcdf(given, path, overwrite=True)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["d.nc"]
