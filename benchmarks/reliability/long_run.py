"""A hundred thousand small batches, kept in a folder: memory, open files and compiled programs meanwhile.

Exits with 1 if the memory grows by one percent or more after the first tenth, if the number of open files
grows, or if anything is compiled twice.
"""

import argparse
import ctypes
import dataclasses
import os
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
from fault_table import Table
from small_training import OPTIMIZER, train

from popsim.training import TaskTrainer, log_spaced_batches

COMPILED = "/jax/core/compile/backend_compile_duration"


@dataclasses.dataclass(frozen=True)
class Usage:
    """What a process holds: memory in bytes, open files, and how many programs it has compiled."""

    memory: int
    n_files: int
    n_compiled: int


def run(folder: Path, n_batches: int, *, checkpoint_seconds: float) -> list[Usage]:
    """Train, and return what the process held after each tenth of the batches."""
    compiled: list[str] = []

    def count(event: str, duration_secs: float, **_: Any) -> None:
        if event == COMPILED:
            compiled.append(event)

    usages: list[Usage] = []

    c_library = ctypes.CDLL(None)

    def look() -> None:
        # What was freed and is kept by the allocator for later is not held. It was 22 MB of 454 here, and
        # moved by a percent between tenths. Only glibc can give it back.
        if hasattr(c_library, "malloc_trim"):
            c_library.malloc_trim(0)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        usages.append(
            Usage(pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir("/proc/self/fd")), len(compiled))
        )

    with tempfile.TemporaryDirectory() as elsewhere:  # what writes checkpoints is loaded by the first of them
        train(2, trainer=TaskTrainer(OPTIMIZER, chkpt_dir=elsewhere))
    tenths = np.linspace(0, n_batches - 1, 11).astype(int)[1:].tolist()
    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        _, history = train(
            n_batches,
            trainer=TaskTrainer(OPTIMIZER, chkpt_dir=folder, checkpoint_seconds=checkpoint_seconds),
            save_model_trainables=log_spaced_batches(n_batches, 200),
            log_step=max(n_batches // 10, 1),
            batch_callbacks={batch: [look] for batch in tenths},
        )
    finally:
        jax.monitoring.unregister_event_duration_listener(count)
    assert history.batch.size == n_batches
    return usages


def main() -> None:
    """Train, and print what the process held after the first and the last tenth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=100_000)
    parser.add_argument("--checkpoint-seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    table = Table("MB at 1/10", "MB", "% growth", "files", "compiled")
    with tempfile.TemporaryDirectory() as folder:
        usages = run(Path(folder), arguments.batches, checkpoint_seconds=arguments.checkpoint_seconds)
    first, last = usages[0], usages[-1]
    growth = 100 * (last.memory / first.memory - 1)
    is_kept = growth < 1 and last.n_files < first.n_files + 16 and last.n_compiled == first.n_compiled
    table.row(
        f"{arguments.batches:,} batches",
        f"{first.memory / 1e6:.0f}",
        f"{last.memory / 1e6:.0f}",
        f"{growth:.2f}",
        last.n_files,
        last.n_compiled - first.n_compiled,
        failures=[] if is_kept else [f"after each tenth {usages}"],
    )
    table.finish()


if __name__ == "__main__":
    main()
