"""Files that are written atomically, and never through a link."""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import Any

from popsim._text_checks import check_path

__all__ = ["CorruptDataError", "MismatchError", "SaveError"]


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


_CAREFULLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}
_MARKED_BYTES = 2**18
_NAME_BYTES = 255  # NAME_MAX
_UNFINISHED = re.compile(r"(?P<name>.+)\.[0-9a-f]{8}\.partial")
_OF_SYSTEM = re.compile(r"\.DS_Store|\._.*|Thumbs\.db|desktop\.ini|\.nfs[0-9a-f]+", re.IGNORECASE)


def unfinished_name(path: Path) -> Path:
    """Return a random name beside `path` for a file or folder that becomes `path` once it is finished.

    A name that is too long for an ending is shortened: the system takes one of 255 bytes.
    """
    ending = f".{uuid.uuid4().hex[:8]}.partial"
    beginning = os.fsencode(path.name)[: _NAME_BYTES - len(ending)].decode(errors="ignore")
    return path.with_name(beginning + ending)


def finished_name(name: str) -> str | None:
    """Return the final name for the name of an unfinished file; None for other names."""
    match = _UNFINISHED.fullmatch(name)
    return match["name"] if match else None


def is_of_system(name: str) -> bool:
    """Whether an operating system creates such files: macOS, Windows, or NFS for deleted open files."""
    return _OF_SYSTEM.fullmatch(name) is not None


def real_path(path: Path) -> Path:
    """Return where a path leads, as a plain path: without links, ".." and a second slash at the beginning.

    The system takes all of these, tensorstore does not. Only for what a user names: below it nothing may be
    a link.
    """
    real = os.path.realpath(path)
    return Path(f"/{real.lstrip('/')}" if real.startswith("//") else real)


def read_plain(path: Path) -> BufferedReader:
    """Open a file for reading, without blocking.

    **Raises:** `CorruptDataError` naming it if it is a link, a pipe, a device or a folder; `OSError` as
    `open` does.
    """
    return os.fdopen(_descriptor(path, os.O_RDONLY), "rb")


