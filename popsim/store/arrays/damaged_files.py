"""Whether all files of a group of arrays are as they were written."""

from pathlib import Path

from popsim.store.arrays.commit_record import CommitRecord
from popsim.store.arrays.stored_array import StoredArray
from popsim.store.errors import DamagedError


def verify_arrays(path: str | Path) -> list[str]:
    """Read everything that was committed, a file at a time.

    **Arguments:**

    - `path`: the folder that `GrowingArrays` wrote.

    **Returns:** the files that are damaged or missing, relative to `path`; none if all are sound.

    **Raises:** `ValueError` if there are no such arrays at `path`.
    """
    path = Path(path)
    try:
        record = CommitRecord.read(path)
    except DamagedError:
        return ["zarr.json"]
    return [file for name in record.arrays for file in _damaged_files(path, name, record)]


def _damaged_files(group: Path, name: str, record: CommitRecord) -> list[str]:
    """Those of one array; of files that are missing no more than are there, as any number may be declared."""
    try:
        array = StoredArray.find(group, name, record)
    except DamagedError:
        return [f"{name}/zarr.json"]
    damaged = []
    n_missing, n_found = 0, len(list(array.folder.iterdir()))
    for place in array.layout.places():
        file = array.layout.shard_name(place)
        n_missing += not (array.folder / file).exists()
        if n_missing > n_found:
            break
        try:
            array.read(array.layout.block(place))
        except DamagedError:
            damaged.append(f"{name}/{file}")
    return damaged
