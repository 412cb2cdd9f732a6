"""The plan of a sweep as a table."""

import datetime

from popsim.experiments import Column, ResultTable, Row
from popsim.experiments.info_table import size_text
from popsim.sweeps.cost import CellCost, cell_cost
from popsim.sweeps.sweep import Sweep

__all__ = ["plan_table"]

MOST_ROWS = 40


def plan_table(sweep: Sweep) -> str:
    """Return the cells of a sweep with their members and what each is expected to take, as text."""
    costs: dict[object, CellCost] = {}
    rows, seconds, n_bytes = [], 0.0, 0
    for cell in sweep.cells():
        kind = (tuple(cell.settings.items()), cell.experiment.n_members)
        if kind not in costs:
            costs[kind] = cell_cost(cell.experiment, sweep.recording)
        cost = costs[kind]
        seconds, n_bytes = seconds + cost.seconds, n_bytes + cost.disk_bytes
        if cell.number < MOST_ROWS:
            values = [cell.experiment.n_members, *_in_words(cost), str(cell)]
            rows.append(Row(f"cell {cell.number}", values))
    if sweep.n_cells > MOST_ROWS:
        rows.append(Row("...", ["", "", "", "", f"and {sweep.n_cells - MOST_ROWS} more"]))
    total = CellCost(seconds, max(cost.memory_bytes for cost in costs.values()), n_bytes)
    rows.append(Row("all", [sweep.n_members, *_in_words(total), "time on one core, memory of one cell"]))
    columns = [Column("networks", digits=0), Column("time"), Column("memory"), Column("disk"), Column("what")]
    caption = "expected on a core of a CPU, within a factor of two or so, without compilation"
    return str(ResultTable(columns, rows, caption))


def _in_words(cost: CellCost) -> list[str]:
    time = datetime.timedelta(seconds=max(1, round(cost.seconds)))
    return [str(time), size_text(cost.memory_bytes), size_text(cost.disk_bytes)]
