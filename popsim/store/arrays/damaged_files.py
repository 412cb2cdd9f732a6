"""Whether all files of a group of arrays are as they were written."""

from pathlib import Path

from popsim.store.arrays.commit_record import CommitRecord
from popsim.store.arrays.stored_array import StoredArray
from popsim.store.errors import DamagedError, MismatchError


def verify_arrays(path: str | Path, *, run_id: str | None = None) -> list[str]:
    """Read everything that was committed, a file at a time.

    **Arguments:**

    - `path`: the folder that `GrowingArrays` wrote.
    - `run_id`: the identity of the run that they must be of; None takes any, if it is one.

    **Returns:** the files that are damaged, missing or of another run, relative to `path`; none if all are
    sound.

    **Raises:** `ValueError` if there are no such arrays at `path`.
    """
    path = Path(path)
    try:
        record = CommitRecord.read(path, run_id)
    except (DamagedError, MismatchError):
        return ["zarr.json"]
    return [file for name in record.arrays for file in _damaged_files(path, name, record)]


def check_arrays(path: Path, *, run_id: str) -> dict[str, int]:
    """Check that all that was committed is there and of one run; of what the files hold little is read.

    **Arguments:**

    - `path`: the folder that `GrowingArrays` wrote.
    - `run_id`: the identity of the run.

    **Returns:** the committed number of rows, by growing axis.

    **Raises:** `DamagedError` naming the first file that is not; `MismatchError` if all are of another run;
    `ValueError` if there are no such arrays.
    """
    record = CommitRecord.read(path, run_id)
    for name in record.arrays:
        array = StoredArray.find(path, name, record)
        array.check_files()
        array.check_heads()
    return dict(record.lengths)


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
