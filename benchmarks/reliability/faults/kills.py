"""SIGKILL at seeded moments of a training or a run, and what becomes of it when it is continued.

A process is stopped at each moment but the last and its folder copied: just what a SIGKILL would leave
there, as the system keeps what was written and forgets what was not. At the last moment it is killed.
"""

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from faults.fork_server import ForkServer


@dataclasses.dataclass
class Killed:
    """What a process left at one moment: a folder, and which save was complete by then."""

    path: str
    saved: int


def kill_often(
    server: ForkServer,
    kind: str,
    folder: Path,
    rng: np.random.Generator,
    *,
    n_operations: int,
    last_operation: int,
    n_times: int = 0,
    seconds: float = 0.0,
    source: str | None = None,
) -> list[Killed]:
    """Stop a process at moments all over its work, and kill it at the last of them.

    **Arguments:**

    - `kind`: "train", "run" or "sweep".
    - `folder`: for the folders that are left.
    - `n_operations`, `last_operation`: at how many file operations, and up to which one.
    - `n_times`, `seconds`: after how many times, and within how many seconds after the training began.
    - `source`: a folder that an earlier process left, to be continued; None to begin.
    """
    path = folder / "killed"
    folder.mkdir()
    if source is not None:
        shutil.copytree(source, path)
    operations = np.sort(rng.choice(np.arange(1, last_operation), n_operations, replace=False)).tolist()
    answer = server.run(
        kind,
        path=str(path),
        stop_at=operations[:-1],
        stop_after=np.sort(rng.uniform(0, seconds, n_times)).tolist(),
        kill_at=operations[-1],
        copies=str(folder),
    )
    if answer["status"] != -9 and "digests" not in answer:
        raise RuntimeError(f"the process failed by itself: {answer}")
    left = [Killed(stop["path"], stop.get("saved", 0)) for stop in answer["stops"]]
    return [*left, Killed(str(path), answer.get("saved", 0))]


def judge(
    server: ForkServer, kind: str, left: list[Killed], whole: dict[str, Any], *, fresh: int = 0
) -> list[str]:
    """Finish all that was left, and compare it with what was never interrupted.

    **Arguments:**

    - `whole`: the digests of that.
    - `fresh`: how many are finished in a process of their own; the others in one after the other.

    **Returns:** for each "equal", or what is wrong.
    """
    digests: dict[str, Any] = {}
    for killed in left[:fresh]:
        digests[killed.path] = server.run(kind, path=killed.path).get("digests", {"error": "failed"})
    rest = [killed.path for killed in left[fresh:]]
    newest = {killed.path: _newest(killed.path) for killed in left}
    if rest:
        digests |= server.run("resume_all", kind=kind, paths=rest)
    verdicts = []
    for killed in left:
        found = digests.get(killed.path, {"error": "the process ended"})
        if found != whole:
            wrong = found.get("error") or ", ".join(_differences(found, whole))
            verdicts.append(f"{killed.path}: {wrong}")
        elif newest[killed.path] < killed.saved:
            verdicts.append(f"{killed.path}: lost the save {killed.saved}")
        else:
            verdicts.append("equal")
    return verdicts


def _differences(found: Any, whole: Any, name: str = "") -> Iterator[str]:
    """The names of what differs between two digests, down to entries of files, with the first's values."""
    if isinstance(found, dict) and isinstance(whole, dict):
        for key in sorted(found.keys() | whole.keys()):
            yield from _differences(found.get(key), whole.get(key), f"{name}/{key}" if name else key)
    elif found != whole:
        yield f"{name} ({found!r:.200})"


def _newest(path: str) -> int:
    """The newest complete checkpoint that a killed process left."""
    return max((int(entry.stem) for entry in Path(path).rglob("checkpoints/*.safetensors")), default=0)
