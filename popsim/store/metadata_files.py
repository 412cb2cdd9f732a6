"""Small JSON files that a stranger may have written: read with limits, written whole or not at all."""

import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from popsim.store.errors import DamagedError, SaveError

LARGEST_BYTES = 2**23


def read_metadata(path: Path) -> Any:
    """What a metadata file holds.

    **Raises:** `DamagedError` naming the file if it is missing, a link, larger than some MB, or no JSON.
    """
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise DamagedError(f"{path} must be a plain file.")
        if found.st_size > LARGEST_BYTES:
            raise DamagedError(f"{path} must have at most {LARGEST_BYTES} bytes, got {found.st_size}.")
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise DamagedError(f"there must be a file {path}; it is missing.") from None
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{path} must hold JSON; it is damaged: {error}") from None


@contextmanager
def saving(path: Path) -> Iterator[None]:
    """Within it, what cannot be written at `path` raises `SaveError`."""
    try:
        yield
    except SaveError:
        raise
    except OSError as error:
        raise SaveError(error.errno, f"could not be saved: {error.strerror}", str(path)) from error


def write_file(path: Path, parts: Iterable[bytes]) -> None:
    """Write `parts`, one after the other, to `path` and to the disk.

    A reader sees the old file or the new one, never half of it.

    **Raises:** `SaveError` if it cannot be written; the old file is as it was.
    """
    partial = path.with_name(path.name + ".partial")
    with saving(path):
        try:
            with partial.open("wb") as file:
                file.writelines(parts)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise


def write_metadata(path: Path, value: Any) -> None:
    """Write `value` as JSON, as `write_file` does.

    **Raises:** `ValueError` if a number in `value` is not finite; `SaveError` if it cannot be written.
    """
    write_file(path, [json.dumps(value, indent=2, allow_nan=False).encode()])
