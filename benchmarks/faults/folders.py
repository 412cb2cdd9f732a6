"""Promise 6: a folder that cannot be written, vanishes, holds left-overs, or that another one writes.

A run that was interrupted is continued: by a user who may not write its folder; while another process deletes
or renames it after a checkpoint; with a left-over temporary file of every kind; while this process holds its
lock. The first, second and last are refused by an error that names the folder, the last one with the number
of the process as well; left-overs change nothing. Needs root for the first.
"""

import os
from pathlib import Path
from typing import Any

from fault_table import Table
from faults.folders import LEFT_FILES, NOBODY, copies, forbid_writing, leave, open_to_all
from faults.fork_server import ForkServer

from popsim.store import lock_folder

N = 10


def refused(found: dict[str, Any], paths: list[str], kind: str, also: str = "") -> list[str]:
    """What was not refused by an error of this kind that names the folder."""
    errors = {path: found.get(path, {}).get("error", f"none: {found.get('message')}") for path in paths}
    return [
        f"{path}: {error}"
        for path, error in errors.items()
        if not (error.startswith(kind) and path in error and also in error)
    ]


def main() -> None:
    """Continue, and print."""
    table = Table("runs", "as promised")

    def row(what: str, paths: list[str], wrong: list[str]) -> None:
        table.row(what, len(paths), len(paths) - len(wrong), failures=wrong)

    with ForkServer() as server, open_to_all() as folder:
        whole = server.run("run", path=str(folder / "whole"))
        source = folder / "interrupted"
        server.run("run", path=str(source), kill_at=whole["operations"] // 2)

        paths = copies(source, folder, "read-only", N)
        for path in paths:
            forbid_writing(path)
        found = server.run("resume_all", kind="run", paths=paths, user=NOBODY)
        row("a folder that cannot be written", paths, refused(found, paths, "ValueError"))

        (folder / "elsewhere").mkdir()
        for what, command in (
            ("deleted", ["rm", "-rf"]),
            ("renamed", ["mv", "-t", str(folder / "elsewhere")]),
        ):
            paths = copies(source, folder, what, N // 2)
            found = server.run("resume_all", kind="run", paths=paths, vanish=command)
            there = [f"{path} is there again" for path in paths if Path(path).exists()]
            row(f"a folder that is {what} meanwhile", paths, refused(found, paths, "SaveError") + there)

        paths = copies(source, folder, "left-overs", len(LEFT_FILES))
        for path, name in zip(paths, LEFT_FILES, strict=True):
            leave(path, name)
        found = server.run("resume_all", kind="run", paths=paths)
        wrong = [f"{path}: {found.get(path)}" for path in paths if found.get(path) != whole["digests"]]
        row("left-over temporary files of every kind", paths, wrong)

        paths = copies(source, folder, "locked", N)
        for path in paths:
            with lock_folder(Path(path)):
                found |= server.run("resume_all", kind="run", paths=[path])
        row("another process", paths, refused(found, paths, "FolderHeldError", f"process {os.getpid()} on"))
    table.finish()


if __name__ == "__main__":
    main()
