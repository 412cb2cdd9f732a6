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


def missing_refusals(results: dict[str, Any], paths: list[str], kind: str, also: str = "") -> list[str]:
    """What was not refused by an error of this kind that names the folder."""
    errors = {path: results.get(path, {}).get("error", f"none: {results.get('message')}") for path in paths}
    return [
        f"{path}: {error}"
        for path, error in errors.items()
        if not (error.startswith(kind) and path in error and also in error)
    ]


def main() -> None:
    """Continue, and print."""
    table = Table("runs", "as promised")

    def row(fate: str, paths: list[str], wrong: list[str]) -> None:
        table.row(fate, len(paths), len(paths) - len(wrong), failures=wrong)

    with ForkServer() as server, open_to_all() as folder:
        full_run = server.run("run", path=str(folder / "whole"))
        source = folder / "interrupted"
        server.run("run", path=str(source), kill_at=full_run["operations"] // 2)

        paths = copies(source, folder, "read-only", N)
        for path in paths:
            forbid_writing(path)
        results = server.run("resume_all", kind="run", paths=paths, user=NOBODY)
        row("a folder that cannot be written", paths, missing_refusals(results, paths, "ValueError"))

        (folder / "elsewhere").mkdir()
        for fate, command in (
            ("deleted", ["rm", "-rf"]),
            ("renamed", ["mv", "-t", str(folder / "elsewhere")]),
        ):
            paths = copies(source, folder, fate, N // 2)
            results = server.run("resume_all", kind="run", paths=paths, vanish=command)
            again = [f"{path} is there again" for path in paths if Path(path).exists()]
            row(
                f"a folder that is {fate} meanwhile",
                paths,
                missing_refusals(results, paths, "SaveError") + again,
            )

        paths = copies(source, folder, "left-overs", len(LEFT_FILES))
        for path, name in zip(paths, LEFT_FILES, strict=True):
            leave(path, name)
        results = server.run("resume_all", kind="run", paths=paths)
        wrong = [f"{path}: {results.get(path)}" for path in paths if results.get(path) != full_run["digests"]]
        row("left-over temporary files of every kind", paths, wrong)

        paths = copies(source, folder, "locked", N)
        for path in paths:
            with lock_folder(Path(path)):
                results |= server.run("resume_all", kind="run", paths=[path])
        row(
            "another process",
            paths,
            missing_refusals(results, paths, "FolderLockedError", f"process {os.getpid()} on"),
        )
    table.finish()


if __name__ == "__main__":
    main()
