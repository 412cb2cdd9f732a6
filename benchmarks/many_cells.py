"""Open a sweep of many cells, and use it.

    python benchmarks/many_cells.py --cells 10000

One tiny cell is trained; the folders of the others are copies of its own, each with a description and seeds
of its own, so that the files and the manifests are real. The sweep is opened in a process of its own; times
in seconds, memory as the largest resident set.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from popsim.experiments import CenterOut
from popsim.experiments.registry import describe_experiment
from popsim.store import read_sealed_json, write_sealed_json
from popsim.sweeps import Sweep, make_sweep, open_sweep, run_cell

MEMBERS = 4


def make_cells(path: Path, n_cells: int) -> None:
    """Make a sweep of `n_cells` finished cells."""
    sizes = {"n_units": 4, "duration": 0.2, "batch_size": 2, "n_batches": 20, "log_step": 10}
    seeds, axes = range(n_cells * MEMBERS // 2), {"learning_rate": (1e-3, 1e-2)}
    sweep = Sweep(CenterOut(plant="point-mass", **sizes), axes, seeds, members_per_cell=MEMBERS)
    opened = make_sweep(sweep, path)
    run_cell(path, 0)
    first = opened.folder.cell(0)
    (first.path / "run.lock").unlink(missing_ok=True)
    described = read_sealed_json(first.description)
    for number in range(1, n_cells):
        cell = opened.folder.cell(number)
        shutil.copytree(first.path, cell.path)
        description = describe_experiment(sweep.cell(number).experiment)
        part_of = {"sweep": opened.content["sweep_id"], "cell": number}
        write_sealed_json(cell.description, {**described, **description, "part_of": part_of})


def measure(path: str) -> None:
    """Open the sweep and use it; print times and memory as JSON."""
    began = time.perf_counter()
    opened = open_sweep(path)
    figures = {"open": time.perf_counter() - began, "finished": opened.counts["finished"]}
    some = range(0, opened.n_members, opened.n_members // 10)
    for name, use in (
        ("summary", opened.summary),
        ("losses of all members", lambda: opened.load("loss").loss.values),
        ("losses of 10 members", lambda: opened.load("loss").loss.isel(member=some).values),
    ):
        began = time.perf_counter()
        use()
        figures[name] = time.perf_counter() - began
    status = Path("/proc/self/status").read_text()  # `getrusage` also counts the process that started it
    figures["MB"] = int(status.partition("VmHWM:")[2].split()[0]) / 1000
    print(json.dumps(figures))


def main() -> None:
    """Make the cells, and open them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--folder", help="where to make them; by default a temporary folder")
    parser.add_argument("--open", metavar="PATH", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.open:
        measure(arguments.open)
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "sweep"
        began = time.perf_counter()
        make_cells(path, arguments.cells)
        print(f"{arguments.cells} cells made in {time.perf_counter() - began:.0f} s", flush=True)

        print(f"{sum(1 for file in path.rglob('*') if file.is_file())} files", flush=True)
        command = [sys.executable, __file__, "--open", str(path)]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        print(", ".join(f"{name} {value:.3g}" for name, value in json.loads(ran.stdout).items()))


if __name__ == "__main__":
    main()
