"""Arrays that grow along their first axis during a training."""

import dataclasses
import shutil
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from popsim.store import files
from popsim.store.array_group import CommitRecord, remove_array, remove_stale
from popsim.store.files import SaveError
from popsim.store.identity import new_run_id
from popsim.store.json_files import plain_json
from popsim.store.stored_array import BUFFERED_BYTES, DTYPES, ArrayLayout, StoredArray, cut

__all__ = ["GrowingArrays"]

Arrays = Mapping[str, tuple[Sequence[str], np.ndarray]]
Values = Mapping[str, tuple[tuple[str, ...], np.ndarray]]


def as_values(arrays: Arrays, *, row_axes: int = 0) -> Values:
    """Return arrays as they can be stored; raises `ValueError` naming one that cannot be."""
    values = {name: (tuple(axes), np.asarray(array)) for name, (axes, array) in arrays.items()}
    for name, (axes, array) in values.items():
        if not files.is_plain_name(name):
            raise ValueError(f"the name of an array must be that of a plain folder, got {name!r}.")
        if array.dtype.name not in DTYPES:
            raise ValueError(
                f"array {name!r} must have one of the types {', '.join(DTYPES)}, got {array.dtype}."
            )
        if len({*axes}) != array.ndim - row_axes:
            raise ValueError(f"array {name!r} must have one axis for each name of {axes}, got {array.shape}.")
    return values


def check_rows(axis: str, rows: Values, layouts: Mapping[str, ArrayLayout]) -> None:
    """Check rows to append along `axis` against the arrays so far; raises `ValueError` if they differ."""
    expected = {
        name: (layout.axes[1:], layout.shape[1:], layout.dtype)
        for name, layout in layouts.items()
        if layout.grows and layout.axes[0] == axis
    }
    forms = {name: (axes, array.shape[1:], array.dtype.name) for name, (axes, array) in rows.items()}
    is_one_length = len({len(array) for _, array in rows.values()}) == 1
    if not is_one_length or (forms != expected if expected else forms.keys() & layouts.keys()):
        raise ValueError(f"`rows` along {axis!r} must be arrays of one length, as before, got {forms}.")


