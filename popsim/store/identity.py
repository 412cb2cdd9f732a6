"""The identity of a run, and the lock of the process that writes it."""

import contextlib
import os
import re
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeGuard

from popsim._text_checks import check_path
from popsim.store.files import MismatchError, check_plain_file, read_plain
from popsim.store.json_files import read_json, write_json

__all__ = ["FolderHeldError", "lock_folder"]

RUN_ID = "run_id"
_FORM = re.compile("[0-9a-f]{32}")


def new_run_id() -> str:
    """Return a random identity for a new run: 32 hexadecimal digits."""
    return uuid.uuid4().hex


def is_run_id(found: Any) -> TypeGuard[str]:
    """Whether `found` is a valid identity of a run."""
    return isinstance(found, str) and _FORM.fullmatch(found) is not None


def check_run_id(found: Any, expected: str | None, place: Path | str) -> None:
    """Check that a part belongs to the expected run.

    **Arguments:**

    - `found`: the identity stored in the part.
    - `expected`: the identity of the run; None accepts any.
    - `place`: the part, for the error message.

    **Raises:** `MismatchError` naming the part.
    """
    if expected is not None and found != expected:
        said = f"of the run {found}" if is_run_id(found) else "without an identity"
        raise MismatchError(f"{place} must be a part of the run {expected}, got one {said}.")


class FolderHeldError(ValueError):
    """Another process holds the lock of a folder."""


LOCK = "run.lock"
HOLDER = "run.lock.json"
SECONDS_TO_LOCK = 0.1


@contextlib.contextmanager
def lock_folder(path: Path) -> Iterator[None]:
    """Hold the lock of a folder: `with lock_folder(path): ...`. Reentrant within a process.

    The operating system releases it when the process ends for any reason. `run.lock.json` names the holder.

    **Arguments:**

    - `path`: the folder; it must exist.

    **Raises:** `FolderHeldError` naming the folder if another process holds the lock; `ValueError` if it is
    missing or cannot be written; `CorruptDataError` if `run.lock` is not a plain file.
    """
    import filelock

    check_path("path", path)
    folder = Path(path).resolve()
    if not folder.is_dir():
        raise ValueError(f"`path` must be a folder, got {path}: there is none.")
    lock = filelock.FileLock(folder / LOCK, timeout=0, thread_local=False, is_singleton=True)
    outermost = not lock.is_locked
    with contextlib.suppress(FileNotFoundError):
        check_plain_file(folder / LOCK)
    try:
        lock.acquire(timeout=SECONDS_TO_LOCK, poll_interval=SECONDS_TO_LOCK / 5)  # others may just look at it
    except filelock.Timeout:
        raise FolderHeldError(f"`path` must be free, got {path}: {_holder(folder)} holds it.") from None
    except OSError as error:
        raise ValueError(f"`path` must be a folder that can be written, got {path}: {error}") from None
    try:
        if outermost:
            with contextlib.suppress(OSError):
                write_json(folder / HOLDER, {"process": os.getpid(), "host": socket.gethostname()})
        yield
    finally:
        if outermost:
            with contextlib.suppress(OSError):
                (folder / HOLDER).unlink(missing_ok=True)
        lock.release()


def lock_holder(path: Path) -> str | None:
    """Return the holder of the lock of a folder, such as "process 123 on 'host'"; None if it is free.

    Nothing is written. What a killed process left does not count.
    """
    folder = Path(path)
    if not (folder / HOLDER).exists():
        return None
    try:
        import fcntl

        lock = read_plain(folder / LOCK)
    except FileNotFoundError:
        return None
    except (ImportError, OSError):
        return _holder(folder)
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # released when the file is closed
            return None
        except OSError:
            return _holder(folder)


def _holder(folder: Path) -> str:
    """Return the holder of the lock, as far as known."""
    try:
        holder = read_json(folder / HOLDER)
        return f"process {int(holder['process'])} on {str(holder['host'])[:255]!r}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
