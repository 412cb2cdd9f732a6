"""Promise 14: what somebody forged in the folder of a run is refused at once, and nothing of it is executed.

A run that was interrupted gets settings that no machine can hold, under checksums that are right, pickles in
place of each kind of file, and pickled arrays beside its arrays. It is opened, read whole, and continued.
Processor time and memory are what this takes until it is refused, in a process that has opened a sound run
before. Forged arrays, names and shapes inside histories and checkpoints: `tests/test_strange_arrays.py`,
`tests/test_checkpoint_faults.py`.
"""

import tempfile
from pathlib import Path

from fault_table import Table
from faults.forgeries import complaint, forge_all
from faults.fork_server import ForkServer


def main() -> None:
    """Forge, open and print."""
    table = Table("refused", "executed", "seconds", "MB")
    with ForkServer() as server, tempfile.TemporaryDirectory() as name:
        sound = Path(name, "sound")
        whole = server.run("run", path=str(Path(name, "whole")))
        server.run("run", path=str(sound), kill_at=whole["operations"] // 2)
        forged = forge_all(sound, Path(name))
        found = server.run("open_all", sound=str(sound), paths=[str(run) for run, _ in forged.values()])
        for what, (run, canary) in forged.items():
            met = found.get(str(run), {"error": found.get("message", "the process ended")})
            wrong = complaint(what, met, canary)
            numbers = f"{met.get('seconds', 0):.2f}", f"{met.get('megabytes', 0):.0f}"
            refused = "yes" if met["error"] else "ignored"
            table.row(what, refused, int(canary.exists()), *numbers, failures=[wrong] if wrong else [])
    table.finish()


if __name__ == "__main__":
    main()
