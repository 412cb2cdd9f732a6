"""Arrays that grow along their first axis during a training."""

import dataclasses
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from popsim.store import files
from popsim.store.array_group import CommitRecord, remove_array, remove_stale
from popsim.store.identity import new_run_id
from popsim.store.json_files import plain_json
from popsim.store.stored_array import BUFFERED_BYTES, DTYPES, ArrayLayout, StoredArray, cut

__all__ = ["GrowingArrays"]

Arrays = Mapping[str, tuple[Sequence[str], np.ndarray]]
Rows = Mapping[str, tuple[tuple[str, ...], np.ndarray]]


def as_rows(arrays: Arrays) -> Rows:
    """Return rows of arrays as they can be stored; raises `ValueError` naming one that cannot be."""
    values = {name: (tuple(axes), np.asarray(array)) for name, (axes, array) in arrays.items()}
    for name, (axes, array) in values.items():
        if not files.is_plain_name(name) or array.dtype.name not in DTYPES:
            raise ValueError(
                f"array {name!r} must have the name of a plain folder and one of the types "
                f"{', '.join(DTYPES)}, got {array.dtype}."
            )
        if len({*axes}) != array.ndim - 1:
            raise ValueError(f"array {name!r} must have one axis for each name of {axes}, got {array.shape}.")
    return values


