"""A training of very many small batches that is kept in a folder, and what it takes meanwhile."""

import ctypes
import dataclasses
import os
import tempfile
from pathlib import Path

import jax
import numpy as np
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

    def count(event: str, duration: float, **_) -> None:
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
