"""Open, list, verify and remove stored arrays."""

import contextlib
import dataclasses
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from popsim.store.arrays._commit_record import CommitRecord
from popsim.store.arrays._layout import ArrayLayout
from popsim.store.arrays._stored_array import StoredArray
from popsim.store.files import CorruptDataError, MismatchError, finished_name, is_of_system, remove_left_over

__all__ = ["open_arrays", "remove_arrays", "verify_arrays", "ListedArray", "list_arrays"]


def open_arrays(path: str | Path, *, run_id: str | None = None) -> Any:
    """Open the arrays of a group as a lazy `xarray.Dataset`, with the committed rows.

    Arrays that do not grow, and those with a single axis of their own name, are coordinates.

    **Arguments:**

    - `path`: a folder written by `GrowingArrays`; it need not be trusted.
    - `run_id`: the expected identity of the run; None accepts any.

    **Raises:** `ValueError` if there are no such arrays at `path`; `CorruptDataError` naming the file if one
    is damaged, missing or of another run, now or when it is read; `MismatchError` if all are of another run.
    """
    import xarray
    from xarray.core.indexing import LazilyIndexedArray

    from popsim.store.arrays._lazy_array import LazyArray

    record = CommitRecord.read(Path(path), run_id)
    variables, coordinates = {}, {}
    for name, array in record.arrays(Path(path)).items():
        array.check_files()
        layout = array.layout
        where = variables if layout.grows and layout.axes != (name,) else coordinates
        where[name] = xarray.Variable(layout.axes, LazilyIndexedArray(LazyArray(array)))
    return xarray.Dataset(variables, coordinates, dict(record.attributes))


def remove_array(folder: Path) -> None:
    """Remove the folder of an array, unless it holds foreign files."""
    if not folder.is_symlink() and folder.is_dir() and all(_may_go(file.name) for file in folder.iterdir()):
        shutil.rmtree(folder)


def remove_arrays(group: Path) -> None:
    """Remove a group of arrays, if there is one; foreign files stay, and then so does its folder."""
    if group.is_symlink() or not group.is_dir():
        return
    for path in [*group.iterdir()]:
        if path.is_dir():
            remove_array(path)
        elif _may_go(path.name):
            path.unlink()
    with contextlib.suppress(OSError):  # foreign files remain
        group.rmdir()


def remove_stale(group: Path, layouts: Mapping[str, ArrayLayout]) -> None:
    """Remove arrays that have no layout, and files not needed for their rows."""
    for path in group.iterdir():
        if path.name not in layouts and not remove_left_over(path):
            remove_array(path)
    for name, layout in layouts.items():
        needed = {layout.shard_name(place) for place in layout.places()} | {"zarr.json"}
        for file in (group / name).iterdir():
            if _is_of_arrays(file.name) and file.name not in needed:
                file.unlink()


def _may_go(name: str) -> bool:
    """Whether a file may be removed with its folder."""
    return _is_of_arrays(name) or is_of_system(name)


def _is_of_arrays(name: str) -> bool:
    return name == "zarr.json" or name.startswith("c.") or finished_name(name) is not None


def verify_arrays(path: str | Path, *, run_id: str | None = None) -> list[str]:
    """Read all committed data, one file at a time.

    **Arguments:**

    - `path`: a folder written by `GrowingArrays`.
    - `run_id`: the expected identity of the run; None accepts any, as long as it is the same throughout.

    **Returns:** the files that are damaged, missing or of another run, relative to `path`; empty if there are
    none.

    **Raises:** `ValueError` if there are no such arrays at `path`.
    """
    path = Path(path)
    try:
        record = CommitRecord.read(path, run_id)
    except (CorruptDataError, MismatchError):
        return ["zarr.json"]
    arrays = record.arrays(path).items()
    return [f"{name}/{file}" for name, array in arrays for file in _damaged_files(array)]


def check_arrays(path: Path, *, run_id: str) -> dict[str, int]:
    """Check that all committed data exists and is of one run, reading little of each file.

    **Arguments:**

    - `path`: a folder written by `GrowingArrays`.
    - `run_id`: the identity of the run.

    **Returns:** the number of committed rows, by growing axis.

    **Raises:** `CorruptDataError` naming the first bad file; `MismatchError` if all are of another run;
    `ValueError` if there are no such arrays.
    """
    record = CommitRecord.read(path, run_id)
    for array in record.arrays(path).values():
        array.check_files()
        array.check_seals()
    return record.lengths


def _damaged_files(array: StoredArray) -> list[str]:
    """Return the damaged files of one array, with no more missing ones than exist, whatever is declared."""
    try:
        array.check_description()
    except CorruptDataError:
        return ["zarr.json"]
    damaged = []
    n_missing, n_found = 0, len(list(array.folder.iterdir()))
    for place in array.layout.places():
        file = array.layout.shard_name(place)
        n_missing += not (array.folder / file).exists()
        if n_missing > n_found:
            break
        try:
            array.read(array.layout.block(place))
        except CorruptDataError:
            damaged.append(file)
    return damaged


@dataclasses.dataclass(frozen=True)
class ListedArray:
    """An array on disk.

    - `name`: the name.
    - `axes`, `shape`, `dtype`: as committed.
    - `n_bytes`: the size of its files, 0 if damaged.
    - `damage`: the damage visible without reading the files; empty if none.
    """

    name: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    n_bytes: int
    damage: str


def list_arrays(
    path: str | Path, *, run_id: str | None = None
) -> tuple[list[ListedArray], Mapping[str, Any]]:
    """Return the committed arrays and the JSON values kept with them.

    **Arguments:**

    - `path`: a folder written by `GrowingArrays`; it need not be trusted.
    - `run_id`: the expected identity of the run; None accepts any.

    **Raises:** `ValueError` if there are no such arrays at `path`; `CorruptDataError` if their common record
    is damaged; `MismatchError` if it is of another run.
    """
    record = CommitRecord.read(Path(path), run_id)
    return [_list_array(array) for array in record.arrays(Path(path)).values()], record.attributes


def _list_array(array: StoredArray) -> ListedArray:
    layout, damage, n_bytes = array.layout, "", 0
    try:
        n_bytes = array.check_files()
    except CorruptDataError as error:
        damage = str(error)
    return ListedArray(array.folder.name, layout.axes, layout.shape, layout.dtype, n_bytes, damage)
