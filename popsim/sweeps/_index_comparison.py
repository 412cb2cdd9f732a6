"""Comparison of the index of a sweep with the runs of its cells, before results are shown.

An index that fits the cells in number and time may still say something else, where it was forged or copied.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from popsim.sweeps._cell_results import agrees
from popsim.sweeps._index_checks import MISFITS, RESULT
from popsim.sweeps.cells import DescribedSweep, SweepCell
from popsim.sweeps.entries import FINISHED, STOPPED, read_run, stamp_of
from popsim.sweeps.index import SweepIndex

MANY_ROWS = 2**16  # of a layout, which is then compared separately


def compare_results(index: SweepIndex, described: DescribedSweep, cells: Iterable[int]) -> None:
    """Compare the results of some cells with the log and the summary of each.

    A cell that differs is read again from its run, and the index is rewritten. Each cell is compared once;
    one that was trained since the index was made stays as it was then.
    """
    differ = []
    for number in cells:
        if number not in index.compared and index.state[number] in (STOPPED, FINISHED):
            index.compared.add(number)
            cell = described.cell(number)
            is_same = stamp_of(str(cell.folder.path)) == tuple(index.stamp[number].tolist())
            if is_same and not _agrees(index, cell):
                differ.append(number)
    _reread_cells(index, described, differ)


def compare_layouts(index: SweepIndex, described: DescribedSweep, cells: Iterable[int]) -> None:
    """Compare the layouts of the histories of some cells with these histories.

    One history is opened of all that are alike, whichever batches they have reached, and each of those with
    many rows. Where it is another, all that are alike are read again from their runs.
    """
    alike: dict[Any, list[int]] = {}
    without_history = []
    for number in cells:
        if index.state[number] not in (STOPPED, FINISHED):
            continue
        if index.layout[number] < 0:
            without_history += [number] if index.n_batches[number] else []
            continue
        layout = index.layouts[index.layout[number]]
        has_many_rows = sum(map(len, layout.rows.values())) > MANY_ROWS
        alike.setdefault(number if has_many_rows else layout.form, []).append(number)
    _reread_cells(index, described, without_history)
    for numbers in alike.values():
        layout = read_run(described.cell(numbers[0])).layout
        if layout is None or not index.layouts[index.layout[numbers[0]]].is_part_of(layout):
            _reread_cells(index, described, numbers)


def _agrees(index: SweepIndex, cell: SweepCell) -> bool:
    """Whether the results of a cell are what its run says; not if that cannot be read."""
    members = cell.of_sweep.sweep.members_of(cell.number)
    results = {name: column[members] for name, column in index.members.items()}
    try:
        return agrees(cell, results, float(index.seconds[cell.number]))
    except MISFITS:
        return False


def _reread_cells(index: SweepIndex, described: DescribedSweep, cells: Iterable[int]) -> None:
    """Read cells again from their runs, and rewrite the index if there are any."""
    numbers = list(cells)
    for number in numbers:
        index.reread(described.cell(number))
    if numbers:
        for name, column in [*index.members.items()]:
            if name.startswith(RESULT) and np.isnan(column).all():  # of no cell any more
                del index.members[name]
        index.write(described)
