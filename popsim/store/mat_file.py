"""Write datasets as MAT files, which MATLAB, Octave and `scipy.io.loadmat` read."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from popsim.store.files import atomic_file, check_replaceable
from popsim.version import __version__

__all__ = ["write_mat", "check_mat_path"]

MOST_BYTES = 2**31 - 1  # of a variable, in version 5 of the format
LONGEST_NAME = 63  # of a variable in MATLAB
MARK = "popsim"


def write_mat(dataset: Any, path: str | Path, *, overwrite: bool = False) -> None:
    """Write an `xarray.Dataset` to a compressed MAT file of version 5.

    Each variable and coordinate is a variable of the file, whose axes keep their order; one with a single
    axis is a column. The struct `dimensions` has the names of the axes of each, the struct `units` the units
    of those that have some, and the struct `attributes` the attributes. In names, what MATLAB does not take
    becomes "_". `popsim` is the version that wrote the file.

    **Arguments:**

    - `dataset`: variables of numbers, booleans or text.
    - `path`: the file; its folder must exist. It is written atomically.
    - `overwrite`: whether to replace an existing file.

    **Raises:** `ValueError` if `path` exists, unless this function wrote it and `overwrite` is True; if two
    names become the same; if a variable takes 2 GiB or more. `SaveError` if `path` cannot be written.
    """
    from scipy.io import savemat

    check_mat_path(path := Path(path), overwrite=overwrite)
    content: dict[str, Any] = {}
    dimensions, units = {}, {}
    for name, variable in dataset.variables.items():
        legal = _legal_name(name)
        if legal in content or legal in (MARK, "dimensions", "units", "attributes"):
            raise ValueError(f"`dataset` must have names that differ as MATLAB names, got {legal!r} again.")
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
    check_replaceable(path, _is_ours, kind="a MAT file", overwrite=overwrite, name=name)


def _is_ours(path: Path) -> bool:
    from scipy.io import whosmat
    from scipy.io.matlab import MatReadError

    try:
        return any(name == MARK for name, _, _ in whosmat(path, appendmat=False))
    except (MatReadError, OSError, ValueError, TypeError, NotImplementedError):
        return False


def _legal_name(name: Any) -> str:
    legal = re.sub(r"\W", "_", str(name), flags=re.ASCII)
    return (legal if re.match(r"[A-Za-z]", legal) else f"x{legal}")[:LONGEST_NAME]


def _as_struct(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Return values that MATLAB has: mappings as structs, lists as cells or numbers, None as empty."""
    return {_legal_name(name): _as_value(value) for name, value in values.items()}


def _as_value(value: Any) -> Any:
    if value is None:
        return np.zeros((0, 0))
    if isinstance(value, Mapping):
        return _as_struct(value)
    if isinstance(value, list | tuple):
        is_numeric = all(isinstance(item, int | float) for item in value)
        return np.array(value, float) if is_numeric else np.array([_as_value(v) for v in value], object)
    return value
