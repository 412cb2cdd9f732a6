"""Contestants that take turns: each in a process of its own, on the same core."""

import contextlib
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

BASE = "plain JAX"
CORES = sorted(os.sched_getaffinity(0))
FOLDER = Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Contestant:
    """One contestant in a work.

    **Arguments:**

    - `name`: its name in the tables.
    - `python`: the interpreter of its environment.
    - `options`: options of the work, see `contestants/worker.py`.
    - `batches`: the batches of a turn.
    - `module`: the module that runs it.
    """

    name: str
    python: str
    options: Mapping[str, object]
    batches: int = 1
    module: str = ""

    def command(self, n_turns: int) -> list[str]:
        """The command that starts it."""
        module = self.module or f"contestants.with_{self.name.lower().replace(' ', '_')}"
        turns = {**self.options, "batches": self.batches, "turns": n_turns}
        return [self.python, "-m", module, *(word for k, v in turns.items() for word in (f"--{k}", str(v)))]


@dataclasses.dataclass(frozen=True)
class Turn:
    """What a turn cost: seconds, and peak memory in MB beyond what the imports took."""

    cpu: float
    wall: float
    memory: float


class ContestantError(RuntimeError):
    """A contestant ended before its turns were over; the message is the end of what it wrote."""


class Running:
    """The process of a contestant."""

    def __init__(self, contestant: Contestant, n_turns: int, cores: Sequence[int] | None, folder: str):
        self.contestant = contestant
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, before if cores is None else cores)  # inherited, before any thread starts
        try:
            self.process = subprocess.Popen(
                contestant.command(n_turns),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(FOLDER)},
            )
        finally:
            os.sched_setaffinity(0, before)

    def turn(self) -> Turn:
        """Wait for the end of its turn."""
        line = self.process.stdout.readline()  # pyright: ignore[reportOptionalMemberAccess]
        if not line:
            wrote = self.process.communicate()[1].strip()
            raise ContestantError(
                f"{self.contestant.name} failed with {self.process.returncode}:\n{wrote[-2000:]}"
            )
        return Turn(**json.loads(line))

    def next_turn(self) -> Turn:
        """Give it a turn."""
        stdin = self.process.stdin
        assert stdin is not None
        stdin.write("\n")
        stdin.flush()
        return self.turn()


@contextlib.contextmanager
def running(contestant: Contestant, n_turns: int, cores: Sequence[int] | None) -> Iterator[Running]:
    """A process in a folder of its own, which ends with the context."""
    with tempfile.TemporaryDirectory() as folder:
        runner = Running(contestant, n_turns, cores, folder)
        try:
            yield runner
        finally:
            runner.process.kill()
            runner.process.communicate()


def take_turns(
    contestants: Sequence[Contestant], n_turns: int, *, cores: Sequence[int] | None = (CORES[0],)
) -> dict[str, list[Turn]]:
    """Let contestants train in turn, A B C A B C, after a turn in which each compiles and one to warm up.

    **Arguments:**

    - `n_turns`: the turns of each that are counted.
    - `cores`: the cores that all share; None for all.

    **Returns:** for each contestant its turns, in milliseconds a batch.

    **Raises:** `ContestantError` if one of them fails.
    """
    with contextlib.ExitStack() as ends:
        runners = [ends.enter_context(running(contestant, n_turns + 1, cores)) for contestant in contestants]
        for runner in runners:
            runner.turn()
            runner.next_turn()
        turns = {runner.contestant.name: [] for runner in runners}
        for _ in range(n_turns):
            for runner in runners:
                cost = runner.next_turn()
                scale = 1e3 / runner.contestant.batches
                turns[runner.contestant.name].append(Turn(scale * cost.cpu, scale * cost.wall, cost.memory))
    return turns


def first_call(contestant: Contestant) -> Turn:
    """The cost of a training of two batches, from building the task to the end, with all that compiles."""
    with running(contestant, 0, (CORES[0],)) as runner:
        return runner.turn()


def medians(turns: Mapping[str, Sequence[Turn]], *, by: str = "cpu") -> dict[str, dict[str, float]]:
    """For each contestant the median cost of a batch, and of the ratios to plain JAX turn by turn.

    **Arguments:**

    - `turns`: the turns of each contestant.
    - `by`: "cpu" or "wall", of which ratios are taken.
    """
    by_name = {}
    for name, turns_of_name in turns.items():
        by_name[name] = {
            "CPU ms": statistics.median(turn.cpu for turn in turns_of_name),
            "wall ms": statistics.median(turn.wall for turn in turns_of_name),
            "MB": max(turn.memory for turn in turns_of_name),
        }
        if BASE in turns:
            pairs = zip(turns_of_name, turns[BASE], strict=True)
            ratios = [getattr(sample, by) / getattr(base, by) for sample, base in pairs]
            by_name[name] |= {
                "to plain JAX": statistics.median(ratios),
                "least": min(ratios),
                "most": max(ratios),
            }
    return by_name


def this_python(name: str, options: Mapping[str, object], batches: int = 1) -> Contestant:
    """A contestant that runs in the environment of this command."""
    return Contestant(name, sys.executable, options, batches)
