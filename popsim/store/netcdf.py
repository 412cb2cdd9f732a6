"""Write datasets as NetCDF files."""

import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from popsim.store.files import atomic_file, check_replaceable
from popsim.version import __version__

__all__ = ["write_netcdf", "check_netcdf_path"]

BLOCK_BYTES, CHUNK_BYTES = 2**24, 2**20
COMPRESSION = {"compression": "gzip", "compression_opts": 4, "shuffle": True, "fletcher32": True}


def write_netcdf(dataset: Any, path: str | Path, *, overwrite: bool = False) -> None:
    """Write an `xarray.Dataset` to a compressed NetCDF-4 file with a checksum per chunk.

    A lazy dataset may be larger than memory: about 16 MiB are read at a time, or one row if that is larger.
    `xarray.open_dataset(path, engine="h5netcdf")` opens the file.

    Numbers keep their dtype, except that half precision, which NetCDF lacks, becomes float32; booleans become
    marked bytes, as in xarray. Attributes other than text or a single number are written as JSON text. The
    attribute "popsim" holds the version that wrote the file. In the names of variables and axes white space,
    "/" and control characters become "_", and a name that does not begin with a letter, a digit or "_" gets a
    leading "_": the axis "weight axis 0" becomes "weight_axis_0".

    **Arguments:**

    - `dataset`: variables of numbers, booleans or text.
    - `path`: the file; its folder must exist. It is written atomically.
    - `overwrite`: whether to replace an existing file.

    **Raises:** `ImportError` if h5netcdf or h5py are not installed. `ValueError` if `path` exists, unless
    this function wrote it and `overwrite` is True; if two names become the same; if a variable is of another
    type. `SaveError` if `path` cannot be written.
    """
    path, (h5netcdf, _) = Path(path), _import_h5netcdf()
    check_netcdf_path(path, overwrite=overwrite)
    names = _legal_names([*dataset.sizes, *dataset.variables])
    dtypes = {name: _stored_dtype(name, variable) for name, variable in dataset.variables.items()}
    coordinates = [names[name] for name in dataset.coords if name not in dataset.sizes]
    attributes = dict(dataset.attrs) | {"popsim": __version__}
    if coordinates:
        attributes["coordinates"] = " ".join(coordinates)
    with atomic_file(path) as partial, _FileForHDF5(partial) as raw, h5netcdf.File(raw, "w") as file:
        file.attrs.update(_as_attributes(attributes))
        file.dimensions = {names[dim]: length for dim, length in dataset.sizes.items()}
        for name, variable in dataset.variables.items():
            target = _new_variable(file, names, name, variable, dtypes[name])
            # `Dataset.to_netcdf` would read each variable whole, unless it is of dask.
            for rows in _blocks(variable, target):
                target[rows] = np.asarray(variable[rows].values).astype(dtypes[name])
                raw.check()


def check_netcdf_path(path: Path, *, overwrite: bool, name: str = "path") -> None:
    """Check that `write_netcdf` can write to a path, as there; errors call it `name`."""
    _import_h5netcdf()
    check_replaceable(path, _is_ours, kind="a NetCDF file", overwrite=overwrite, name=name)


def _import_h5netcdf() -> tuple[Any, Any]:
    """Import h5netcdf, and h5py, which it needs for writing."""
    try:
        import h5netcdf
        import h5py
    except ImportError as error:
        raise ImportError(f"NetCDF files need `pip install popsim[netcdf]`: {error}") from None
    return h5netcdf, h5py


def _is_ours(path: Path) -> bool:
    try:
        with _import_h5netcdf()[0].File(path, "r") as file:
            return "popsim" in file.attrs
    except OSError:
        return False


class _FileForHDF5(io.FileIO):
    """A new file that records write errors for later: HDF5 crashes the process when a write fails."""

    def __init__(self, path: Path):
        super().__init__(path, "x+")
        self.error: OSError | None = None

    def write(self, data: Any, /) -> int:
        unwritten = memoryview(data)
        try:
            while unwritten and self.error is None:
                unwritten = unwritten[super().write(unwritten) :]
        except OSError as error:
            self.error = error
        return len(data)

    def truncate(self, size: int | None = None, /) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = error
            return self.tell()

    def check(self) -> None:
        """Raise the first recorded error."""
        if self.error is not None:
            raise self.error

    def __exit__(self, *_: Any) -> None:
        self.close()
        self.check()


def _legal_names(names: list[Any]) -> dict[Any, str]:
    legal: dict[Any, str] = {}
    for name in dict.fromkeys(names):
        shown = re.sub(r"[\s/\x00-\x1f\x7f]", "_", str(name))
        shown = shown if re.match(r"\w", shown) else f"_{shown}"
        if shown in legal.values():
            raise ValueError(f"`dataset` must have names that differ as NetCDF names, got {shown!r} again.")
        legal[name] = shown
    return legal


def _stored_dtype(name: Any, variable: Any) -> np.dtype:
    dtype = variable.dtype
    if dtype.kind == "b":
        return np.dtype("int8")
    if dtype.name in ("float16", "bfloat16"):
        return np.dtype("float32")
    if dtype.kind in "iuf":
        return dtype
    if dtype.kind in "UT" or (
        dtype.kind == "O" and all(isinstance(text, str) for text in variable.values.flat)
    ):
        return _import_h5netcdf()[1].string_dtype()
    raise ValueError(f"variable {name!r} of `dataset` must be numbers, booleans or text, got {dtype}.")


def _as_attributes(values: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): _as_attribute(name, value) for name, value in values.items()}


def _as_attribute(name: Any, value: Any) -> str | int | float:
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return value
    try:
        return json.dumps(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"attribute {name!r} of `dataset` must be JSON, got {value!r}: {error}") from None


def _new_variable(file: Any, names: Mapping[Any, str], name: Any, variable: Any, dtype: np.dtype) -> Any:
    options = COMPRESSION if variable.ndim and variable.size and dtype.kind != "O" else {}
    if options and (bytes_per_row := max(1, variable.nbytes // variable.shape[0])) < 2**30:
        n_rows = min(variable.shape[0], max(1, CHUNK_BYTES // bytes_per_row))
        options = {**options, "chunks": (n_rows, *variable.shape[1:])}
    target = file.create_variable(names[name], tuple(names[dim] for dim in variable.dims), dtype, **options)
    target.attrs.update(_as_attributes(variable.attrs))
    if variable.dtype.kind == "b":
        target.attrs["dtype"] = "bool"
    return target


def _blocks(variable: Any, target: Any) -> list[Any]:
    """Return slices of rows that cover a variable, each with whole chunks of the file."""
    if not variable.ndim:
        return [...]
    n_rows, n_chunk = len(variable), (target.chunks or (1,))[0]
    bytes_per_chunk = max(1, variable.nbytes // max(1, n_rows)) * n_chunk
    step = n_chunk * max(1, BLOCK_BYTES // bytes_per_chunk)
    return [slice(first, first + step) for first in range(0, n_rows, step)]
