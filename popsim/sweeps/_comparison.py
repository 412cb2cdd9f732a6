"""Comparison of what the index of a sweep says with the runs of its cells, before it is shown.

An index that fits the cells in number and time may still say something else, where it was forged or copied.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from popsim.sweeps._derived import MISFITS, RESULT
from popsim.sweeps._results import agrees
from popsim.sweeps.folder import SweepFolder
from popsim.sweeps.index import FINISHED, STOPPED, SweepIndex, read_run, stamp_of
from popsim.sweeps.sweep import Sweep

MANY_ROWS = 2**16  # of a layout, which is then compared by itself


def compare_results(
    index: SweepIndex, folder: SweepFolder, sweep: Sweep, sweep_id: str, cells: Iterable[int]
) -> None:
    """Compare the results of some cells with the log and the summary of each.

    A cell that differs is read anew from its run, and the index is written again. Each cell is compared once;
    one that was trained since the index was made stays as it was then.
    """
    differ = []
    for number in cells:
        if number not in index.compared and index.state[number] in (STOPPED, FINISHED):
            index.compared.add(number)
            stamp = stamp_of(str(folder.cell(number).path))
            if stamp == tuple(index.stamp[number].tolist()) and not _agrees(index, folder, sweep, number):
                differ.append(number)
    _read_again(index, folder, sweep, sweep_id, differ)


def compare_layouts(
    index: SweepIndex, folder: SweepFolder, sweep: Sweep, sweep_id: str, cells: Iterable[int]
) -> None:
    """Compare the layouts of the histories of some cells with these histories.

    One history is opened of all that are alike, whichever batches they have come to, and each of those with
    many rows. Where it is another, all that are alike are read anew from their runs.
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
    _read_again(index, folder, sweep, sweep_id, without_history)
    for numbers in alike.values():
        layout = read_run(folder, sweep, sweep_id, numbers[0]).layout
        if layout is None or not index.layouts[index.layout[numbers[0]]].is_part_of(layout):
            _read_again(index, folder, sweep, sweep_id, numbers)


def _agrees(index: SweepIndex, folder: SweepFolder, sweep: Sweep, number: int) -> bool:
    """Whether the results of a cell are what its run says; not if that cannot be read."""
    first, end = sweep.first_members()[number : number + 2]
    results = {name: column[first:end] for name, column in index.members.items()}
    try:
        experiment = sweep.cell(number).experiment
        return agrees(folder.cell(number), experiment, results, float(index.seconds[number]))
    except MISFITS:
        return False


def _read_again(
    index: SweepIndex, folder: SweepFolder, sweep: Sweep, sweep_id: str, cells: Iterable[int]
) -> None:
    """Read cells anew from their runs, and write the index again if there are any."""
    numbers = list(cells)
    for number in numbers:
        index.read_again(folder, sweep, sweep_id, number)
    if numbers:
        for name, column in [*index.members.items()]:
            if name.startswith(RESULT) and np.isnan(column).all():  # of no cell any more
                del index.members[name]
        index.write(folder, sweep_id)
