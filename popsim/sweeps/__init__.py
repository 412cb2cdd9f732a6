"""Sweeps: an experiment over a grid of settings and seeds, in cells that any machine can train."""

from popsim.sweeps.cell_training import run_cell
from popsim.sweeps.executors import CellsFailed
from popsim.sweeps.folder import SweepFolder
from popsim.sweeps.opened_sweep import OpenedSweep, open_sweep
from popsim.sweeps.overview import verify_sweep
from popsim.sweeps.running import make_sweep, run_sweep
from popsim.sweeps.sweep import Cell, Sweep

__all__ = [
    "Cell",
    "CellsFailed",
    "OpenedSweep",
    "Sweep",
    "SweepFolder",
    "make_sweep",
    "open_sweep",
    "run_cell",
    "run_sweep",
    "verify_sweep",
]
