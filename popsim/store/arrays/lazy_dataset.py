"""Groups of arrays, opened lazily by xarray."""

from pathlib import Path
from typing import Any

from popsim.store.arrays.commit_record import CommitRecord
from popsim.store.arrays.stored_array import StoredArray


def open_arrays(path: str | Path, *, run_id: str | None = None) -> Any:
    """The arrays of a group as a lazy `xarray.Dataset`: what is not looked at is not read.

    It has the rows that were committed. Arrays that do not grow, and those with one axis of their own name,
    are coordinates.

    **Arguments:**

    - `path`: the folder that `GrowingArrays` wrote; a stranger may have.
    - `run_id`: the identity of the run that they must be of; None takes any.

    **Raises:** `ValueError` if there are no such arrays at `path`; `DamagedError` naming the file if one is
    damaged, missing or of another run, now or when it is read; `MismatchError` if all are of another run.
    """
    import xarray
    from xarray.core.indexing import LazilyIndexedArray

    from popsim.store.arrays.lazy_array import LazyArray

    record = CommitRecord.read(Path(path), run_id)
    variables, coordinates = {}, {}
    for name, (axis, _) in record.arrays.items():
        array = StoredArray.find(Path(path), name, record)
        array.check_files()
        axes = array.layout.axes
        where = coordinates if axis is None or axes == (name,) else variables
        where[name] = xarray.Variable(axes, LazilyIndexedArray(LazyArray(array)))
    return xarray.Dataset(variables, coordinates, dict(record.attributes))
