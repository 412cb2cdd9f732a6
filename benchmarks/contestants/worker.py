"""What all contestants share: the options of a work, and a clock that waits between turns.

A contestant is a process that trains the same number of batches at each turn. The command starts it, gives
turns by a line on its standard input, and reads a line of JSON for each. Only the standard library is used:
contestants run in environments of their own.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable


def options() -> argparse.Namespace:
    """The work, from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--body", choices=("point-mass", "arm26"), default="point-mass")
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--trials", type=int, default=64, help="in a batch")
    parser.add_argument("--steps", type=int, default=100, help="in a trial")
    parser.add_argument("--units", type=int, default=50)
    parser.add_argument("--batches", type=int, default=1, help="in a turn")
    parser.add_argument(
        "--turns", type=int, default=0, help="0: one training of two batches, all of it timed"
    )
    parser.add_argument("--devices", type=int, default=1)
    return parser.parse_args()


class Clock:
    """Measures each turn: CPU and wall seconds, and peak memory in MB beyond what the imports took.

    **Arguments:**

    - `peak`: the peak memory in MB; by default, of this process in the machine's memory.
    """

    def __init__(self, peak: Callable[[], float] | None = None):
        self.peak = _peak_of_process if peak is None else peak
        self.imports = self.peak()
        self.reports = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)  # what a library prints
        self._begin()

    def _begin(self) -> None:
        self.cpu, self.wall = time.process_time(), time.perf_counter()

    def turn_ends(self) -> None:
        """Report the turn, and wait for the next one; the process ends if there is none."""
        cpu, wall = time.process_time() - self.cpu, time.perf_counter() - self.wall
        json.dump({"cpu": cpu, "wall": wall, "memory": self.peak() - self.imports}, self.reports)
        print(file=self.reports, flush=True)
        if not sys.stdin.readline():
            os._exit(0)  # from the depth of a library's training
        self._begin()

    def take_turns(self, train: Callable[[int], None], work: argparse.Namespace) -> None:
        """Take all turns with a function that trains for a number of batches."""
        train(2 if work.turns == 0 else 1)
        self.turn_ends()
        while True:
            train(work.batches)
            self.turn_ends()

    def callbacks(self, work: argparse.Namespace) -> dict[int, list[Callable[[], None]]]:
        """The ends of the turns as callbacks of one long training, by the number of the batch."""
        return {turn * work.batches: [self.turn_ends] for turn in range(work.turns + 1 if work.turns else 0)}


def n_batches(work: argparse.Namespace) -> int:
    """The batches of a training that all turns are parts of; one more, so that its end is in no turn."""
    return work.turns * work.batches + 2


def _peak_of_process() -> float:
    with open("/proc/self/status") as status:
        lines = dict(line.split(":", 1) for line in status)
    return int(lines["VmHWM"].split()[0]) / 1e3
