"""Promise 5: what is damaged in the folder of a run is never read for something else.

One bit is flipped, a file is cut short, or it is deleted, in all files of a finished run. All that the run
offers is then read: the experiment, the ensemble, the whole history, the summary. It has to be what was
written, that of an earlier checkpoint with a warning, or an error that names the file. The log has no
checksum, and nothing but its own lines is read from it; it is damaged like the others.

Then the same with a run that was interrupted, which is continued: at its end it is what it would have been,
or it is refused by name.
"""

import argparse
import collections
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from fault_table import Table
from faults.damage import Fault, Reader, cut_short, damaged, files_below, flip_bit
from faults.fork_server import ForkServer

OUTCOMES = ("right", "fell back", "refused", "WRONG")


def faults_in(files: list[Path], make: Callable, n: int, seed: int) -> Iterable[tuple[Path, Fault]]:
    """Files that are drawn evenly, so that small ones are hit as often as large ones, and what is done."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        yield files[rng.integers(len(files))], lambda good: make(good, rng)


def count(table: Table, name: str, faults: Iterable[tuple[Path, Fault]], reader: Reader) -> None:
    """Do one damage after the other, read, and print how often what came out."""
    verdicts = [damaged(path, fault, reader.read) for path, fault in faults]
    _print(table, name, verdicts)


def _print(table: Table, name: str, verdicts: list[str]) -> None:
    counts = collections.Counter(verdict.split(":")[0] for verdict in verdicts)
    wrong = [verdict for verdict in verdicts if verdict.startswith("WRONG")]
    table.row(name, len(verdicts), *(counts[outcome] for outcome in OUTCOMES), failures=wrong)


def continue_copies(server: ForkServer, folder: Path, source: Path, expected: dict, n: int) -> list[str]:
    """Continue copies of an interrupted run, each with one bit flipped."""
    damages = {}
    full = [path for path in files_below(source) if path.stat().st_size]
    for i, (path, fault) in enumerate(faults_in(full, flip_bit, n, seed=2)):
        copy = folder / f"continued {i}"
        shutil.copytree(source, copy)
        target = copy / path.relative_to(source)
        target.write_bytes(fault(target.read_bytes()) or b"")
        damages[str(copy)] = target
    results = server.run("resume_all", kind="run", paths=list(damages))
    verdicts = []
    for copy, target in damages.items():
        result = results.get(copy, {"error": "the process ended"})
        error = result.get("error", "")
        named = error.startswith(("CorruptDataError", "MismatchError", "ValueError")) and target.name in error
        wrong = f"WRONG: {target}: {error or 'other numbers'}"
        is_right = {**result, "log": None} == {**expected, "log": None}
        verdicts.append("right" if is_right else "refused" if named else wrong)
    return verdicts


def main() -> None:
    """Damage, read and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--cuts", type=int, default=50)
    parser.add_argument("--continued", type=int, default=20)
    arguments = parser.parse_args()
    table = Table("damages", *OUTCOMES)
    with ForkServer() as server, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        full_run = server.run("run", path=str(folder / "whole"))
        half = full_run["operations"] // 2
        server.run("run", path=str(folder / "interrupted"), kill_at=half)
        reader = Reader(folder / "whole")
        files = files_below(reader.path)
        full = [path for path in files if path.stat().st_size]
        count(table, "a bit flipped", faults_in(full, flip_bit, arguments.flips, 0), reader)
        count(table, "cut short", faults_in(full, cut_short, arguments.cuts, 1), reader)
        count(table, "each file deleted", [(path, lambda good: None) for path in files], reader)
        verdicts = continue_copies(
            server, folder, folder / "interrupted", full_run["digests"], arguments.continued
        )
        _print(table, "a bit flipped, and the run continued", verdicts)
    table.finish()


if __name__ == "__main__":
    main()