def append_plain(path: Path) -> BufferedWriter:
    """Open a file for appending, without blocking; it is created if missing.

    **Raises:** as `read_plain`.
    """
    return os.fdopen(_descriptor(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab")


def _descriptor(path: Path, flags: int) -> int:
    with contextlib.suppress(FileNotFoundError):
        check_plain_file(path)  # before opening, which alone has effects on some devices
    descriptor = os.open(path, flags | _CAREFULLY, 0o666)
    try:
        # Again, of what was opened: between the first check and here, another file may have taken its name.
        _check(path, os.fstat(descriptor).st_mode, stat.S_IFREG)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def check_plain_file(path: Path) -> None:
    """Check that `path` is a plain file.

    **Raises:** `CorruptDataError` naming it; `FileNotFoundError` if nothing is there.
    """
    _check(path, path.lstat().st_mode, stat.S_IFREG)


def check_is_folder(path: Path) -> None:
    """Check that `path` itself is a folder and no link to one.

    **Raises:** `CorruptDataError` naming it; `FileNotFoundError` if nothing is there.
    """
    _check(path, path.lstat().st_mode, stat.S_IFDIR)


def check_plain_folder(path: Path) -> None:
    """Check that `path` is a folder that holds only plain files and folders, at any depth.

    **Raises:** `CorruptDataError` naming what is not; `FileNotFoundError` if nothing is there.
    """
    check_is_folder(path)
    for _ in files_below(path):
        pass


def files_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of a folder, at any depth, with their relative names.

    Files that disappear meanwhile, and those of an operating system, are left out.

    **Raises:** `CorruptDataError` naming what is neither a plain file nor a folder.
    """
    waiting = [folder]
    while waiting:
        with contextlib.suppress(FileNotFoundError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                path = Path(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif entry.is_file(follow_symlinks=False):
                    if not is_of_system(entry.name):
                        yield path.relative_to(folder).as_posix(), path
                else:
                    _check(path, path.lstat().st_mode, stat.S_IFREG)


def remove_left_over(path: Path) -> bool:
    """Remove an unfinished file or folder of a killed process; return whether it was one."""
    mode = path.lstat().st_mode
    if finished_name(path.name) is None or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        return False
    if stat.S_ISDIR(mode):
        shutil.rmtree(path)
    else:
        path.unlink()
    return True


def _check(path: Path, mode: int, expected: int) -> None:
    if stat.S_IFMT(mode) != expected:
        kind = _KINDS[expected].replace("a ", "a plain ", 1)
        raise CorruptDataError(f"{path} must be {kind}, got {_KINDS.get(stat.S_IFMT(mode), 'a device')}.")


@contextlib.contextmanager
def saving(path: Path) -> Iterator[None]:
    """Raise `SaveError` for what cannot be written at `path` inside the context."""
    try:
        yield
    except SaveError:
        raise
    except OSError as error:
        raise SaveError(error.errno, f"could not be saved: {error.strerror or error}", str(path)) from error


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Write a file atomically: a reader sees all of it or nothing, also after lost power.

    The unfinished file remains only if the process is killed. On exit the file and its name are on disk.

    **Arguments:**

    - `path`: the file; its folder must exist. An existing file stays until the new one is finished.

    **Returns:** a context with the name of the unfinished file: that of `path` with eight random letters and
    ".partial" appended. Create it with mode "x", which follows no link placed there. On exit it is renamed to
    `path`, also if `path` is a link; after an error it is removed.

    **Raises:** `SaveError` naming `path` if it cannot be written.
    """
    partial = unfinished_name(path)
    with saving(path):
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
    """Flush the names in a folder to disk, as `os.fsync` flushes the bytes of a file.

    Without it, a crash of the machine may undo what was created, renamed or removed there.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except (
        PermissionError
    ):  # one may write into a folder that one may not read; its names are then not flushed
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
    """Write `parts` in order: a reader sees the old file or the new one, never a mixture.

    **Raises:** `SaveError` if it cannot be written; the old file is unchanged.
    """
    with atomic_file(path) as partial, partial.open("xb") as file:
        file.writelines(parts)


def check_replaceable(
    path: Path, is_ours: Callable[[Path], bool], *, kind: str, overwrite: bool, name: str = "path"
) -> None:
    """Check that a file may be written to `path`, and overwrites nothing but such a file of popsim.

    **Arguments:**

    - `path`: the file to be written.
    - `is_ours`: whether popsim wrote a given plain file of this kind.
    - `kind`: the kind of file, for the error message.
    - `overwrite`: whether to replace a file that popsim wrote.
    - `name`: the argument, for the error message.

    **Raises:** `ValueError` if nothing can be written to `path`, or it exists, unless popsim wrote it and
    `overwrite` is True.
    """
    check_path(name, path)
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise ValueError(
            f"`{name}` must not exist, got {path}; use --overwrite (overwrite=True) to replace it."
        )
    if not (stat.S_ISREG(path.lstat().st_mode) and is_ours(path)):
        raise ValueError(
            f"`{name}` must not hold anything but {kind} of popsim, got {path}: it is left as it is."
        )


def has_mark(path: Path, beginning: bytes, mark: bytes) -> bool:
    """Whether a plain file has this beginning, and a mark in its first or its last part of 256 KiB."""
    try:
        with read_plain(path) as file:
            first = file.read(_MARKED_BYTES)
            file.seek(max(0, file.seek(0, os.SEEK_END) - _MARKED_BYTES))
            return first.startswith(beginning) and (mark in first or mark in file.read(_MARKED_BYTES))
    except (OSError, CorruptDataError):
        return False


def is_plain_name(name: str) -> bool:
    """Whether an array may have this name, which is also that of its folder."""
    return (
        0 < len(name.encode(errors="replace")) <= 240
        and name.isprintable()
        and not any(mark in name for mark in ("/", "\\", ".."))
        and not name.startswith((".", "__", " "))
        and not name.endswith((".", " "))
        and name != "zarr.json"
    )
