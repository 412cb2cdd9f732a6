"""The folder in which the commands keep compiled programs, so that the next command loads them.

XLA runs what it loads: one flipped bit in a program can crash the process, or change its numbers unnoticed.
So each program is sealed with its digest, belongs to one kind of processor, and is loaded only from a folder
that nobody else may write to. Whatever else is wrong with the folder, programs are compiled as without it.
"""

import contextlib
import hashlib
import os
import platform
import re
import stat
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import jax
from jax._src import compilation_cache
from jax._src.compilation_cache_interface import CacheInterface
from jaxlib.version import __version__ as jaxlib_version

from popsim.store.files import CorruptDataError, finished_name, read_plain, write_file

VARIABLE = "POPSIM_CACHE"
MOST_BYTES = 500_000_000
MARK = b"popsim program 1\n"
DAY = 86_400  # seconds
_FOLDER = re.compile(r"jaxlib-[\w.+]+-[0-9a-f]{16}")
_PROGRAM = re.compile(r"[0-9a-f]{64}\.program")
# In /proc/cpuinfo, for x86, ARM, IBM Z and POWER, and RISC-V.
_ABOUT_PROCESSOR = {"vendor_id", "cpu family", "model", "model name", "flags", "Features", "CPU implementer"}
_ABOUT_PROCESSOR |= {"CPU architecture", "CPU variant", "CPU part", "features", "cpu", "isa", "uarch"}


def keep_programs() -> None:
    """Have JAX keep what it compiles from now on in the user's cache folder, and load it from there.

    The variable POPSIM_CACHE names another folder, or is "off". A cache that the user has set in JAX itself
    is left as it is. Nothing is written before the first compilation.
    """
    if os.environ.get(VARIABLE) == "off" or jax.config.values["jax_compilation_cache_dir"]:
        return
    if not hasattr(compilation_cache, "get_file_cache"):  # a later JAX, whose own cache is not sealed
        return
    with contextlib.suppress(RuntimeError):  # a user without a home folder
        folder = cache_folder()
        compilation_cache.get_file_cache = open_programs
        jax.config.update("jax_persistent_cache_enable_xla_caches", "none")  # XLA would not seal its own
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_compilation_cache_dir", str(folder))


def cache_folder() -> Path:
    """Return the folder with the programs for all processors, which may not exist yet.

    **Raises:** `RuntimeError` if the user has no home folder.
    """
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser().absolute()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "popsim" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "popsim"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "popsim"


def open_programs(path: str) -> tuple[CacheInterface, str] | None:
    """Open the programs for this processor in a cache folder, which is made if missing.

    It takes the place of the function by which JAX opens its cache.

    **Returns:** the programs and their folder; None if the folder cannot be used. A warning says why if
    others may write to it, or if POPSIM_CACHE names it.
    """
    home = Path(path)
    folder = home / f"jaxlib-{jaxlib_version}-{processor_digest()}"
    try:
        for each in (home, folder):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_own(each)
        return SealedPrograms(folder), str(folder)
    except ValueError as error:
        warnings.warn(f"compiled programs are not kept: {error}", stacklevel=2)
    except OSError as error:
        if os.environ.get(VARIABLE):
            warnings.warn(f"compiled programs are not kept: {error}", stacklevel=2)
    return None


def _check_own(folder: Path) -> None:
    about = folder.stat()
    if hasattr(os, "getuid") and (about.st_uid != os.getuid() or about.st_mode & 0o022):
        raise ValueError(f"{folder} must belong to you, and nobody else may write to it.")


def processor_digest() -> str:
    """Return a digest of the processor: XLA compiles for its instructions, and others may lack them."""
    facts = [sys.platform, platform.machine()]
    if sys.platform == "linux":
        with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
            facts += _first_processor(file)
    elif sys.platform == "darwin":
        command = ["/usr/sbin/sysctl", "machdep.cpu", "hw.optional"]
        with contextlib.suppress(OSError):
            facts.append(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    else:
        facts.append(platform.processor())
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _first_processor(lines: Iterable[str]) -> Iterator[str]:
    """Yield what /proc/cpuinfo says of the kind of the first processor, without its frequency."""
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon and len(line.strip()) == 0:
            return
        if name.strip() in _ABOUT_PROCESSOR:
            yield value.strip()


class SealedPrograms(CacheInterface):
    """Compiled programs in a folder, the least recently used of which are removed.

    A program is a file named by the digest of its key. It begins with a mark and a digest of key and content;
    a file that these do not fit counts as missing, and is replaced.
    """

    def __init__(self, folder: Path):
        self._path = folder
        self._room = remove_oldest(folder.parent)
        self._can_write = True

    def get(self, key: str) -> bytes | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the program of this key, as it was put; None if it is missing or damaged."""
        path = self._file(key)
        try:
            with read_plain(path) as file:
                if os.fstat(file.fileno()).st_size > MOST_BYTES:
                    return None
                sealed = file.read()
            start = len(MARK) + hashlib.sha256().digest_size
            content = sealed[start:]
            if sealed[:start] != _seal(key, content):
                return None
            with contextlib.suppress(OSError):
                os.utime(path)
        except (OSError, CorruptDataError):
            return None
        return content

    def put(self, key: str, value: bytes) -> None:
        """Write a program, atomically; the first one that cannot be written is the last that is tried."""
        if not self._can_write or len(value) > MOST_BYTES // 8:
            return
        path = self._file(key)
        try:
            write_file(path, (_seal(key, value), value))
            self._room -= path.stat().st_size
            if self._room < 0:
                self._room = remove_oldest(self._path.parent)
        except OSError:
            self._can_write = False

    def _file(self, key: str) -> Path:
        return self._path / f"{hashlib.sha256(key.encode()).hexdigest()}.program"


def _seal(key: str, content: bytes) -> bytes:
    digest = hashlib.sha256(hashlib.sha256(key.encode()).digest())
    digest.update(content)
    return MARK + digest.digest()


def remove_oldest(home: Path, most_bytes: int = MOST_BYTES) -> int:
    """Remove the least recently used programs of a cache folder if they are too large together.

    A quarter of the room is then free. Also removes what killed processes left unfinished a day ago.

    **Returns:** the bytes that may be added.
    """
    programs = sorted(_programs(home))
    n_bytes = sum(size for _, size, _ in programs)
    goal = n_bytes if n_bytes <= most_bytes else most_bytes * 3 // 4
    for _, size, path in programs:
        if n_bytes <= goal:
            break
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
            n_bytes -= size
            path.parent.rmdir()  # if it was the last one there
    return most_bytes - n_bytes


def _programs(home: Path) -> Iterator[tuple[float, int, Path]]:
    """Yield when each program was last used, its size and its path; remove what was left unfinished."""
    for folder in os.scandir(home):
        if not _FOLDER.fullmatch(folder.name) or not folder.is_dir(follow_symlinks=False):
            continue
        for entry in os.scandir(folder):
            with contextlib.suppress(OSError):
                about = entry.stat(follow_symlinks=False)
                if not stat.S_ISREG(about.st_mode):
                    continue
                if _PROGRAM.fullmatch(entry.name):
                    yield about.st_mtime, about.st_size, Path(entry.path)
                elif (
                    _PROGRAM.fullmatch(finished_name(entry.name) or "") and about.st_mtime < time.time() - DAY
                ):
                    os.unlink(entry.path)
