"""What a group of arrays holds, without reading any of it."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from popsim.store.arrays.commit_record import CommitRecord
from popsim.store.arrays.stored_array import StoredArray
from popsim.store.errors import DamagedError


@dataclasses.dataclass(frozen=True)
class ListedArray:
    """An array on disk.

    - `name`: its name.
    - `axes`, `shape`, `dtype`: as committed; empty if they cannot be known.
    - `n_bytes`: how much its files take.
    - `damage`: what is seen to be wrong with its files from outside; empty for nothing.
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
    """The arrays that were committed, and the JSON values that are kept with them.

    **Arguments:**

    - `path`: the folder that `GrowingArrays` wrote; a stranger may have.
    - `run_id`: the identity of the run that they must be of; None takes any.

    **Raises:** `ValueError` if there are no such arrays at `path`; `DamagedError` if the record of them all
    is damaged; `MismatchError` if it is of another run.
    """
    record = CommitRecord.read(Path(path), run_id)
    return [_listed(Path(path), name, record) for name in record.arrays], record.attributes


def _listed(group: Path, name: str, record: CommitRecord) -> ListedArray:
    try:
        array = StoredArray.find(group, name, record)
    except DamagedError as error:
        return ListedArray(name, (), (), "", 0, str(error))
    damage = ""
    try:
        array.check_files()
    except DamagedError as error:
        damage = str(error)
    layout = array.layout
    n_bytes = sum(_size(file) for file in array.folder.iterdir())
    return ListedArray(name, layout.axes, layout.shape, layout.dtype, n_bytes, damage)


def _size(file: Path) -> int:
    try:
        return file.lstat().st_size
    except FileNotFoundError:  # one that was being written got its name
        return 0
