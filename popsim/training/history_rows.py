"""Where the rows of a history gather while a training goes on."""

import abc

import jax
import numpy as np
from jaxtyping import Int, PyTree

BATCH = "batch"
VALIDATION = "validation_batch"
TRAINABLES = "trainables_batch"
TRIALS = "trials_batch"


class AbstractHistoryRows(abc.ABC):
    """Rows of a history by what they are about: each batch, each validation, each recording of trainables
    or of trials.

    A subclass supplies `append` and `rows`.
    """

    @abc.abstractmethod
    def append(self, axis: str, batches: Int[np.ndarray, " row"], rows: PyTree[np.ndarray]) -> None:
        """Take rows: the numbers of their batches, and arrays that lead with the row. They are copied.

        **Arguments:**

        - `axis`: what they are about, such as "trainables_batch".
        - `batches`: after which batches they were taken.
        - `rows`: always of the same structure for one axis.
        """

    @abc.abstractmethod
    def rows(self, axis: str) -> tuple[Int[np.ndarray, " row"], PyTree]:
        """All rows of an axis in the order in which they came; None in place of arrays if there are none."""


class RowsInMemory(AbstractHistoryRows):
    """Rows in memory.

    **Arguments:**

    - `n_rows`: by axis how many rows there will be, where that is known: they are copied only once.
    """

    def __init__(self, n_rows: dict[str, int]):
        self._n_rows = n_rows
        self._batches: dict[str, list[np.ndarray]] = {}
        self._pieces: dict[str, list[PyTree]] = {}
        self._whole: dict[str, PyTree] = {}

    def append(self, axis: str, batches: Int[np.ndarray, " row"], rows: PyTree[np.ndarray]) -> None:
        begin = sum(map(len, self._batches.setdefault(axis, [])))
        self._batches[axis].append(np.array(batches))
        if axis not in self._n_rows:
            self._pieces.setdefault(axis, []).append(jax.tree.map(np.copy, rows))
            return
        if axis not in self._whole:
            n_rows = self._n_rows[axis]
            self._whole[axis] = jax.tree.map(
                lambda leaf: np.empty((n_rows, *leaf.shape[1:]), leaf.dtype), rows
            )

        def copy(kept: np.ndarray, new: np.ndarray) -> None:
            kept[begin : begin + new.shape[0]] = new

        jax.tree.map(copy, self._whole[axis], rows)

    def rows(self, axis: str) -> tuple[Int[np.ndarray, " row"], PyTree]:
        if axis not in self._batches:
            return np.zeros(0, int), None
        batches = np.concatenate(self._batches[axis])
        if axis in self._whole:
            return batches, jax.tree.map(lambda leaf: leaf[: batches.size], self._whole[axis])
        return batches, jax.tree.map(lambda *rows: np.concatenate(rows), *self._pieces[axis])
