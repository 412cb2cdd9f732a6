"""Promise 14: what somebody forged is refused or ignored, and nothing of it is executed.

A run that was interrupted gets names of modules in place of settings, under checksums that are right, pickles
in place of each kind of file, and pickled arrays beside its arrays. It is opened, read whole, and continued.
"""

import tempfile
from pathlib import Path

from fault_table import Table
from faults.forgeries import complaint, forge_all
from faults.fork_server import ForkServer


def main() -> None:
    """Forge, open and print."""
    table = Table("refused", "executed")
    with ForkServer() as server, tempfile.TemporaryDirectory() as name:
        sound = Path(name, "sound")
        full_run = server.run("run", path=str(Path(name, "whole")))
        server.run("run", path=str(sound), kill_at=full_run["operations"] // 2)
        forged = forge_all(sound, Path(name))
        results = server.run("open_all", paths=[str(run) for run, _ in forged.values()])
        for forgery, (run, canary) in forged.items():
            met = results.get(str(run), {"error": results.get("message", "the process ended")})
            wrong = complaint(forgery, met, canary)
            refused = "yes" if met["error"] else "ignored"
            table.row(forgery, refused, int(canary.exists()), failures=[wrong] if wrong else [])
    table.finish()


if __name__ == "__main__":
    main()
