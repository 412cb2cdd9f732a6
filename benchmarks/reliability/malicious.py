"""Promises 14, 23 and 24: what somebody forged is refused or ignored at once, and nothing of it is executed.

A run that was interrupted gets settings that no machine can hold, under checksums that are right, pickles in
place of each kind of file, and pickled arrays beside its arrays. It is opened, read whole, and continued.
Forged arrays, names and shapes inside histories and checkpoints: `tests/store/test_strange_arrays.py`,
`tests/store/test_checkpoint_faults.py`.

A finished sweep gets indexes and notes of cells that say something else: what is shown must be as before. Its
plan, the files of a run, and configurations get values of every kind: each is refused by a `ValueError`, or
read.

Processor time and memory are what this takes until there is an answer, in a process that has opened a sound
one before.
"""

import itertools
import shutil
import tempfile
from pathlib import Path

from fault_table import Table
from faults.forged_notes import REFUSED, forgeries
from faults.forged_plans import configs, forged_runs, forged_sweeps
from faults.forgeries import complaint, forge_all
from faults.fork_server import ForkServer

REFUSALS = ("ValueError", "CorruptDataError", "MismatchError")
EVERY = {"sweep": 4, "run": 8, "config": 1}  # so many are left out that it takes minutes


def look(server: ForkServer, table: Table, folder: Path) -> None:
    """Look at forged notes, plans, runs and configurations, and print a row for each kind."""
    sweep, run, config = folder / "sweep", folder / "run", folder / "sweep.yaml"
    server.run("make_small_sweep", path=str(sweep))
    server.run("run", path=str(run))
    config.write_text((sweep / "sweep.yaml").read_text())
    plans = {"sweep": forged_sweeps(sweep), "run": forged_runs(run), "config": configs()}
    names: dict[str, dict[str, str]] = {"notes": {}}
    for number, (name, forge) in enumerate(forgeries().items()):
        path = folder / f"notes {number}"
        shutil.copytree(sweep, path)
        forge(path)
        names["notes"][str(path)] = name
    for kind, puts in plans.items():
        names[kind] = {}
        for number, (name, put) in enumerate(itertools.islice(puts, 0, None, EVERY[kind])):
            place = folder / f"{kind} {number}"
            place.mkdir()
            names[kind][str(put(place))] = name
    sound = {"notes": str(sweep), "sweep": str(sweep), "run": str(run), "config": str(config)}
    for kind, paths in names.items():
        answers = server.run("look_at_all", sound={kind: sound[kind]}, paths={kind: list(paths)})
        met = {path: answers.get(path, {"error": f"no answer: {answers.get('message')}"}) for path in paths}
        refused = [path for path, each in met.items() if each["error"] and each["error"].startswith(REFUSALS)]
        wrong = [
            f"{paths[path]}: {each}"
            for path, each in met.items()
            if (each["error"] and path not in refused)
            or (kind == "notes" and bool(each["error"]) != (paths[path] in REFUSED))
            or each.get("seconds", 0) >= 1
            or each.get("megabytes", 0) >= 200
        ]
        seconds, megabytes = (
            max(each.get(quantity, 0) for each in met.values()) for quantity in ("seconds", "megabytes")
        )
        text = f"{len(met)} forged: {kind}"
        table.row(text, len(refused), 0, f"{seconds:.2f}", f"{megabytes:.0f}", failures=wrong)


def main() -> None:
    """Forge, open and print."""
    table = Table("refused", "executed", "seconds", "MB")
    with ForkServer() as server, tempfile.TemporaryDirectory() as name:
        sound = Path(name, "sound")
        full_run = server.run("run", path=str(Path(name, "whole")))
        server.run("run", path=str(sound), kill_at=full_run["operations"] // 2)
        forged = forge_all(sound, Path(name))
        results = server.run("open_all", sound=str(sound), paths=[str(run) for run, _ in forged.values()])
        for forgery, (run, canary) in forged.items():
            met = results.get(str(run), {"error": results.get("message", "the process ended")})
            wrong = complaint(forgery, met, canary)
            numbers = f"{met.get('seconds', 0):.2f}", f"{met.get('megabytes', 0):.0f}"
            refused = "yes" if met["error"] else "ignored"
            table.row(forgery, refused, int(canary.exists()), *numbers, failures=[wrong] if wrong else [])
        look(server, table, Path(name))
    table.finish()


if __name__ == "__main__":
    main()
