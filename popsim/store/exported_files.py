"""Write datasets for other software: as NetCDF, and as MAT files for MATLAB, Octave and SciPy."""

import collections
import io
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from popsim.store.files import atomic_file, check_replaceable
from popsim.version import __version__

__all__ = ["check_mat_path", "check_netcdf_path", "write_mat", "write_netcdf"]

BLOCK_BYTES = 2**24
COMPRESSION = {"compression": "gzip", "compression_opts": 4, "shuffle": True, "fletcher32": True}
MOST_BYTES = 2**31 - 1  # of a variable, in version 5 of MAT files
MARK = "popsim"
NATIVE_TYPES = (str, int, float)  # of attributes; of all others NetCDF gets JSON


def _legal_names(
    names: Mapping[Any, Any], legal_name: Callable[[str], str], *reserved: str
) -> dict[Any, str]:
    legal = {name: legal_name(str(name)) for name in names}
    for shown, count in collections.Counter([*legal.values(), *reserved]).items():
        if count > 1:
            raise ValueError(f"`dataset` must have names that differ in the file, got {shown!r} again.")
    return legal


def write_netcdf(dataset: Any, path: str | Path, *, overwrite: bool = False) -> None:
    """Write an `xarray.Dataset` to a compressed NetCDF-4 file with a checksum per chunk.

    A lazy dataset may be larger than memory: about 16 MiB are read at a time, or one row if that is larger.
    `xarray.open_dataset(path, engine="h5netcdf")` opens the file.

    Half precision, which NetCDF lacks, becomes float32, and booleans become marked bytes, as in xarray.
    Attributes other than text or a single number are written as JSON text. In names, white space, "/" and
    control characters become "_": the axis "weight axis 0" becomes "weight_axis_0".

    **Arguments:**

    - `dataset`: variables of numbers, booleans or text.
    - `path`: the file; its folder must exist. It is written atomically.
    - `overwrite`: whether to replace an existing file.

    **Raises:** `ImportError` if h5netcdf or h5py are not installed; `ValueError` if `path` exists, unless
    this function wrote it and `overwrite` is True; `SaveError` if it cannot be written.
    """
    path, h5netcdf = Path(path), _import_h5netcdf()
    check_netcdf_path(path, overwrite=overwrite)
    names = _legal_names({**dataset.sizes, **dataset.variables}, _netcdf_name)
    dtypes = {name: _stored_dtype(name, variable) for name, variable in dataset.variables.items()}
    coordinates = [names[name] for name in dataset.coords if name not in dataset.sizes]
    attributes = dict(dataset.attrs) | {MARK: __version__}
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
    check_replaceable(path, _is_netcdf_of_popsim, kind="a NetCDF file", overwrite=overwrite, name=name)


def _import_h5netcdf() -> Any:
    try:
        import h5netcdf
        import h5py  # noqa: F401  # which h5netcdf needs for writing
    except ImportError as error:
        raise ImportError(f"NetCDF files need `pip install popsim[netcdf]`: {error}") from None
    return h5netcdf


def _is_netcdf_of_popsim(path: Path) -> bool:
    try:
        with _import_h5netcdf().File(path, "r") as file:
            return MARK in file.attrs
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


def _netcdf_name(name: str) -> str:
    shown = re.sub(r"[\s/\x00-\x1f\x7f]", "_", name)
    return shown if re.match(r"\w", shown) else f"_{shown}"


def _stored_dtype(name: Any, variable: Any) -> np.dtype:
    import h5py

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
        return h5py.string_dtype()
    raise ValueError(f"variable {name!r} of `dataset` must be numbers, booleans or text, got {dtype}.")


def _as_attributes(values: Mapping[Any, Any]) -> dict[str, str | int | float]:
    attributes = {}
    for name, value in values.items():
        plain = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        attributes[str(name)] = plain if type(plain) in NATIVE_TYPES else json.dumps(plain)
    return attributes


def _new_variable(file: Any, names: Mapping[Any, str], name: Any, variable: Any, dtype: np.dtype) -> Any:
    options = COMPRESSION if variable.ndim and variable.size and dtype.kind != "O" else {}
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
    return [slice(start, start + step) for start in range(0, n_rows, step)]


def write_mat(dataset: Any, path: str | Path, *, overwrite: bool = False) -> None:
    """Write an `xarray.Dataset` to a compressed MAT file of version 5.

    Each variable and coordinate is a variable of the file, whose axes keep their order; one with a single
    axis is a column. The struct `dimensions` has the names of the axes of each, the struct `units` the units
    of those that have some, and the struct `attributes` the attributes. In names, what MATLAB does not take
    becomes "_". `popsim` is the version that wrote the file.

    **Arguments:** as for `write_netcdf`.

    **Raises:** `ValueError` if `path` exists, unless this function wrote it and `overwrite` is True, or if a
    variable takes 2 GiB or more; `SaveError` if `path` cannot be written.
    """
    from scipy.io import savemat

    check_mat_path(path := Path(path), overwrite=overwrite)
    content: dict[str, Any] = {}
    dimensions, units = {}, {}
    names = _legal_names(dataset.variables, _matlab_name, MARK, "dimensions", "units", "attributes")
    for name, legal in names.items():
        variable = dataset.variables[name]
        if variable.nbytes > MOST_BYTES:
            raise ValueError(
                f"variable {name!r} of `dataset` must be smaller than 2 GiB in a MAT file, got "
                f"{variable.nbytes / 1e9:.3g} GB: write it as NetCDF."
            )
        values = np.asarray(variable.values)
        content[legal] = values.astype(object) if values.dtype.kind in "UT" else values
        dimensions[legal] = np.array(variable.dims, object)
        if "units" in variable.attrs:
            units[legal] = variable.attrs["units"]
    content |= {"dimensions": dimensions, "attributes": _as_struct(dataset.attrs), MARK: __version__}
    if units:
        content["units"] = units
    with atomic_file(path) as partial, partial.open("xb") as file:
        savemat(file, content, long_field_names=True, do_compression=True, oned_as="column")


def check_mat_path(path: Path, *, overwrite: bool, name: str = "path") -> None:
    """Check that `write_mat` can write to a path, as there; errors call it `name`."""
    check_replaceable(path, _is_mat_of_popsim, kind="a MAT file", overwrite=overwrite, name=name)


def _is_mat_of_popsim(path: Path) -> bool:
    from scipy.io import whosmat
    from scipy.io.matlab import MatReadError

    try:
        return any(name == MARK for name, _, _ in whosmat(path, appendmat=False))
    except (MatReadError, OSError, ValueError, TypeError, NotImplementedError):
        return False


def _matlab_name(name: str) -> str:
    legal = re.sub(r"\W", "_", name, flags=re.ASCII)
    return (legal if re.match(r"[A-Za-z]", legal) else f"x{legal}")[:63]


def _as_struct(value: Any) -> Any:
    """Return a value that MATLAB has: mappings as structs, lists as cells or numbers, None as empty."""
    if value is None:
        return np.zeros((0, 0))
    if isinstance(value, Mapping):
        return {_matlab_name(str(name)): _as_struct(part) for name, part in value.items()}
    if isinstance(value, list | tuple) and not all(isinstance(part, int | float) for part in value):
        return np.array([_as_struct(part) for part in value], object)
    return value
