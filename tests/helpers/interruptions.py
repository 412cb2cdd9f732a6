"""What a killed process leaves, a full disk, and a folder that may not be written, within this process."""

import contextlib
import os
import resource
import shutil
import sys
import tempfile
from pathlib import Path

_WRITING = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate")
_WATCHED = {"folder": None, "copies": None, "every": 1, "count": 0}


def _copy_now(event, arguments):
    folder = _WATCHED["folder"]
    if (
        folder is None
        or event not in _WRITING
        or not arguments
        or not str(arguments[0]).startswith(str(folder))
    ):
        return
    if event == "open" and str(arguments[1]).startswith("r"):
        return
    _WATCHED["count"] += 1
    if _WATCHED["count"] % _WATCHED["every"] == 0:
        _WATCHED["folder"] = None
        with contextlib.suppress(
            shutil.Error, OSError
        ):  # a file that went meanwhile: another moment is as good
            shutil.copytree(folder, _WATCHED["copies"] / f"{_WATCHED['count']:05d}", symlinks=True)
        _WATCHED["folder"] = folder


sys.addaudithook(_copy_now)


@contextlib.contextmanager
def copied_at_operations(folder, copies, every=1):
    """Copy a folder before file operations in it: what a SIGKILL at each of these times would leave.

    Yields the list of the copies, which is filled at the end.
    """
    left = []
    copies.mkdir()
    _WATCHED.update(folder=folder, copies=copies, every=every, count=0)
    try:
        yield left
    finally:
        _WATCHED.update(folder=None)
        left += sorted(copies.iterdir())


@contextlib.contextmanager
def files_of_at_most(n_bytes):
    """Let no file grow beyond a size, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def folder_of_others():
    """A temporary folder that may be read, and of which `close` takes the right to write it."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


@contextlib.contextmanager
def closed(folder):
    """Be a user who may not write a folder."""
    os.chmod(folder, 0o555)
    if os.getuid() == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(os.getuid())
        os.chmod(folder, 0o755)
