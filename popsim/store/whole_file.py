"""Single files, written whole or not at all, over nothing but what popsim wrote."""

import contextlib
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from popsim.store.errors import SaveError


@contextlib.contextmanager
def saving(path: Path) -> Iterator[None]:
    """Within it, what cannot be written at `path` raises `SaveError`."""
    try:
        yield
    except SaveError:
        raise
    except OSError as error:
        raise SaveError(error.errno, f"could not be saved: {error.strerror or error}", str(path)) from error


@contextlib.contextmanager
def whole_file(path: Path, *, partial: Path | None = None) -> Iterator[Path]:
    """Write a file that a reader sees whole or not at all.

    Only a process that is killed leaves the unfinished file behind.

    **Arguments:**

    - `path`: where; its folder must exist. A file that is there stays until the new one is finished.
    - `partial`: the name of the unfinished file, beside `path`. By default one that no other process
        uses: that of `path` with eight letters and ".partial" after it.

    **Returns:** a context: the name of the unfinished file, to write to. At its end that file becomes `path`
    in one step; after an error it is removed.

    **Raises:** `SaveError` naming `path` if it cannot be written.
    """
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.partial") if partial is None else partial
    with saving(path):
        try:
            yield partial
            with partial.open("rb") as written:
                os.fsync(written.fileno())
            partial.replace(path)
        finally:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)


def write_file(path: Path, parts: Iterable[bytes]) -> None:
    """Write `parts`, one after the other, to a file of a folder that one process at a time writes.

    A reader sees the old file or the new one, never half of it. The unfinished file is called `path` with
    ".partial" after it: what a killed process left is replaced.

    **Raises:** `SaveError` if it cannot be written; the old file is as it was.
    """
    with (
        whole_file(path, partial=path.with_name(path.name + ".partial")) as partial,
        partial.open("wb") as file,
    ):
        file.writelines(parts)


def check_replaceable(path: Path, is_ours: Callable[[Path], bool], *, kind: str, overwrite: bool) -> None:
    """Refuse to write over what is not to be replaced.

    **Arguments:**

    - `path`: where a new file is to be written.
    - `is_ours`: whether a file is one that popsim wrote.
    - `kind`: what popsim writes there, for the error message.
    - `overwrite`: whether a file that popsim wrote is replaced.

    **Raises:** `ValueError` if `path` exists, unless popsim wrote it and `overwrite` is True.
    """
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise ValueError(
            f"`path` must not exist, got {path}; use overwrite=True (--overwrite) to replace it."
        )
    if not is_ours(path):
        raise ValueError(
            f"`path` must not hold anything but {kind} of popsim, got {path}: it is left as it is."
        )
