"""What it costs to keep a training: the main job in memory, and in a folder with history and checkpoints.

Both train the same batches in one process, in turn. Prints seconds, their ratio, and the time that the
training itself waited for the folder.
"""

import argparse
import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from popsim.cli._devices import training_devices
from popsim.experiments import CenterOut
from popsim.store import GrowingArrays
from popsim.training.history import training_store

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--batches", type=int, default=1000)
parser.add_argument("--repeats", type=int, default=2)
parser.add_argument("--all", action="store_true", help="keep the weights after every batch")
parser.add_argument("--checkpoint-seconds", type=float, default=60.0)
arguments = parser.parse_args()


@contextlib.contextmanager
def count_waiting(waited: list[float]) -> Iterator[None]:
    """Adds to `waited` the seconds that training spends in saving, and in handing rows over."""
    owners = {
        training_store.TrainingStore: ("save", "wait", "on_log_point", "begin"),
        GrowingArrays: ("append", "read"),
    }
    originals = {(owner, name): getattr(owner, name) for owner, names in owners.items() for name in names}

    def timed(function):
        def call(*args, **options):
            began = time.perf_counter()
            try:
                return function(*args, **options)
            finally:
                waited.append(time.perf_counter() - began)

        return call

    for (owner, name), function in originals.items():
        setattr(owner, name, timed(function))
    try:
        yield
    finally:
        for (owner, name), function in originals.items():
            setattr(owner, name, function)


def seconds_of(experiment: CenterOut, n_batches: int, folder: Path | None) -> float:
    """Seconds to train `n_batches`."""
    options = {"chkpt_dir": folder, "checkpoint_seconds": arguments.checkpoint_seconds} if folder else {}
    trainer = experiment.build_trainer(devices=training_devices(None), **options)
    logged = np.arange(experiment.log_step - 1, n_batches, experiment.log_step)
    began = time.perf_counter()
    trainer(
        experiment.build_task(),
        experiment.build_ensemble(),
        n_batches,
        experiment.batch_size,
        experiment.where_train,
        ensembled=True,
        log_step=experiment.log_step,
        save_model_trainables=True if arguments.all else logged,
        disable_tqdm=True,
        key=experiment.key("training"),
    )
    return time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    experiment = CenterOut()
    seconds_of(experiment, experiment.log_step, None)
    memory, disk, waits = [], [], []
    for _ in range(arguments.repeats):
        memory.append(seconds_of(experiment, arguments.batches, None))
        with tempfile.TemporaryDirectory() as folder, count_waiting(waited := []):
            disk.append(seconds_of(experiment, arguments.batches, Path(folder)))
        waits.append(sum(waited))
    ratio = statistics.median(
        with_folder / without for with_folder, without in zip(disk, memory, strict=True)
    )
    print(f"in memory {memory}, kept {disk} seconds: ratio {ratio:.4f}")
    fraction = statistics.median(waiting / total for waiting, total in zip(waits, disk, strict=True))
    print(f"training waited {waits} seconds for the folder: {100 * fraction:.2f} % of its time")


if __name__ == "__main__":
    main()
