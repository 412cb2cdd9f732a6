"""The lock of a folder: one process at a time writes into it."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from popsim.store.json_files import read_json, write_json
from popsim.store.plain_files import check_plain_file, read_plain

LOCK = "run.lock"
HOLDER = "run.lock.json"


@contextlib.contextmanager
def lock_folder(path: Path) -> Iterator[None]:
    """Hold the lock of a folder: `with lock_folder(path): ...`. The same process may hold it again inside.

    The system releases it when the process ends, in whichever way. `run.lock.json` says who holds it.

    **Arguments:**

    - `path`: the folder; it must exist.

    **Raises:** `ValueError` naming the folder if another process holds it, or if it is missing or cannot be
    written; `DamagedError` if there is something else than a plain file in place of `run.lock`.
    """
    import filelock

    folder = Path(path).resolve()
    if not folder.is_dir():
        raise ValueError(f"`path` must be a folder, got {path}: there is none.")
    lock = filelock.FileLock(folder / LOCK, timeout=0, thread_local=False, is_singleton=True)
    outermost = not lock.is_locked
    with contextlib.suppress(FileNotFoundError):
        check_plain_file(folder / LOCK)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise ValueError(f"`path` must be free, got {path}: {_holder(folder)} holds it.") from None
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
    """Who holds the lock of a folder, such as "process 123 on 'host'"; None if no process does.

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
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # closing the file lets go of it
            return None
        except OSError:
            return _holder(folder)


def _holder(folder: Path) -> str:
    """Who holds the lock, as far as is known."""
    try:
        holder = read_json(folder / HOLDER)
        return f"process {int(holder['process'])} on {str(holder['host'])[:255]!r}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
