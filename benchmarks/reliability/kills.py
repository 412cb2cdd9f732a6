"""Promise 1: a training killed at any moment and continued ends as one that never was, bit for bit.

Processes are stopped at seeded file operations and times, and the folder that a SIGKILL at this moment
would leave is copied; at the last moment of each it is a SIGKILL. What was left is continued by another
process, and what it holds at the end is compared by SHA-256: all arrays of the last checkpoint and of the
history, the batches of the log; of a run also `run.json`, `summary.json` and the figures; of a sweep all of
its cells and their results. No more may be lost than what came after the last complete checkpoint.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from fault_table import Table
from faults.fork_server import ForkServer
from faults.kills import Killed, judge, kill_often

KINDS = {
    "train": "a training",
    "run": "a run: run_experiment and resume_run",
    "sweep": "a sweep of cells that select: make_sweep and run_sweep",
}
IN_THE_BEGINNING = 150
"""A training that is continued has cut its history by this file operation."""


def kill_at_moments(
    server: ForkServer, kind: str, folder: Path, rng: np.random.Generator, full_run: dict[str, Any], n: int
) -> list[Killed]:
    """What is left of processes at `n` moments of their work, half of them after a time."""
    kills: list[Killed] = []
    while len(kills) < n:
        kills += kill_often(
            server,
            kind,
            folder / f"{kind} {len(kills)}",
            rng,
            n_operations=10,
            last_operation=full_run["operations"],
            n_times=10,
            seconds=0.7 * full_run["seconds"],
        )
    return kills[-n:]


def kill_again(
    server: ForkServer, folder: Path, rng: np.random.Generator, kills: list[Killed], n: int
) -> list[Killed]:
    """What is left of processes that continue a training, killed while they cut its history."""
    halfway = [killed.path for killed in kills if killed.saved]
    again: list[Killed] = []
    while len(again) < n:
        again += kill_often(
            server,
            "train",
            folder / f"again {len(again)}",
            rng,
            n_operations=20,
            last_operation=IN_THE_BEGINNING,
            source=halfway[rng.integers(len(halfway))],
        )
    return again[-n:]


def main() -> None:
    """Kill, continue, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=100)
    fifth = parser.parse_args().moments // 5
    rng = np.random.default_rng(0)
    table = Table("moments", "SIGKILL", "equal")

    def judged(text: str, kind: str, kills: list[Killed], full_run: dict[str, Any]) -> None:
        verdicts = judge(server, kind, kills, full_run["digests"], fresh=2)
        wrong = [verdict for verdict in verdicts if verdict != "equal"]
        n_killed = sum(Path(killed.path).name == "killed" for killed in kills)
        table.row(text, len(kills), n_killed, len(kills) - len(wrong), failures=wrong)

    with ForkServer() as server, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, n in (("train", 2 * fifth), ("run", fifth), ("sweep", fifth)):
            server.run(kind, path=str(folder / f"{kind} compiles"))
            full_run = server.run(kind, path=str(folder / f"{kind} whole"))
            kills = kill_at_moments(server, kind, folder, rng, full_run, n)
            again = kill_again(server, folder, rng, kills, fifth) if kind == "train" else []
            judged(KINDS[kind], kind, kills, full_run)
            if again:
                judged("a training that is continued", kind, again, full_run)
    table.finish()


if __name__ == "__main__":
    main()
