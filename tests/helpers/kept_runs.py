"""Runs that are trained once in a process, for tests that read or copy them."""

import dataclasses
from pathlib import Path

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
    path = _place(folders, f"finished-{seed}")
    if not path.exists():
        experiment = dataclasses.replace(SMALL, seed=seed)
        run_experiment(experiment, path, quiet=True, recording=EVERY_2, checkpoint_seconds=1e-9)
    return path


def reach_run(folders: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of `REACHES`, of which all batches but the last but one are kept."""
    path = _place(folders, "reaches")
    if not path.exists():
        run_experiment(REACHES, path, quiet=True, recording=Recording("0 1 2 3 5"))
    return path


def stopped_run(folders: pytest.TempPathFactory) -> Path:
    """The folder of a run of `SMALL` that was stopped in the middle; not to be written."""
    path = _place(folders, "stopped")
    if not path.exists():
        with pytest.raises(RunStopped) as stop:
            run_experiment(SMALL, path, quiet=True, recording=EVERY_2, stop=stopping_after(2))
        assert 0 < stop.value.n_batches < SMALL.n_batches
    return path


def _place(folders: pytest.TempPathFactory, name: str) -> Path:
    """The same in all tests of a process."""
    return folders.getbasetemp() / "kept" / name
