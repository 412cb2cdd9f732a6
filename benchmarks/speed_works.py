"""The works of `speed.py`: each measures its contestants and returns the rows of a table."""

import argparse
import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import side_by_side
from side_by_side import Contestant, ContestantError, this_python


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a table: the work, its case, who did it, and the numbers by column."""

    work: str
    case: str
    who: str
    values: Mapping[str, float]


TURN = 32
"""Batches of a turn of one member, of the work with the least to compute for each."""


def _peers(
    arguments: argparse.Namespace, options: Mapping[str, object], batches: int, slower: int
) -> list[Contestant]:
    """The peers whose interpreters are given; MotorNet, eager and much slower, in shorter turns."""
    peers = []
    if arguments.feedbax is not None:
        peers.append(Contestant("Feedbax", arguments.feedbax, options, max(1, batches // slower)))
    if arguments.motornet is not None and options.get("members", 1) == 1:
        peers.append(Contestant("MotorNet", arguments.motornet, options, max(1, batches // (16 * slower))))
    return peers


def _rows(work: str, case: str, medians: Mapping[str, Mapping[str, float]]) -> list[Row]:
    return [Row(work, case, name, values) for name, values in medians.items()]


def _case(members: int) -> str:
    return f"{members} member{'s' if members > 1 else ''}"


def point_mass(arguments: argparse.Namespace) -> list[Row]:
    """The reference work, and the share of the products' rate that a batch reaches."""
    rows = []
    for members in arguments.members or (1, 16, 64):
        work, batches = {"members": members}, max(1, TURN // members)
        contestants = [this_python("plain JAX", work, batches), this_python("popsim", work, batches)]
        turns = side_by_side.take_turns(
            [*contestants, *_peers(arguments, work, batches, 1), this_python("products", work, batches)],
            arguments.pairs,
        )
        medians = side_by_side.medians(turns)
        for values in medians.values():
            values["of products"] = medians["products"]["CPU ms"] / values["CPU ms"]
        rows += _rows("point-mass", _case(members), medians)
    return rows


def two_cores(arguments: argparse.Namespace) -> list[Row]:
    """The reference work with 16 members on two cores, by wall time."""
    rows = []
    for members in arguments.members or (16,):
        batches = max(2, TURN // members)
        base = this_python("plain JAX", {"members": members}, batches)
        ours = this_python("popsim", {"members": members, "devices": 2}, batches)
        turns = side_by_side.take_turns([base, ours], arguments.pairs, cores=side_by_side.CORES[:2])
        rows += _rows("two-cores", _case(members), side_by_side.medians(turns, by="wall"))
    return rows


def arm26(arguments: argparse.Namespace) -> list[Row]:
    """Arms with six muscles, against plain JAX's point mass."""
    rows = []
    for members in arguments.members or (1, 16):
        work, batches = {"members": members}, max(1, TURN // (4 * members))
        arm = {**work, "body": "arm26"}
        contestants = [this_python("plain JAX", work, batches), this_python("popsim", arm, batches)]
        turns = side_by_side.take_turns([*contestants, *_peers(arguments, arm, batches, 1)], arguments.pairs)
        rows += _rows("arm26", _case(members), side_by_side.medians(turns))
    return rows


def tiny(arguments: argparse.Namespace) -> list[Row]:
    """Next to no work: what a batch costs beside it."""
    rows = []
    for members in arguments.members or (1, 64):
        work = {"members": members, "trials": 1, "steps": 5, "units": 4}
        batches = 64 * TURN // min(members, 4)
        contestants = [this_python("plain JAX", work, batches), this_python("popsim", work, batches)]
        turns = side_by_side.take_turns(
            [*contestants, *_peers(arguments, work, batches, 32)], arguments.pairs
        )
        medians = side_by_side.medians(turns)
        for values in medians.values():
            values["CPU us"] = 1e3 * values.pop("CPU ms")
            values["wall us"] = 1e3 * values.pop("wall ms")
        rows += _rows("tiny", _case(members), medians)
    return rows


def first_call(arguments: argparse.Namespace) -> list[Row]:
    """A training of two batches, imports aside: mostly tracing and compiling."""
    rows = []
    for members in arguments.members or (1, 16):
        work = {"members": members}
        for contestant in [
            this_python("plain JAX", work),
            this_python("popsim", work),
            *_peers(arguments, work, 1, 1),
        ]:
            costs = [side_by_side.first_call(contestant) for _ in range(min(arguments.pairs, 3))]
            least = min(costs, key=lambda cost: cost.cpu)
            rows.append(
                Row("first-call", _case(members), contestant.name, {"CPU s": least.cpu, "MB": least.memory})
            )
    return rows


AXES = {
    "members": (1, 4, 16, 64, 256),
    "trials": (16, 64, 256, 1024),
    "steps": (50, 100, 200, 400, 800),
}
REFERENCE = {"members": 1, "trials": 64, "steps": 100}


def growth(arguments: argparse.Namespace) -> list[Row]:
    """popsim's time and memory, as members, trials or steps grow and the others stay."""
    rows = []
    for axis, sizes in AXES.items():
        for size in arguments.members or sizes if axis == "members" else sizes:
            work = {**REFERENCE, axis: size}
            times = max(1, work["members"] * work["trials"] * work["steps"] // 6400)
            contestant = this_python("popsim", work, max(1, TURN // times))
            medians = side_by_side.medians(side_by_side.take_turns([contestant], min(arguments.pairs, 3)))
            rows.append(Row("growth", f"{size} {axis}", axis, {"size": float(size), **medians["popsim"]}))
    return rows


def command(arguments: argparse.Namespace) -> list[Row]:
    """The command line: a short training, first and again, and commands that train nothing."""
    popsim = str(Path(sys.executable).with_name("popsim"))
    train = [popsim, "train", "center-out", "--n-batches", "60", "--members", "2"]
    with tempfile.TemporaryDirectory() as folder:
        cases = {
            "train, first time": [*train, "--out", f"{folder}/first"],
            "train, second time": [*train, "--out", f"{folder}/second"],
            "show": [popsim, "show", f"{folder}/first"],
            "show-task": [popsim, "show-task", "center-out"],
            "--help": [popsim, "--help"],
            "import popsim": [sys.executable, "-c", "import popsim"],
        }
        return [Row("command", case, "popsim", run_command(words, folder)) for case, words in cases.items()]


def run_command(words: Sequence[str], folder: str) -> dict[str, float]:
    """Run a command in a folder that is its home, and return its cost and how many programs it compiled."""
    home = {"HOME": folder, "XDG_CACHE_HOME": f"{folder}/cache", "MPLBACKEND": "agg", "JAX_LOG_COMPILES": "1"}
    log = Path(folder, "log")
    began = time.perf_counter()
    with log.open("w") as out:
        process = subprocess.Popen(words, stdout=out, stderr=out, cwd=folder, env={**os.environ, **home})
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    written = log.read_text()
    if process.returncode:
        raise ContestantError(f"{' '.join(words)} failed:\n{written[-2000:]}")
    return {
        "CPU s": used.ru_utime + used.ru_stime,
        "wall s": wall,
        "MB": used.ru_maxrss / 1e3,
        "programs": written.count("Finished XLA compilation"),
    }


LARGEST = 2**16


def accelerator(arguments: argparse.Namespace) -> list[Row]:
    """popsim on the device that JAX finds: each ensemble size, and larger ones until they do not fit."""
    sizes: list[int] = list(arguments.members or (1, 4, 16, 64, 256, 1024, 4096))
    rows = []
    for size in sizes:
        contestant = this_python("popsim", {"members": size}, max(2, TURN // size))
        try:
            medians = side_by_side.medians(
                side_by_side.take_turns([contestant], arguments.pairs, cores=None)
            )["popsim"]
        except ContestantError as error:
            print(f"{size} members do not fit: {str(error).splitlines()[-1]}", file=sys.stderr)
            break
        steps = size * REFERENCE["trials"] * REFERENCE["steps"]
        medians["steps a second"] = steps / (1e-3 * medians["wall ms"])
        rows.append(Row("gpu", _case(size), "popsim", {"size": float(size), **medians}))
        if size == sizes[-1] and arguments.members is None and size < LARGEST:
            sizes.append(2 * size)
    return rows


WORKS = {
    "point-mass": point_mass,
    "two-cores": two_cores,
    "arm26": arm26,
    "tiny": tiny,
    "first-call": first_call,
    "growth": growth,
    "command": command,
}