class RowBuffer:
    """The rows of an array from the start of its last shard, written or not."""

    def __init__(self, array: StoredArray):
        self.array = array
        self.length = array.layout.shape[0]
        self._rows: np.ndarray | None = None
        self._n_written = self.length

    @property
    def layout(self) -> ArrayLayout:
        """The layout with all rows, written or not."""
        return self.array.layout.of_length(self.length)

    def add(self, rows: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Add rows; yield the number and the rows of each shard they fill. The caller owns these rows."""
        n_shard = self.array.layout.shard[0]
        while len(rows):
            shard = self._shard_rows()
            begin = self.length % n_shard
            n_added = min(n_shard - begin, len(rows))
            shard[begin : begin + n_added] = rows[:n_added]
            self.length += n_added
            rows = rows[n_added:]
            if begin + n_added == n_shard:
                # Forgotten, as the array is handed to the thread that writes it: the next rows need another
                # one.
                self._rows, self._n_written = None, self.length
                yield self.length // n_shard - 1, shard

    def unwritten_rows(self) -> tuple[int, np.ndarray] | None:
        """Return the number and the rows so far of the last shard, if it has unwritten rows."""
        if self._n_written == self.length:
            return None
        self._n_written = self.length
        number, n_rows = divmod(self.length, self.array.layout.shard[0])
        return number, self._shard_rows()[:n_rows]

    def _shard_rows(self) -> np.ndarray:
        if self._rows is None:
            layout = self.array.layout
            # Filled, so that the memory is taken now and does not grow during a long training.
            rows = np.full((layout.shard[0], *layout.shape[1:]), 0, layout.dtype)
            begin = self.length // len(rows) * len(rows)
            if begin < self.length:
                trailing = tuple(slice(0, length) for length in layout.shape[1:])
                rows[: self.length - begin] = self.array.read((slice(begin, self.length), *trailing))
            self._rows = rows
        return self._rows


def new_array(group: Path, name: str, layout: ArrayLayout, run_id: str) -> StoredArray:
    """Create the folder of an array; nothing refers to it until the next commit."""
    folder = group / name
    with files.saving(folder):
        remove_array(folder)
        folder.mkdir()
        files.sync_folder(group)
    return StoredArray(folder.resolve(), layout, run_id)


def write_fixed(group: Path, arrays: Values, run_id: str) -> dict[str, ArrayLayout]:
    """Write arrays that do not grow into the folder of a group, and return their layouts."""
    layouts = {}
    for name, (axes, values) in arrays.items():
        cuts = cut({name: (axes[1:], values.shape[1:], values.dtype.itemsize)})[name]
        layouts[name] = layout = ArrayLayout(axes, values.dtype.name, values.shape, *cuts, grows=False)
        array, n_shard = new_array(group, name, layout, run_id), layout.shard[0]
        for first in range(layout.shards_by_axis[0]):
            array.write(first, values[first * n_shard : (first + 1) * n_shard])
    return layouts


class GrowingArrays:
    """Arrays that are appended to, committed, and truncated to an earlier commit, by one process at a time.

    Rows are buffered in memory until they fill a file, which is written in the background. `commit` writes
    the rest and then records the number of valid rows; readers see no others. Killing the process at any time
    leaves the last commit intact. Made by `create` and `open`.
    """

    def __init__(self, path: Path, record: CommitRecord):
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="popsim-writer")
        self._waiting: deque[tuple[int, Future]] = deque()  # bytes, and whether they are written
        self._interrupted = False
        self._begin_after(record)

    def _begin_after(self, record: CommitRecord) -> None:
        self._record = record
        arrays = record.arrays(self._path)
        self._buffers = {name: RowBuffer(array) for name, array in arrays.items() if array.layout.grows}

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        fixed: Arrays | None = None,
        attributes: Mapping[str, Any] | None = None,
        run_id: str | None = None,
    ) -> "GrowingArrays":
        """Create the folder `path`, a zarr group without rows.

        It has `fixed` arrays that do not grow, by name the axis names and the array, JSON values as
        `attributes`, and the identity of a run, which is stored in all files; None for a new one.

        **Raises:** `SaveError` if the folder cannot be written.
        """
        path = Path(path)
        if path.exists():
            raise ValueError(f"`path` must not exist, got {path}.")
        values, run_id = as_values(fixed or {}), run_id or new_run_id()
        attributes = plain_json("attributes", attributes or {})
        partial = files.unfinished_name(path)
        with files.saving(path):
            files.make_folder(path.parent, parents=True)
            for sibling in [*path.parent.iterdir()]:
                if files.finished_name(sibling.name) == path.name:
                    files.remove_left_over(sibling)
            partial.mkdir()  # fails if it exists, also as a link
            try:
                layouts = write_fixed(partial, values, run_id)
                CommitRecord(layouts, attributes, run_id).write(partial)
                partial.rename(path)
                files.sync_folder(path.parent)
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise
        return cls.open(path)

    @classmethod
    def open(cls, path: Path, *, run_id: str | None = None) -> "GrowingArrays":
        """Open a folder to continue appending after the last commit.

        Arguments and errors as `open_arrays`.
        """
        return cls(path, CommitRecord.read(path, run_id))

    @property
    def run_id(self) -> str:
        """The identity of the run."""
        return self._record.run_id

    @property
    def lengths(self) -> dict[str, int]:
        """The number of committed rows, by growing axis."""
        return self._record.lengths

    @property
    def appended_lengths(self) -> dict[str, int]:
        """The number of appended rows, committed or not, by growing axis."""
        return {buffer.layout.axes[0]: buffer.length for buffer in self._buffers.values()}

    @property
    def attributes(self) -> dict[str, Any]:
        """The JSON values committed with the group."""
        return dict(self._record.attributes)

    def append(self, axis: str, rows: Arrays) -> None:
        """Append rows to all arrays that grow along an axis: by array, the axis names of a row, and the rows.

        The first append defines the arrays of the axis. Rows are copied.

        **Raises:** `SaveError` if an earlier write failed.
        """
        self._check_whole()
        values = as_values(rows, row_axes=1)
        layouts = {name: buffer.array.layout for name, buffer in self._buffers.items()}
        check_rows(axis, values, {**self._record.layouts, **layouts})
        self._interrupted = True
        if not values.keys() <= self._buffers.keys():
            self._define(axis, values)
        for name, (_, array) in values.items():
            for number, shard in self._buffers[name].add(array):
                self._write(self._buffers[name].array, number, shard)
        self._interrupted = False

    def commit(self, attributes: Mapping[str, Any] | None = None) -> dict[str, int]:
        """Write all appended rows, record them in one atomic step, and return their number by growing axis.

        `attributes` replace the JSON values of the group; None keeps them.

        **Raises:** `SaveError` if a write failed; the previous commit is unchanged.
        """
        self._check_whole()
        attributes = self._record.attributes if attributes is None else plain_json("attributes", attributes)
        self._interrupted = True
        for buffer in self._buffers.values():
            if (unwritten := buffer.unwritten_rows()) is not None:
                self._write(buffer.array, *unwritten)
        # Every shard is on disk before the record says so: the record is what makes rows exist.
        self._wait(0)
        layouts = {name: buffer.layout for name, buffer in self._buffers.items()}
        record = CommitRecord({**self._record.layouts, **layouts}, attributes, self.run_id)
        record.write(self._path)
        self._record = record
        self._interrupted = False
        return self.lengths

    def truncate(self, lengths: Mapping[str, int]) -> None:
        """Return to an earlier commit in one step, dropping all later rows, committed or not.

        `lengths` is what that `commit` returned. Axes left out have no arrays afterwards.

        **Raises:** `SaveError` if it cannot be written.
        """
        if any(length > self.lengths.get(axis, 0) for axis, length in lengths.items()):
            raise ValueError(f"`lengths` must be at most {self.lengths}, got {dict(lengths)}.")
        self._wait(0)
        layouts = {
            name: layout.of_length(int(lengths.get(layout.axes[0], 0)))
            for name, layout in self._record.layouts.items()
            if not layout.grows or layout.axes[0] in lengths
        }
        record = dataclasses.replace(self._record, layouts=layouts)
        self._interrupted = True
        with files.saving(self._path):
            # The record first: files that it does not mention do no harm, rows without their files would be
            # damage.
            record.write(self._path)
            self._begin_after(record)
            remove_stale(self._path, layouts)
        self._interrupted = False

    def close(self) -> None:
        """Wait for pending writes and stop accepting rows. Uncommitted rows are lost."""
        self._interrupted = True
        self._thread.shutdown(wait=True)

    def _check_whole(self) -> None:
        """Raise `SaveError` if a write failed, or a call was interrupted: lengths may differ."""
        self._wait(BUFFERED_BYTES)
        if self._interrupted:
            raise SaveError(f"a call that writes {self._path} was interrupted: open it again and truncate.")

    def _define(self, axis: str, values: Values) -> None:
        rows = {name: (axes, array.shape[1:], array.dtype.itemsize) for name, (axes, array) in values.items()}
        for name, cuts in cut(rows).items():
            axes, array = values[name]
            layout = ArrayLayout((axis, *axes), array.dtype.name, (0, *array.shape[1:]), *cuts, grows=True)
            self._buffers[name] = RowBuffer(new_array(self._path, name, layout, self.run_id))

    def _write(self, array: StoredArray, number: int, rows: np.ndarray) -> None:
        """Write rows in the background, once what waits leaves room for them."""
        # Training that is faster than the disk waits here, rather than fill the memory.
        self._wait(max(0, BUFFERED_BYTES - rows.nbytes))
        self._waiting.append((rows.nbytes, self._thread.submit(array.write, number, rows)))

    def _wait(self, n_bytes: int) -> None:
        """Wait until no more than `n_bytes` are to be written; raises `SaveError` if a write failed."""
        while self._waiting:
            if not self._waiting[0][1].done() and sum(size for size, _ in self._waiting) <= n_bytes:
                return
            # Left in the queue if it failed, so that every later call raises as well.
            self._waiting[0][1].result()
            self._waiting.popleft()
