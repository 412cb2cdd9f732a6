"""Rows of a history in a folder: appended while training goes on, read when looked at."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, PyTree

from popsim.store import DamagedError, GrowingArrays, open_arrays
from popsim.training.history_arrays import named_rows, rows_of_names
from popsim.training.history_rows import BATCH, TRIALS, AbstractHistoryRows


class RowsOnDisk(AbstractHistoryRows):
    """Rows in growing arrays, see `popsim.store.GrowingArrays`.

    **Arguments:**

    - `path`: their folder.
    - `arrays`: these arrays.
    - `like`: for trainables and trials a PyTree of the structure of a row.
    - `by_member`: the axes whose rows have a member axis.
    - `attributes`: JSON values that are kept with the arrays.
    """

    def __init__(
        self,
        path: Path,
        arrays: GrowingArrays,
        *,
        like: dict[str, PyTree],
        by_member: frozenset[str],
        attributes: dict[str, Any],
    ):
        self._path = path
        self._arrays = arrays
        self._like = like
        self._by_member = by_member
        self._attributes = attributes

    def append(self, axis: str, batches: Int[np.ndarray, " row"], rows: PyTree[np.ndarray]) -> None:
        if axis == BATCH:
            self._attributes["terms"] = sorted(rows.loss.terms)
        self._arrays.append(
            axis, {axis: ((), np.asarray(batches)), **named_rows(axis, rows, self._members_of)}
        )

    def _members_of(self, axis: str) -> tuple[str, ...]:
        return ("member",) if axis in self._by_member else ()

    @property
    def n_rows(self) -> dict[str, int]:
        """How many rows came by now, by axis."""
        return self._arrays.appended

    def commit(self, n_rows: dict[str, int], **attributes: Any) -> None:
        """Write what came, then how much that is.

        **Arguments:**

        - `n_rows`: how many rows are kept of what came, by axis.
        - `attributes`: further JSON values that are kept with the arrays.
        """
        self._attributes |= attributes
        if self._arrays.commit(self._attributes) != n_rows:
            self._arrays.truncate(n_rows)

    def rows(self, axis: str) -> tuple[Int[np.ndarray, " row"], PyTree]:
        dataset = open_arrays(self._path, run_id=self._arrays.run_id)
        if dataset.sizes.get(axis, 0) == 0:
            return np.zeros(0, int), None
        arrays = {str(name): array for name, array in dataset.data_vars.items() if array.dims[0] == axis}
        if axis == TRIALS:
            arrays = {name: array.values for name, array in arrays.items()}
        try:
            rows = rows_of_names(axis, arrays, dataset.attrs["terms"], self._like.get(axis))
        except (LookupError, TypeError) as error:
            raise DamagedError(f"{self._path} must hold this training; it is damaged: {error!r}") from None
        return dataset[axis].values, rows
