"""What writing a history of 1 GB costs, and what reading parts of it takes.

Five members, the leaves of a network of 64 gated units, all of them kept after each of 3000 batches, beside
the loss. While it is written, a batch of training is a pause of 10 ms. Each reading is done in a process of
its own, with the files in the cache of the system: wall and processor time, the latter for a busy machine.
Memory is the peak of the process, and what that is above the process before it opened the history.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from popsim.store.array_group import open_arrays
from popsim.store.growing_arrays import GrowingArrays

N_MEMBERS = 5
LEAVES = {
    "weight_hh": (192, 64),
    "weight_ih": (192, 10),
    "bias": (192,),
    "bias_n": (64,),
    "weight_out": (2, 64),
    "bias_out": (2,),
}
BLOCK = 50
COMMIT_EVERY = 500


def write(path: Path, n_batches: int, pause: float) -> None:
    """Append weights that change slowly, batch by batch; print what the caller waits for."""
    random = np.random.default_rng(0)
    weights = {
        name: random.normal(0, 0.1, (N_MEMBERS, *shape)).astype("f4") for name, shape in LEAVES.items()
    }
    axes = {name: ("member", *(f"{name} {i}" for i in range(len(shape)))) for name, shape in LEAVES.items()}
    steps = {
        name: random.normal(0, 1e-3, (2, *weight.shape)).astype("f4") for name, weight in weights.items()
    }
    history = GrowingArrays.create(path)
    appended, committed, cpu = [], [], 0.0
    for batch in range(n_batches):
        for name in weights:
            weights[name] += steps[name][batch % 2]
        rows = {name: (axes[name], weight[None]) for name, weight in weights.items()}
        loss = random.normal(size=(1, N_MEMBERS, 3))
        number = np.array([batch])
        before, before_cpu = time.perf_counter(), time.process_time()
        history.append("trainables_batch", {"trainables_batch": ((), number), **rows})
        history.append("batch", {"batch": ((), number), "loss": (("member", "term"), loss)})
        appended.append(time.perf_counter() - before)
        if batch % COMMIT_EVERY == COMMIT_EVERY - 1:
            before = time.perf_counter()
            history.commit()
            committed.append(time.perf_counter() - before)
        time.sleep(pause)
        cpu += time.process_time() - before_cpu
    files = [file for file in path.rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    print(f"a batch of {sum(weight.nbytes for weight in weights.values()) / 1e3:.0f} KB")
    print(f"{'append, a batch: median':44} {1e3 * statistics.median(appended):8.2f} ms")
    print(f"{'append, a batch: mean':44} {1e3 * statistics.mean(appended):8.2f} ms")
    print(f"{'append, a batch: longest':44} {1e3 * max(appended):8.2f} ms")
    print(f"{'processor time of all writing, a batch':44} {1e3 * cpu / n_batches:8.2f} ms")
    print(f"{'commit: median':44} {1e3 * statistics.median(committed):8.2f} ms")
    print(f"{'on disk':44} {size / 1e6:8.0f} MB in {len(files)} files")


def one_weight_matrix(path: Path) -> None:
    """One weight matrix of one member over all batches."""
    assert open_arrays(path)["weight_hh"].isel(member=2).values.shape[1:] == (192, 64)


def one_weight(path: Path) -> None:
    """One weight of one member over all batches."""
    assert open_arrays(path)["weight_hh"][:, 2, 17, 5].values.ndim == 1


def one_batch(path: Path) -> None:
    """One batch: all members and leaves."""
    assert open_arrays(path).isel(trainables_batch=1234, batch=1234).load()["bias"].shape == (N_MEMBERS, 192)


def losses(path: Path) -> None:
    """The losses of all batches."""
    assert open_arrays(path)["loss"].values.ndim == 3


def norm(path: Path) -> None:
    """The norm of all weights over the history."""
    dataset = open_arrays(path)
    total = np.zeros(dataset.sizes["trainables_batch"])
    for begin in range(0, len(total), BLOCK):
        block = dataset[list(LEAVES)].isel(trainables_batch=slice(begin, begin + BLOCK)).load()
        for leaf in block.values():
            total[begin : begin + BLOCK] += (leaf.values.reshape(leaf.shape[0], -1).astype(float) ** 2).sum(1)
    assert np.isfinite(np.sqrt(total)).all()


READINGS: dict[str, Callable[[Path], None]] = {
    reading.__name__: reading for reading in (one_weight_matrix, one_weight, one_batch, losses, norm)
}


def read(path: Path, name: str) -> None:
    """Time one reading, again and again: the first, and the quickest."""
    import xarray  # noqa: F401

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, processor = [], []
    for _ in range(2 if name == "norm" else 6):
        began, began_processor = time.perf_counter(), time.process_time()
        READINGS[name](path)
        wall.append(1e3 * (time.perf_counter() - began))
        processor.append(1e3 * (time.process_time() - began_processor))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    label = (READINGS[name].__doc__ or "").rstrip(".")
    print(f"{label:50} {wall[0]:8.0f} {min(wall):8.0f} {min(processor):8.0f}", end="")
    print(f" {peak / 1e3:8.0f} {(peak - before) / 1e3:8.0f}", flush=True)


def main() -> None:
    """Write a history, then read it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=3000)
    parser.add_argument("--pause", type=float, default=0.01, help="seconds of other work in a batch")
    parser.add_argument("--path", type=Path)
    parser.add_argument("--reading", choices=READINGS)
    arguments = parser.parse_args()
    if arguments.reading:
        read(arguments.path, arguments.reading)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.zarr"
        write(path, arguments.batches, arguments.pause)
        print(f"\n{'open and read':50} first ms  best ms   cpu ms  peak MB above MB", flush=True)
        for name in READINGS:
            subprocess.run([sys.executable, __file__, "--path", str(path), "--reading", name], check=True)


if __name__ == "__main__":
    main()
