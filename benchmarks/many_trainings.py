"""Memory of one process that trains many times: by the API, the cells of a sweep, and cells that select.

    python benchmarks/many_trainings.py

Each way runs in a process of its own, which tells its resident memory and its compilations after each
training: by the API with a new optimizer and new functions each time; cells that differ in their seed alone;
two cells that are trained up to each of 20 selections in turn. The figure is docs/images/many_trainings.png.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
from matplotlib.figure import Figure

import popsim
from popsim.experiments import CenterOut
from popsim.sweeps import Sweep, make_sweep, run_cell, run_sweep
from popsim.training import TaskTrainer, inject_hyperparams

SMALL: dict[str, Any] = {"n_units": 5, "batch_size": 4, "n_batches": 3, "log_step": 3}
COMPILED = "/jax/core/compile/backend_compile_duration"
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "many_trainings.png"
Look = Callable[[], None]


def by_the_api(n: int, look: Look) -> None:
    """Train `n` times, with all functions made anew."""
    experiment = CenterOut(n_members=2, **SMALL)
    for _ in range(n):
        optimizer = inject_hyperparams(lambda learning_rate: optax.adam(learning_rate))(1e-2)
        trainer = TaskTrainer(optimizer, post_step_fns=[lambda model: model])
        options: dict[str, Any] = {"ensembled": True, "disable_tqdm": True, "key": jax.random.key(0)}
        ensemble = popsim.make_ensemble(lambda key: experiment.build_model(key=key), 2, key=jax.random.key(0))
        trainer(experiment.build_task(), ensemble, 3, 4, lambda model: model.network, **options)
        look()


def cells(n: int, look: Look) -> None:
    """Train a sweep of `n` cells that differ in their seed."""
    with tempfile.TemporaryDirectory() as folder:
        make_sweep(Sweep(CenterOut(**SMALL), {}, range(n), members_per_cell=1), Path(folder) / "sweep")
        for number in range(n):
            run_cell(Path(folder) / "sweep", number)
            look()


def selections(n: int, look: Look) -> None:
    """Train two cells that select among all their members `n` times; each is then called anew."""
    experiment = CenterOut(**{**SMALL, "n_batches": n + 1, "log_step": n}, select_every=1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sweep"
        make_sweep(Sweep(experiment, {"learning_rate": (1e-3, 1e-2)}, range(4), members_per_cell=4), path)
        run_sweep(path, tell=lambda line: look())


WAYS = {"by the API": (by_the_api, 100), "cells": (cells, 100), "selections": (selections, 20)}


def measure_memory(way: str, n: int | None = None) -> list[list[float]]:
    """Return memory in MB and the number of compilations after each training."""
    usages: list[list[float]] = []
    compiled: list[str] = []

    def count(event: str, duration_secs: float, **_: Any) -> None:
        if event == COMPILED:
            compiled.append(event)

    def look() -> None:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        usages.append([pages * os.sysconf("SC_PAGE_SIZE") / 1e6, len(compiled)])

    jax.monitoring.register_event_duration_secs_listener(count)
    train, usual = WAYS[way]
    train(usual if n is None else n, look)
    return usages


def draw(usages: dict[str, list[list[float]]]) -> Figure:
    """Draw memory over trainings."""
    figure = Figure(figsize=(5, 3.4), layout="constrained")
    ax = figure.add_subplot()
    for way, rows in usages.items():
        memory = np.asarray(rows)[:, 0]
        ax.plot(np.arange(1, memory.size + 1), memory, label=way)
    ax.set(xlabel="training in one process", ylabel="resident memory (MB)", ylim=(0, None))
    ax.legend(frameon=False)
    return figure


def main() -> None:
    """Measure each way in a process of its own, print, and draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--n", type=int, help="trainings of each way")
    arguments = parser.parse_args()
    if arguments.way:
        print(json.dumps(measure_memory(arguments.way, arguments.n)))
        return
    usages = {}
    for way in WAYS:
        command = [sys.executable, __file__, "--way", way]
        command += [] if arguments.n is None else ["--n", str(arguments.n)]
        usages[way] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        tenth, last = usages[way][:10][-1], usages[way][-1]
        print(
            f"{way}: {len(usages[way])} times; {tenth[0]:.0f} MB after ten, {last[0]:.0f} MB at the end, "
            f"{last[1] - tenth[1]:.0f} programs compiled between",
            flush=True,
        )
    FIGURE.parent.mkdir(exist_ok=True)
    draw(usages).savefig(FIGURE, dpi=120)


if __name__ == "__main__":
    main()
