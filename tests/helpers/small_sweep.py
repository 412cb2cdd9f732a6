"""Small sweeps in the states in which tests read, damage and continue them."""

import json
import shutil

import pytest
from small_experiment import stopping_after
from swept_runs import Swept

from popsim.experiments import Recording, RunStopped
from popsim.sweeps import Sweep, make_sweep, run_cell
from popsim.sweeps.cell_training import SelectionPending

SELECTING = Swept(n_batches=4, batch_size=2, log_step=2, select_every=2)
SWEEP = Sweep(SELECTING, {"rate": (1e-3, 1e-2)}, range(2), 2, 2, Recording("none"))
DIVIDED = Sweep(
    Swept(n_batches=2, batch_size=2, log_step=1),
    {"rate": (1e-3, 1e-2), "label": ("a", "b"), "cost": (0.1,)},
    range(2),
    recording=Recording("none"),
)


def make_begun(path):
    """Make a sweep whose cells have come to a selection; one failed once; all kinds of files are there."""
    opened = make_sweep(SWEEP, path)
    folder = opened.folder
    for number in range(SWEEP.n_cells):
        with pytest.raises(SelectionPending):
            run_cell(path, number)
    for place in (folder.failures, folder.logs, folder.figures):
        place.mkdir(exist_ok=True)
    failure = {"error": "ValueError: unlucky", "host": "node", "seconds_since_1970": 1.0}
    folder.failure(1).write_text(json.dumps(failure))
    (folder.logs / "0.txt").write_text("a job")
    (folder.figures / "rate_scores.png").write_bytes(b"a figure")
    return path


def make_trained(path):
    """Make a sweep of four members in a finished cell, and four in one that has stopped."""
    make_sweep(DIVIDED, path)
    run_cell(path, 0)
    with pytest.raises(RunStopped):
        run_cell(path, 1, stop=stopping_after(1))
    return path


def copy(path, to):
    """Copy a sweep as it is, with its times."""
    return shutil.copytree(path, to / "sw", symlinks=True)
