"""Open, list, verify and remove stored arrays."""

import contextlib
import dataclasses
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from popsim.store.arrays._commit_record import CommitRecord
from popsim.store.arrays._layout import ArrayLayout
from popsim.store.files import CorruptDataError, finished_name, is_of_system, remove_left_over
from popsim.store.json_files import read_json

__all__ = ["ListedArray", "damage_of_arrays", "list_arrays", "open_arrays", "remove_arrays"]


def open_arrays(path: str | Path, *, run_id: str | None = None) -> Any:
    """Open the arrays of a group as a lazy `xarray.Dataset`, with the committed rows.

    Arrays that do not grow, and those with a single axis of their own name, are coordinates.

    **Arguments:**

    - `path`: a folder written by `GrowingArrays`.
    - `run_id`: the expected identity of the run; None accepts any.

    **Raises:** `ValueError` if there are no such arrays at `path`; `CorruptDataError` naming the file if one
    is damaged, missing or of another run, now or when it is read; `MismatchError` if all are of another run.
    """
    from popsim.store.arrays._lazy_dataset import lazy_dataset

    return lazy_dataset(CommitRecord.read(Path(path), run_id), Path(path))


def damage_of_arrays(
    path: str | Path, *, run_id: str | None = None, every_byte: bool = True
) -> Iterator[tuple[str, CorruptDataError]]:
    """Yield the files of the committed rows with which something is wrong, relative to `path`, and what.

    Each is read whole, one at a time, or only what it says of its run and rows. Arguments and errors as
    `open_arrays`.
    """
    path = Path(path)
    for name, array in CommitRecord.read(path, run_id).arrays(path).items():
        for file, error in array.damage(every_byte=every_byte):
            yield f"{name}/{file}", error
        description = path / name / "zarr.json"  # which other software reads
        try:
            stored = ArrayLayout.parse(read_json(description), grows=array.layout.grows)
            if stored.of_length(0).metadata() != array.layout.of_length(0).metadata():
                raise CorruptDataError(f"{description} must describe the array; it is damaged.")
        except CorruptDataError as error:
            yield f"{name}/zarr.json", error
        except (LookupError, TypeError):
            yield f"{name}/zarr.json", CorruptDataError(f"{description} must describe an array.")


def array_lengths(path: Path, *, run_id: str) -> dict[str, int]:
    """Return the number of committed rows, by growing axis; arguments and errors as `open_arrays`."""
    return CommitRecord.read(path, run_id).lengths


@dataclasses.dataclass(frozen=True)
class ListedArray:
    """An array on disk: its name, its axes, shape and dtype as committed, and the size of its files."""

    name: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    n_bytes: int


def list_arrays(
    path: str | Path, *, run_id: str | None = None
) -> tuple[list[ListedArray], Mapping[str, Any]]:
    """Return the committed arrays and the JSON values kept with them; errors as `open_arrays`."""
    record = CommitRecord.read(Path(path), run_id)
    listed = [
        ListedArray(name, array.layout.axes, array.layout.shape, array.layout.dtype, array.n_bytes())
        for name, array in record.arrays(Path(path)).items()
    ]
    return listed, record.attributes


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
    return _is_of_arrays(name) or is_of_system(name)


def _is_of_arrays(name: str) -> bool:
    return name == "zarr.json" or name.startswith("c.") or finished_name(name) is not None
