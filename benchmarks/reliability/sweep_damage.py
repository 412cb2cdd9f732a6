"""Promise 5: what is damaged in the folder of a sweep is never read for something else.

One bit is flipped, a file is cut short, or it is deleted, in all files of two sweeps: one with a finished
cell and one that has stopped, and one whose cells select among one another. All that each offers is then
read: the summary, the history, the losses, the last models. It has to be what was written, or NaN or an
earlier model with a warning that names the cell, or an error that names the file; and `verify_sweep` names
what is not as it was written, wherever reading notices it. Then files are exchanged for others of the same
kind, of another cell, selection or sweep. The logs, which have no checksums, are left out.
"""

import argparse
import collections
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from fault_table import Table
from faults.damage import Fault, cut_short, flip_bit
from faults.sweep_damage import SweepReader, files_of
from small_sweep import make_begun, make_trained

OUTCOMES = ("right", "named", "refused", "WRONG")


def count(table: Table, text: str, faults: Iterable[tuple[SweepReader, Path, Fault]]) -> None:
    """Do one damage after the other, read and verify, and print how often what came out."""
    counts: collections.Counter[str] = collections.Counter()
    wrong = []
    for reader, file, fault in faults:
        verdict, is_verified = reader.damaged(file, fault)
        counts[verdict.split(":")[0]] += 1
        counts["verified"] += is_verified
        if verdict.startswith("WRONG"):
            wrong.append(f"{file.relative_to(reader.path)}: {verdict}")
        elif verdict != "right" and not is_verified:
            wrong.append(f"{file.relative_to(reader.path)}: {verdict}, and it verifies")
    n_damages = sum(counts[outcome] for outcome in OUTCOMES)
    table.row(text, n_damages, *(counts[outcome] for outcome in OUTCOMES), counts["verified"], failures=wrong)


def another(file: Path, files: list[Path], rng: np.random.Generator) -> Fault | None:
    """What puts another file of the kind in the place of a file; None if there is none."""
    kind = re.sub(r"[0-9]+", "", file.name)
    same = [
        other.read_bytes()
        for other in files
        if re.sub(r"[0-9]+", "", other.name) == kind and other.read_bytes() != file.read_bytes()
    ]
    content = same[rng.integers(len(same))] if same else None
    return None if content is None else lambda good: content


def main() -> None:
    """Damage, read and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=300)
    parser.add_argument("--cuts", type=int, default=100)
    parser.add_argument("--exchanged", type=int, default=150)
    arguments = parser.parse_args()
    table = Table("damages", *OUTCOMES, "verified")
    with tempfile.TemporaryDirectory() as name:
        readers = [SweepReader(make(Path(name, make.__name__))) for make in (make_trained, make_begun)]
        places = [
            (reader, file) for reader in readers for file in files_of(reader.path) if file.name != "log.jsonl"
        ]
        for text, damage, n, seed in (
            ("a bit flipped", flip_bit, arguments.flips, 0),
            ("cut short", cut_short, arguments.cuts, 1),
        ):
            rng = np.random.default_rng(seed)
            sample = [places[rng.integers(len(places))] for _ in range(n)]
            fault = lambda good, damage=damage, rng=rng: damage(good, rng)  # noqa: E731
            count(table, text, ((*place, fault) for place in sample))
        count(table, "each file deleted", ((*place, lambda good: None) for place in places))
        others = [file for _, file in places]
        rng = np.random.default_rng(2)
        drawn = [places[rng.integers(len(places))] for _ in range(arguments.exchanged)]
        swaps = [(*place, other) for place in drawn if (other := another(place[1], others, rng))]
        count(table, "another file of its kind", swaps)
    table.finish()


if __name__ == "__main__":
    main()
