"""Processes that append to growing arrays and are killed, or find the disk full; run as a script.

Each fault is put into a process of its own, forked before any thread is started. Then another goes on from
the checkpoint, and what it ends with must be what an undisturbed process writes. Prints, as JSON, how many
faults of each kind there were and which of them went wrong.
"""

import argparse
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import small_shards
import xarray  # noqa: F401  once, and not in each of the processes

from popsim.store.arrays.growing_arrays import GrowingArrays
from popsim.store.arrays.inspection import damage_of_arrays, open_arrays
from popsim.store.files import SaveError

N_BATCHES = 48
LENGTHS = {"batch": N_BATCHES, "trainables_batch": N_BATCHES // 6}
FULL = 3
OPERATIONS = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.listdir", "os.scandir")


def forked(run: Callable[[], None]) -> int:
    """Start `run` in a process of its own.

    **Returns:** its number.
    """
    process = os.fork()
    if process == 0:
        status = 1
        try:
            run()
            status = 0
        except SaveError:
            status = FULL
        finally:
            sys.stdout.flush()
            os._exit(status)
    return process


def status_of(process: int) -> int:
    """How a process ended: its exit status, or minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def at_operation(folder: Path, number: int, act: Callable[[], None]) -> None:
    """From now on count the operations on files within `folder`, and `act` before that number of them."""
    left = [number]

    def count(event: str, arguments: tuple) -> None:
        if event in OPERATIONS and str(arguments[0]).startswith(str(folder)):
            left[0] -= 1
            if left[0] == 0:
                act()

    sys.addaudithook(count)


def train(folder: Path) -> None:
    """Write a history into `folder`, or go on from its checkpoint."""
    small_shards.use_small_shards(pytest.MonkeyPatch())
    small_shards.train(folder / "h.zarr", folder / "checkpoint.json", N_BATCHES)


def goes_on(folder: Path) -> bool:
    """Whether what was committed can be read, and a process that goes on ends where it should."""

    def check() -> None:
        path, checkpoint = folder / "h.zarr", folder / "checkpoint.json"
        small_shards.use_small_shards(pytest.MonkeyPatch())
        if path.exists():
            small_shards.assert_holds(path, GrowingArrays.open(path).lengths)
            assert not [*damage_of_arrays(path)]
        if checkpoint.exists():
            committed = GrowingArrays.open(path).lengths
            assert all(committed[axis] >= n for axis, n in json.loads(checkpoint.read_text()).items())
        train(folder)
        small_shards.assert_holds(path, LENGTHS)
        assert not [*damage_of_arrays(path)]
        dataset = open_arrays(path)
        assert dataset.sizes["batch"] == N_BATCHES
        left_over = [file.name for file in [*path.rglob("*.partial"), *folder.glob("h.zarr*.partial")]]
        assert not left_over, left_over

    return status_of(forked(check)) == 0


def number_of_operations(folder: Path) -> int:
    """How many operations an undisturbed process does."""
    counted = folder / "counted"

    def run() -> None:
        numbers = [0]

        def count(event: str, arguments: tuple) -> None:
            inside = event in OPERATIONS and str(arguments[0]).startswith(str(folder / "run"))
            numbers[0] += inside

        sys.addaudithook(count)
        train(folder / "run")
        counted.write_text(str(numbers[0]))

    (folder / "run").mkdir()
    assert status_of(forked(run)) == 0
    shutil.rmtree(folder / "run")
    return int(counted.read_text())


def main() -> None:
    """Put in the faults and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--operations", type=int, required=True)
    parser.add_argument("--times", type=int, required=True)
    parser.add_argument("--full-disks", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    random = np.random.default_rng(arguments.seed)
    os.fsync = lambda number: None  # what a process wrote outlives it without; it would take most of the time
    n_operations = number_of_operations(arguments.folder)
    found: dict[str, list] = {"wrong": [], "ends": []}

    def attempt(label: str, fault: Callable[[Path], int]) -> None:
        folder = arguments.folder / "run"
        folder.mkdir()
        status = fault(folder)
        found["ends"].append(status)
        if not goes_on(folder):
            found["wrong"].append(label)
        shutil.rmtree(folder)

    def killed_at(number: int) -> Callable[[Path], int]:
        def kill() -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        def fault(folder: Path) -> int:
            def run() -> None:
                at_operation(folder, number, kill)
                train(folder)

            return status_of(forked(run))

        return fault

    def killed_after(seconds: float) -> Callable[[Path], int]:
        def fault(folder: Path) -> int:
            process = forked(lambda: train(folder))
            time.sleep(seconds)
            os.kill(process, signal.SIGKILL)
            return status_of(process)

        return fault

    def with_files_of_at_most(n_bytes: int) -> Callable[[Path], int]:
        def fault(folder: Path) -> int:
            def run() -> None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))
                train(folder)

            return status_of(forked(run))

        return fault

    for number in np.unique(random.integers(1, n_operations + 1, arguments.operations)).tolist():
        attempt(f"operation {number}", killed_at(number))
    for seconds in random.uniform(0, 0.3, arguments.times):
        attempt(f"{seconds:.4f} s", killed_after(seconds))
    for n_bytes in random.integers(0, 2500, arguments.full_disks).tolist():
        attempt(f"files of {n_bytes} bytes", with_files_of_at_most(n_bytes))
    print(json.dumps({**found, "operations": n_operations}))


if __name__ == "__main__":
    main()