class RowBuffer:
    """The rows of an array from the start of its last shard, written or not."""

    def __init__(self, array: StoredArray):
        self.array = array
        self.length = array.layout.shape[0]
        self._rows: np.ndarray | None = None

    def add(self, rows: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Add rows; yield the number and the rows of each shard they fill. The caller owns these rows."""
        n_shard = self.array.layout.shard[0]
        while len(rows):
            shard = self._shard_rows()
            begin = self.length % n_shard
            n_added = min(n_shard - begin, len(rows))
            shard[begin : begin + n_added] = rows[:n_added]
            if begin + n_added == n_shard:
                yield self.length // n_shard, shard
                # Forgotten, as the thread that writes the array has it: the next rows need another one.
                self._rows = None
            # Last, so that rows count only once nothing can interrupt what becomes of them.
            self.length += n_added
            rows = rows[n_added:]

    def last_rows(self) -> tuple[int, np.ndarray]:
        """Return the number and the rows so far of the last shard, which is not full."""
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


def new_array(group: CommitRecord, name: str, layout: ArrayLayout) -> StoredArray:
    """Create the folder of an array; nothing refers to it until the next commit."""
    folder = group.folder / name
    with files.raise_save_errors(folder):
        remove_array(folder)
        folder.mkdir()
        files.sync_folder(group.folder)
    return StoredArray(folder.resolve(), layout, group.run_id)


class GrowingArrays:
    """Arrays that are appended to, committed, and truncated to an earlier commit, by one process at a time.

    Rows are buffered in memory until they fill a file, which is written in the background. `commit` writes
    the rest and then records the number of valid rows; readers see no others. Killing the process at any time
    leaves the last commit intact. Made by `create` and `open`.

    - `attributes`: the JSON values of the group; changes are written by the next commit.
    """

    def __init__(self, record: CommitRecord):
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="popsim-writer")
        self._waiting: deque[tuple[int, Future]] = deque()  # bytes, and whether they are written
        self.attributes = dict(record.attributes)
        self._begin_after(record)

    def _begin_after(self, record: CommitRecord) -> None:
        self._record = record
        self._buffers = {name: RowBuffer(array) for name, array in record.arrays().items()}

    @classmethod
    def create(
        cls, path: Path, *, attributes: Mapping[str, Any] | None = None, run_id: str | None = None
    ) -> "GrowingArrays":
        """Create a zarr group without arrays, with JSON `attributes`; `run_id` is stored in all its files.

        **Raises:** `SaveError` if the folder cannot be written.
        """
        path = Path(path)
        if path.exists():
            raise ValueError(f"`path` must not exist, got {path}.")
        record = CommitRecord(path, {}, plain_json("attributes", attributes or {}), run_id or new_run_id())
        with files.raise_save_errors(path):
            files.make_folder(path, parents=True)
            record.write()
        return cls(record)

    @classmethod
    def open(cls, path: Path, *, run_id: str | None = None) -> "GrowingArrays":
        """Open a folder to append after the last commit; errors as `open_arrays`."""
        return cls(CommitRecord.read(path, run_id))

    @property
    def lengths(self) -> dict[str, int]:
        """The number of committed rows, by growing axis."""
        return self._record.lengths

    @property
    def appended_lengths(self) -> dict[str, int]:
        """The number of appended rows, committed or not, by growing axis."""
        lengths: dict[str, int] = {}
        for buffer in self._buffers.values():
            # An append that was interrupted has reached only some of its arrays.
            axis = buffer.array.layout.axes[0]
            lengths[axis] = min(buffer.length, lengths.get(axis, buffer.length))
        return lengths

    def append(self, axis: str, rows: Arrays) -> None:
        """Append copies of rows to all arrays of an axis: by array, the axis names of a row, and the rows.

        The first append defines the arrays. **Raises:** `SaveError` if an earlier write failed.
        """
        self._wait(BUFFERED_BYTES)
        rows = as_rows(rows)
        self._check_rows(axis, rows)
        if not rows.keys() <= self._buffers.keys():
            self._define(axis, rows)
        for name, (_, array) in rows.items():
            for number, shard in self._buffers[name].add(array):
                self._write(self._buffers[name].array, number, shard)

    def _check_rows(self, axis: str, rows: Rows) -> None:
        layouts = {name: buffer.array.layout for name, buffer in self._buffers.items()}
        expected = {
            name: (layout.axes[1:], layout.shape[1:], layout.dtype)
            for name, layout in layouts.items()
            if layout.axes[0] == axis
        }
        forms = {name: (axes, array.shape[1:], array.dtype.name) for name, (axes, array) in rows.items()}
        is_one_length = len({len(array) for _, array in rows.values()}) == 1
        if not is_one_length or (forms != expected if expected else forms.keys() & layouts.keys()):
            raise ValueError(f"`rows` along {axis!r} must be arrays of one length, as before, got {forms}.")

    def _define(self, axis: str, rows: Rows) -> None:
        forms = {name: (axes, array.shape[1:], array.dtype.itemsize) for name, (axes, array) in rows.items()}
        for name, cuts in cut(forms).items():
            axes, array = rows[name]
            layout = ArrayLayout((axis, *axes), array.dtype.name, (0, *array.shape[1:]), *cuts)
            self._buffers[name] = RowBuffer(new_array(self._record, name, layout))

    def read(self, axis: str) -> dict[str, Any]:
        """Return the committed arrays along an axis as lazy `xarray.DataArray`s, by name."""
        dataset = self._record.dataset()
        return {
            str(name): dataset[name] for name, array in dataset.variables.items() if array.dims[0] == axis
        }

    def commit(self, lengths: Mapping[str, int] | None = None) -> dict[str, int]:
        """Write appended rows, record them in one atomic step, and return their number by growing axis.

        `lengths` is how many to record, by axis, see `appended_lengths`; None for all.

        **Raises:** `SaveError` if a write failed; the previous commit is unchanged.
        """
        lengths = self.appended_lengths if lengths is None else lengths
        attributes = plain_json("attributes", self.attributes)
        for name, buffer in self._buffers.items():
            n_recorded = self._record.layouts[name].shape[0] if name in self._record.layouts else 0
            if buffer.length > n_recorded and buffer.length % buffer.array.layout.shard[0]:
                self._write(buffer.array, *buffer.last_rows())
        # Every shard is on disk before the record says so: the record is what makes rows exist.
        self._wait(0)
        self._record_rows(lengths, attributes)
        return self.lengths

    def _record_rows(self, lengths: Mapping[str, int], attributes: Mapping[str, Any]) -> None:
        layouts = {
            name: buffer.array.layout.of_length(lengths[buffer.array.layout.axes[0]])
            for name, buffer in self._buffers.items()
            if buffer.array.layout.axes[0] in lengths
        }
        record = dataclasses.replace(self._record, layouts=layouts, attributes=attributes)
        record.write()
        self._record = record

    def truncate(self, lengths: Mapping[str, int]) -> None:
        """Return to an earlier commit in one step, dropping all later rows, committed or not.

        `lengths` is what that `commit` returned. Axes left out have no arrays afterwards.

        **Raises:** `SaveError` if it cannot be written.
        """
        if any(length > self.lengths.get(axis, 0) for axis, length in lengths.items()):
            raise ValueError(f"`lengths` must be at most {self.lengths}, got {dict(lengths)}.")
        self._wait(0)
        with files.raise_save_errors(self._record.folder):
            # The record first: files that it does not mention do no harm, rows without their files would be
            # damage.
            self._record_rows(lengths, self._record.attributes)
            self._begin_after(self._record)
            remove_stale(self._record.folder, self._record.layouts)

    def close(self) -> None:
        """Wait for pending writes and stop accepting rows. Uncommitted rows are lost."""
        self._thread.shutdown(wait=True)

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
