"""Promise 13: a history ten times as large as the memory for it is analysed, block by block.

The process that does it may take 64 MB more than it has once it has opened the history and read one batch.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from fault_table import Table

from popsim.store import GrowingArrays, open_arrays

N_BATCHES, BLOCK, MB = 640, 8, 2**20
LIMIT = 64 * MB


def write_history(path: Path) -> None:
    """One megabyte of weights a batch."""
    rng = np.random.default_rng(0)
    arrays = GrowingArrays.create(path)
    for first in range(0, N_BATCHES, 16):
        weights = rng.standard_normal((16, 256, 1024), np.float32)
        batches = np.arange(first, first + 16)
        arrays.append("batch", {"batch": ((), batches), "weights": (("to", "from"), weights)})
    arrays.commit()


def analyse(path: Path) -> None:
    """Print the mean of all weights."""
    open_arrays(path)["weights"].isel(batch=0).load()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + LIMIT
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    weights = open_arrays(path)["weights"]
    blocks = (weights[first : first + BLOCK].values for first in range(0, N_BATCHES, BLOCK))
    print(f"{sum(block.sum(dtype=float) for block in blocks) / weights.size:.6f}")


def main() -> None:
    """Write, analyse in another process, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--analyse", type=Path)
    if path := parser.parse_args().analyse:
        analyse(path)
        return
    table = Table("MB", "more MB", "mean")
    with tempfile.TemporaryDirectory() as name:
        history = Path(name, "history.zarr")
        write_history(history)
        analysed = subprocess.run(
            [sys.executable, __file__, "--analyse", str(history)], capture_output=True, text=True
        )
    failures = [analysed.stderr[-500:]] if analysed.returncode else []
    mean = analysed.stdout.strip()
    table.row("a history, in blocks of 8 batches", N_BATCHES, LIMIT // MB, mean, failures=failures)
    table.finish()


if __name__ == "__main__":
    main()
