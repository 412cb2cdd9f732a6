"""The identity of a run, and the lock of the process that writes it."""

import contextlib
import errno
import os
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from popsim.store.files import MismatchError
from popsim.store.json_files import read_json, write_json

__all__ = ["FolderLockedError", "lock_folder"]

RUN_ID = "run_id"


def new_run_id() -> str:
    """Return a random identity for a new run: 32 hexadecimal digits."""
    return uuid.uuid4().hex


def check_run_id(stored_id: Any, expected: str | None, place: Path | str) -> None:
    """Check that a part belongs to the expected run, None for any; raises `MismatchError` naming `place`."""
    if expected is not None and stored_id != expected:
        origin = f"of the run {stored_id}" if isinstance(stored_id, str) else "without an identity"
        raise MismatchError(f"{place} must be a part of the run {expected}, got one {origin}.")


class FolderLockedError(ValueError):
    """Another process, or another thread of this one, holds the lock of a folder."""


LOCK = "run.lock"
HOLDER = "run.lock.json"
SECONDS_TO_LOCK = 0.1


# What flock answers where a disk has no locks: FUSE, NFS without lockd, Lustre without its option.
_NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}
_HOW_TO_LOCK = (
    "use --without-lock (without_lock=True) if no other process writes there, another disk, or a mount with "
    "locks (Lustre: -o flock; NFS: lockd, or -o local_lock=flock for a single machine)."
)


@contextlib.contextmanager
def lock_folder(path: Path, *, without_lock: bool = False) -> Iterator[None]:
    """Hold the lock of a folder, whose holder `run.lock.json` names.

    The thread may take it again within the context. The system releases it when the process ends.
    `without_lock` continues on a disk that has no locks.

    **Raises:** `FolderLockedError` naming the folder if another process or thread holds the lock;
    `ValueError` if it is missing, cannot be written, or is on a disk without locks.
    """
    import filelock

    folder = Path(path).resolve()
    if not folder.is_dir():
        raise ValueError(f"`path` must be a folder, got {path}: there is none.")
    lock = filelock.FileLock(folder / LOCK, is_singleton=True, fallback_to_soft=False)
    # Reentrant: an inner `with` of the same thread must not remove the note of the holder on leaving.
    is_first = not lock.is_locked
    # On a disk without locks, opening leaves an empty file, which is removed if this call made it.
    is_new = not os.path.lexists(folder / LOCK)
    try:
        lock.acquire(timeout=SECONDS_TO_LOCK, poll_interval=SECONDS_TO_LOCK / 5)  # others may just look at it
    except filelock.Timeout:
        holder = _holder(folder)
        if holder == f"process {os.getpid()} on {socket.gethostname()!r}":
            holder = "another thread of this process"
        raise FolderLockedError(f"`path` must be free, got {path}: {holder} holds it.") from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise ValueError(f"`path` must be a folder that can be written, got {path}: {error}") from None
        if is_new:
            with contextlib.suppress(OSError):
                (folder / LOCK).unlink()
        if not without_lock:
            raise ValueError(
                f"`path` must be on a disk that can lock files, got {path} ({error.strerror}): {_HOW_TO_LOCK}"
            ) from None
    is_holder = is_first and lock.is_locked
    try:
        if is_holder:
            with contextlib.suppress(OSError):
                write_json(folder / HOLDER, {"process": os.getpid(), "host": socket.gethostname()})
        yield
    finally:
        if is_holder:
            with contextlib.suppress(OSError):
                (folder / HOLDER).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # a network disk lost it; all is written by now
            lock.release()


def lock_holder(path: Path) -> str | None:
    """Return the holder of the lock of a folder, such as "process 123 on 'host'"; None if it is free.

    Nothing is written. What a killed process left does not count; a disk without locks knows no holder.
    """
    folder = Path(path)
    if not (folder / HOLDER).exists():
        return None
    try:
        import fcntl

        lock = (folder / LOCK).open("rb")
    except FileNotFoundError:
        return None
    except (ImportError, OSError):
        return _holder(folder)
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # released when the file is closed
            return None
        except OSError as error:
            return None if error.errno in _NO_LOCKS else _holder(folder)


def _holder(folder: Path) -> str:
    try:
        holder = read_json(folder / HOLDER)
        return f"process {int(holder['process'])} on {str(holder['host'])[:255]!r}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
