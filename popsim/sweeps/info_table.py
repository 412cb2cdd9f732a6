"""The state of a sweep as text."""

from popsim.store.identity import lock_holder
from popsim.sweeps.opened import OpenedSweep

__all__ = ["sweep_table"]

MOST_CELLS = 20


def sweep_table(opened: OpenedSweep) -> str:
    """Return the axes of a sweep, how many cells are in each state, and the cells that are not finished."""
    sweep = opened.sweep
    axes = {name: ", ".join(map(str, values)) for name, values in sweep.axes.items()}
    lines = [
        f"sweep       {opened.folder.path}",
        f"experiment  {sweep.experiment.name}",
        f"networks    {sweep.n_members}, in {sweep.n_cells} cells",
        *(f"axis        {name}: {said}" for name, said in axes.items()),
        f"seeds       {sweep.seeds.start} to {sweep.seeds.stop - 1}",
        f"cells       {', '.join(f'{n} {state}' for state, n in opened.counts.items() if n)}",
    ]
    unfinished = opened.unfinished
    told = [number for number in unfinished if _is_told(opened, number)]
    told = (told or unfinished)[:MOST_CELLS]
    if told:
        lines += ["", "not finished", *(_line(opened, number) for number in told)]
        if len(unfinished) > len(told):
            lines.append(f"  and {len(unfinished) - len(told)} more")
        lines.append(f"{opened.folder.command('resume')} trains them")
    return "\n".join("".join(mark if mark.isprintable() else "?" for mark in line) for line in lines)


def _is_told(opened: OpenedSweep, number: int) -> bool:
    """Whether there is more to say of a cell than that it is not started."""
    return opened.state_of(number) != "not started" or opened.folder.failure(number).exists()


def _line(opened: OpenedSweep, number: int) -> str:
    state, problem = opened.state_of(number), opened.problem_of(number)
    writer = lock_holder(opened.folder.cell(number).path)
    said = f"being trained by {writer}" if writer else state
    n_batches = opened.sweep.cell(number).experiment.n_batches
    saved = f", {opened.index.n_batches[number]} of {n_batches} batches saved" if state == "stopped" else ""
    return f"  cell {number}: {said}{saved}{f': {problem}' if problem else ''}"
