"""Files that are written atomically."""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from popsim._shared.text_checks import check_path

__all__ = ["CorruptDataError", "MismatchError", "SaveError"]

FORMAT = 1
"""The number of the format of all files, which each of them holds."""
CHECKSUM = "checksum"


class CorruptDataError(ValueError):
    """A file is missing or was changed since it was written. The message names it."""


def missing_file(path: Path) -> CorruptDataError:
    """Return the error of a file that must exist, but does not."""
    return CorruptDataError(f"there must be a file {path}; it is missing.")


class MismatchError(ValueError):
    """A file was written by something other than its reader. The message names what differs."""


class SaveError(OSError):
    """Something could not be written, such as on a full disk. What was saved before is unchanged."""


def digest(value: Any) -> str:
    """Return the SHA-256 of a JSON value, independent of its layout in a file."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def seal(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON values by name with the number of their format, and a checksum of both."""
    sealed = {**content, "format": FORMAT}
    return {**sealed, CHECKSUM: digest(sealed)}


def unseal(path: Path, sealed: Any) -> dict[str, Any]:
    """Return what `seal` sealed, and the format, of the file `path`.

    **Raises:** `CorruptDataError` if it was changed since; `MismatchError` if it has another format.
    """
    content = dict(sealed) if isinstance(sealed, dict) else {}
    checksum = content.pop(CHECKSUM, None)
    try:
        is_sound = bool(content) and checksum == digest(content)
    except ValueError:  # of a number that JSON does not have
        is_sound = False
    # Another format may be sealed in another way.
    if (is_sound or checksum is None) and (version := content.get("format", FORMAT)) != FORMAT:
        raise MismatchError(f"{path} must have format {FORMAT}, got {version!r}: use another popsim.")
    if not is_sound:
        raise CorruptDataError(f"{path} must match its checksum; it is damaged, or was changed by hand.")
    return content


_MARKED_BYTES = 2**18
_UNFINISHED = re.compile(r"(?P<name>.+)\.[0-9a-f]{8}\.partial")
_OF_SYSTEM = re.compile(r"\.DS_Store|\._.*|Thumbs\.db|desktop\.ini|\.nfs[0-9a-f]+", re.IGNORECASE)


def unfinished_name(path: Path) -> Path:
    """Return a random name beside `path` for a file or folder that becomes `path` once it is finished."""
    ending = f".{uuid.uuid4().hex[:8]}.partial"
    # A name of the system has at most 255 bytes.
    beginning = os.fsencode(path.name)[: 255 - len(ending)].decode(errors="ignore")
    return path.with_name(beginning + ending)


def finished_name(name: str) -> str | None:
    """Return the final name for the name of an unfinished file; None for other names."""
    match = _UNFINISHED.fullmatch(name)
    return match["name"] if match else None


def is_of_system(name: str) -> bool:
    """Whether an operating system creates such files: macOS, Windows, or NFS for deleted open files."""
    return _OF_SYSTEM.fullmatch(name) is not None


def files_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of a folder, at any depth, with their relative names, but for those of the system."""
    for subfolder, _, names in os.walk(folder):
        for path in (Path(subfolder, name) for name in names if not is_of_system(name)):
            yield path.relative_to(folder).as_posix(), path


def remove_left_over(path: Path) -> bool:
    """Remove an unfinished file or folder of a killed process; return whether it was one."""
    if finished_name(path.name) is None or path.is_symlink():
        return False
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    return True


@contextlib.contextmanager
def raise_save_errors(path: Path) -> Iterator[None]:
    """Raise `SaveError` for what cannot be written at `path` inside the context."""
    try:
        yield
    except SaveError:
        raise
    except OSError as error:
        raise SaveError(error.errno, f"could not be saved: {error.strerror or error}", str(path)) from error


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Write a file atomically, by an unfinished one that is yielded, to be created; on exit it is on disk."""
    partial = unfinished_name(path)
    with raise_save_errors(path):
        try:
            yield partial
            # Before the rename: else, after a crash of the machine, the name may lead to a file without its
            # bytes.
            with partial.open("rb") as written:
                os.fsync(written.fileno())
            partial.replace(path)
            sync_folder(path.parent)
        finally:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk: else lost power may undo what was created or renamed there."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:  # of a folder that one may write and not read
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF, errno.ENOTSUP):  # of disks that flush no folders
            raise
    finally:
        os.close(descriptor)


def make_folder(path: Path, *, parents: bool = False) -> None:
    """Create a folder, and its parents if asked, where they are missing, with their names on disk."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=parents, exist_ok=True)
    for folder in missing:
        sync_folder(folder.parent)


def write_file(path: Path, parts: Iterable[bytes]) -> None:
    """Write `parts` in order, as `atomic_file`; raises `SaveError` if it cannot be written."""
    with atomic_file(path) as partial, partial.open("xb") as file:
        file.writelines(parts)


def check_replaceable(
    path: Path, is_ours: Callable[[Path], bool], *, kind: str, overwrite: bool, name: str = "path"
) -> None:
    """Check that a file may be written to `path`, and replaces nothing but a file of popsim, if told to.

    `is_ours` says whether popsim wrote a file of this `kind`, and `name` is the argument, for the message.
    """
    check_path(name, path)
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise ValueError(
            f"`{name}` must not exist, got {path}; use --overwrite (overwrite=True) to replace it."
        )
    if path.is_symlink() or not (path.is_file() and is_ours(path)):
        raise ValueError(
            f"`{name}` must not hold anything but {kind} of popsim, got {path}: it is left as it is."
        )


def has_mark(path: Path, beginning: bytes, mark: bytes) -> bool:
    """Whether a file has this beginning, and a mark in its first or its last part of 256 KiB."""
    try:
        with path.open("rb") as file:
            start = file.read(_MARKED_BYTES)
            file.seek(max(0, file.seek(0, os.SEEK_END) - _MARKED_BYTES))
            return start.startswith(beginning) and (mark in start or mark in file.read(_MARKED_BYTES))
    except OSError:
        return False


def is_plain_name(name: str) -> bool:
    """Whether an array may have this name, which is also that of its folder."""
    is_safe = name.isprintable() and not any(mark in name for mark in ("/", "\\", ".."))
    is_safe = is_safe and name.strip(". ") == name and not name.startswith("__")
    return is_safe and 0 < len(name.encode()) <= 240
