"""Promise 3: on a full disk older checkpoints stay as they are, and the error is said.

A limit on the size of files (RLIMIT_FSIZE) stands for the full disk: from the start of a training, or once
some of its checkpoints are complete. It has to end with `SaveError`, which names what could not be written;
each complete checkpoint has to be sound; and without the limit the training is finished as if nothing had
been, by SHA-256. `popsim train` has to end with code 1 and one line.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from fault_table import Table
from faults.fork_server import ForkServer
from faults.moments import arguments_for


def training_points(folder: Path, n: int, largest: int) -> dict[str, tuple[int, int]]:
    """Limits from nothing to more than the largest file, from the start or from a later batch on."""
    rng = np.random.default_rng(0)
    limits = np.geomspace(1, 1.1 * largest, n).astype(int)
    return {
        str(folder / f"training {i}"): (int(limit), int(rng.choice([0, 2, 8])))
        for i, limit in enumerate(limits)
    }


def error_names_path(end: dict[str, Any], path: str) -> bool:
    """Whether a training ended with an error that says what could not be written."""
    return end["error"] == "SaveError" and path in end["message"] and "too large" in end["message"]


def main() -> None:
    """Fill the disk, finish, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=25)
    n = parser.parse_args().points
    table = Table("limits", "no failure", "SaveError", "equal")
    with ForkServer() as server, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        expected = server.run("train", path=str(folder / "whole"))["digests"]
        largest = max(path.stat().st_size for path in (folder / "whole").rglob("*"))
        points = training_points(folder, 4 * n // 5, largest)
        results = server.run("full_disk", points=points)
        ends = [results.get(path, {"error": results.get("message", "the process ended")}) for path in points]
        errors = [end["error"] for end in ends]
        equal = [end.get("digests") == expected for end in ends]
        wrong = [
            f"{point}: {end}"
            for point, end, right in zip(points.items(), ends, equal, strict=True)
            if not right or not (end["error"] is None or error_names_path(end, point[0]))
        ]
        table.row(
            "a training", len(ends), errors.count(None), errors.count("SaveError"), sum(equal), failures=wrong
        )
        commands(server, table, folder, n // 5)
    table.finish()


def commands(server: ForkServer, table: Table, folder: Path, n: int) -> None:
    """`popsim train`, and `popsim resume` without the limit."""
    expected = server.run("run", path=str(folder / "run"))["digests"]
    largest = max(path.stat().st_size for path in (folder / "run").rglob("*"))
    paths, failed, wrong = [], 0, []
    for i, limit in enumerate(np.geomspace(20, 1.1 * largest, n)):
        path = folder / f"command {i}"
        end = server.run("command", path=str(path), arguments=arguments_for(path), file_size=int(limit))
        lines = end["said"].strip().splitlines()
        ours = [line for line in lines if line.startswith("popsim: ")]  # libraries may log, too
        if end["status"] == 1 and len(ours) == 1 and "error: " in ours[0] and str(path) in ours[0]:
            failed += 1
        elif end["status"] or not (path / "summary.json").exists():
            wrong.append(f"{limit:.0f} bytes: code {end['status']}, {lines[-3:]}")
        paths.append(str(path))
    results = server.run("resume_all", kind="run", paths=paths)
    equal = [results.get(path) == expected for path in paths]
    wrong += [f"{path}: {results.get(path)}" for path, right in zip(paths, equal, strict=True) if not right]
    table.row("popsim train", n, n - failed, failed, sum(equal), failures=wrong)


if __name__ == "__main__":
    main()
