"""Runs that are trained once, for tests that read or copy them."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import filelock
import pytest
from small_experiment import Sum, stopping_after

from popsim.experiments import CenterOut, Recording, RunStopped, run_experiment

SMALL = Sum(n_members=2, n_batches=8, batch_size=4, log_step=2)
EVERY_2 = Recording("every 2")  # the log points
SIZES = ["--members", "2", "--n-batches", "8", "--batch-size", "4", "--log-step", "2", "--devices", "1"]
"""The options of `SMALL`, for the same compiled programs."""
REACHES = CenterOut(
    n_members=2,
    n_batches=6,
    batch_size=4,
    n_units=8,
    duration=0.3,
    log_step=3,
    seed=7,
    plant="point-mass",  # compiled sooner than an arm
)


def finished_run(folders: pytest.TempPathFactory, seed: int = 0) -> Path:
    """The folder of a finished run of `SMALL`, with a checkpoint for each log point; not to be written."""
    experiment = dataclasses.replace(SMALL, seed=seed)
    options = {"recording": EVERY_2, "checkpoint_seconds": 1e-9}
    return _made(
        folders, f"finished-{seed}", lambda path: run_experiment(experiment, path, quiet=True, **options)
    )


def reach_run(folders: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of `REACHES`, of which all batches but the last but one are kept."""
    recording = Recording("0 1 2 3 5")
    return _made(
        folders, "reaches", lambda path: run_experiment(REACHES, path, quiet=True, recording=recording)
    )


def stopped_run(folders: pytest.TempPathFactory) -> Path:
    """The folder of a run of `SMALL` that was stopped in the middle; not to be written."""

    def stop_in_the_middle(path):
        with pytest.raises(RunStopped) as stop:
            run_experiment(SMALL, path, quiet=True, recording=EVERY_2, stop=stopping_after(2))
        assert 0 < stop.value.n_batches < SMALL.n_batches

    return _made(folders, "stopped", stop_in_the_middle)


def _made(folders: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that is made once, by that process of pytest-xdist which needs it first."""
    base = folders.getbasetemp()
    path = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "kept" / name
    path.parent.mkdir(exist_ok=True)
    with filelock.FileLock(f"{path}.lock"):
        if not path.exists():
            make(path)
    return path
