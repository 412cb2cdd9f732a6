"""The index of a sweep: the state and the results of all cells, in one file built from them."""

import contextlib
import dataclasses
import os

import numpy as np
from jaxtyping import Float, Int

from popsim._shared.checks import WholeNumber
from popsim.store import SaveError
from popsim.store.array_file import ArrayFile, describe, write_array_file
from popsim.store.identity import FolderLockedError, lock_folder
from popsim.sweeps.cells import DescribedSweep, SweepCell
from popsim.sweeps.entries import FINISHED, NOT_STARTED, STOPPED, CellEntry, read_cell, stamp_of
from popsim.sweeps.history_layouts import CellLayout
from popsim.sweeps.sweep import Sweep

__all__ = ["SweepIndex"]

INDEX_FORMAT = 1
KIND = "an index"
_COLUMNS = ("state", "stamp", "n_batches", "seconds", "layout")


@dataclasses.dataclass
class SweepIndex:
    """The state and the results of the cells of a sweep, as columns.

    - `state`: for each cell, the number of its state in `STATES`.
    - `stamp`: for each cell, which of `PARTS` exist, as bits, and a number that changes with them.
    - `n_batches`: for each cell, the number of batches that are saved.
    - `seconds`: for each cell, how long it trained.
    - `layout`: for each cell, the number of its history in `layouts`; -1 for none.
    - `members`: for each member of the sweep, by name, its last losses and its metrics; NaN for
        those that are not known.
    - `layouts`: the different layouts of histories.
    - `problems`: what is wrong with damaged cells.
    - `n_members`: the number of members of the sweep.
    """

    state: Int[np.ndarray, " cell"]
    stamp: Int[np.ndarray, "cell 2"]
    n_batches: Int[np.ndarray, " cell"]
    seconds: Float[np.ndarray, " cell"]
    layout: Int[np.ndarray, " cell"]
    members: dict[str, Float[np.ndarray, " member"]]
    layouts: list[CellLayout]
    problems: dict[int, str]
    n_members: int

    @classmethod
    def empty(cls, sweep: Sweep) -> "SweepIndex":
        """Return the index of a sweep in which nothing is trained."""
        n = sweep.n_cells
        zeros = np.zeros(n, np.int64)
        stamp, layout = np.zeros((n, 2), np.int64), np.full(n, -1)
        return cls(zeros, stamp, zeros.copy(), np.zeros(n), layout, {}, [], {}, sweep.n_members)

    @classmethod
    def read(cls, described: DescribedSweep) -> "SweepIndex":
        """Read the index of a sweep; return an empty one if that fails, or it is damaged or of another."""
        sweep = described.sweep
        with (
            contextlib.suppress(ValueError, OSError),
            ArrayFile.open(described.folder.index, INDEX_FORMAT, KIND) as file,
        ):
            details, arrays = file.content["details"], file.arrays()
            if details["sweep_id"] == described.sweep_id:
                return cls(
                    *(arrays.pop(name) for name in _COLUMNS),
                    members=arrays,
                    layouts=[CellLayout.parse(text) for text in details["layouts"]],
                    problems={int(number): text for number, text in details["problems"].items()},
                    n_members=sweep.n_members,
                )
        return cls.empty(sweep)

    def write(self, described: DescribedSweep) -> None:
        """Write the index, unless another process does so or the folder cannot be written."""
        arrays = {name: getattr(self, name) for name in _COLUMNS} | self.members
        details = {
            "sweep_id": described.sweep_id,
            "layouts": [layout.text for layout in self.layouts],
            "problems": {str(number): text for number, text in self.problems.items()},
        }
        content = {"format": INDEX_FORMAT, "kind": KIND, "details": details}
        folder = described.folder
        # The index can always be made again from the cells, so failing to write it costs only time.
        with contextlib.suppress(FolderLockedError, ValueError, SaveError), lock_folder(folder.path):
            forms = {name: describe(array) for name, array in arrays.items()}
            write_array_file(folder.index, arrays, forms, content)

    def refresh(self, described: DescribedSweep) -> int:
        """Look at every cell, read those that changed, and return their number."""
        folder = described.folder
        # One listing: a look at each of many cells that have not begun would take a call of the system each.
        present = set(os.listdir(folder.cells)) if folder.cells.is_dir() else set()
        numbers = {layout: number for number, layout in enumerate(self.layouts)}
        n_changed = 0
        for number, old_stamp in enumerate(map(tuple, self.stamp.tolist())):
            path = folder.cell(number).path
            stamp = stamp_of(str(path)) if path.name in present else (0, 0)
            # The stamp is a few calls of the system; reading a cell is several files.
            if stamp == old_stamp and _is_state(self.state[number], stamp[0]):
                continue
            n_changed += 1
            self.stamp[number] = stamp
            cell = described.cell(number)
            self._put(cell, read_cell(cell) if stamp[0] else CellEntry(), numbers)
        return n_changed

    def _put(self, cell: SweepCell, entry: CellEntry, numbers: dict[CellLayout, int]) -> None:
        """Enter what is known of a cell."""
        number, members = cell.number, cell.of_sweep.sweep.members_of(cell.number)
        self.state[number], self.n_batches[number] = entry.state, entry.n_batches
        self.seconds[number] = entry.seconds
        self.problems.pop(number, None)
        if entry.problem:
            self.problems[number] = entry.problem[:300]
        if entry.layout is None:
            self.layout[number] = -1
        else:
            self.layout[number] = numbers.setdefault(entry.layout, len(numbers))
            self.layouts[:] = list(numbers)
        n = members.stop - members.start
        for name in {*self.members, *entry.members}:
            column = self.members.setdefault(name, np.full(self.n_members, np.nan))
            # Every known column is written, so that a cell which was trained anew keeps no old number.
            values = np.asarray(entry.members.get(name, []), float)
            column[members] = values if values.shape == (n,) else np.nan


def _is_state(state: WholeNumber, parts: int) -> bool:
    """Whether a cell of which some parts exist can be in a state; a damaged one is looked at each time."""
    has_summary = bool(parts & 1)
    return {NOT_STARTED: not parts, STOPPED: not has_summary, FINISHED: has_summary}.get(int(state), False)
