"""The last rows of an array, kept until they fill a shard."""

from collections.abc import Iterator

import numpy as np

from popsim.store.arrays.stored_array import StoredArray


class RowBuffer:
    """The rows of an array from the beginning of its last shard on, written and unwritten ones."""

    def __init__(self, array: StoredArray):
        """Begin after the rows of `array`; those of a shard that is not full are read when needed."""
        self.array = array
        self._length = array.layout.shape[0]
        self._rows: np.ndarray | None = None
        self._n_written = self._length

    @property
    def length(self) -> int:
        """How many rows the array has, with those not yet written."""
        return self._length

    def add(self, rows: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Add rows; yields each shard that they fill: its number and its rows, which are the caller's now."""
        n_shard = self.array.layout.shard[0]
        while len(rows):
            kept = self._kept()
            begin = self._length % n_shard
            n_added = min(n_shard - begin, len(rows))
            kept[begin : begin + n_added] = rows[:n_added]
            self._length += n_added
            rows = rows[n_added:]
            if begin + n_added == n_shard:
                self._rows, self._n_written = None, self._length
                yield self._length // n_shard - 1, kept

    def unwritten(self) -> tuple[int, np.ndarray] | None:
        """The last shard, if it has rows that were not written: its number and its rows so far."""
        if self._n_written == self._length:
            return None
        self._n_written = self._length
        number, n_rows = divmod(self._length, self.array.layout.shard[0])
        return number, self._kept()[:n_rows]

    def _kept(self) -> np.ndarray:
        if self._rows is None:
            layout = self.array.layout
            rows = np.empty((layout.shard[0], *layout.shape[1:]), layout.numpy_dtype)
            begin = self._length // len(rows) * len(rows)
            if begin < self._length:
                whole = tuple(slice(0, length) for length in layout.shape[1:])
                rows[: self._length - begin] = self.array.read((slice(begin, self._length), *whole))
            self._rows = rows
        return self._rows
