"""The folder in which the commands keep compiled programs, so that the next command loads them.

JAX writes and loads the programs. XLA runs what it loads: one flipped bit in a program can crash the process,
or change its numbers unnoticed. So a folder holds programs for one kind of processor, and nobody else may
write to it. A command that ends notes the digests of its programs. Before the next one loads the first
program, it removes all that do not have theirs. Whatever else is wrong with the folder, programs are compiled
as without it.
"""

import atexit
import contextlib
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
from jaxlib.version import __version__ as jaxlib_version

from popsim.store.files import write_file

VARIABLE = "POPSIM_CACHE"
MOST_BYTES = 500_000_000
DIGESTS = "digests.json"
FIRST_REQUEST = "/jax/compilation_cache/compile_requests_use_cache"
OPTIONS = {
    "jax_persistent_cache_enable_xla_caches": "none",  # files that have no digest here
    "jax_persistent_cache_min_compile_time_secs": 0.0,
}
_FOLDER = re.compile(r"jaxlib-[\w.+]+-[0-9a-f]{16}")
_PROGRAM = re.compile(r".+-cache")
# In /proc/cpuinfo, for x86, ARM, IBM Z and POWER, and RISC-V.
_ABOUT_PROCESSOR = {"vendor_id", "cpu family", "model", "model name", "flags", "Features", "CPU implementer"}
_ABOUT_PROCESSOR |= {"CPU architecture", "CPU variant", "CPU part", "features", "cpu", "isa", "uarch"}


def keep_programs() -> None:
    """Have JAX keep what it compiles from now on in the user's cache folder, and load it from there.

    The variable POPSIM_CACHE names another folder, or is "off". A cache that the user has set in JAX itself
    is left as it is. Nothing is written before the first compilation.
    """
    if os.environ.get(VARIABLE) == "off" or _folder_of_jax():
        return
    try:
        home = cache_folder()
    except RuntimeError:  # a user without a home folder
        return
    for name, value in OPTIONS.items():
        jax.config.update(name, value)
    is_first = threading.Lock()

    def open_at_first_request(event: str, **_: Any) -> None:
        if event != FIRST_REQUEST or not is_first.acquire(blocking=False) or _folder_of_jax():
            return
        if (folder := open_programs(home)) is not None:
            jax.config.update("jax_compilation_cache_dir", str(folder))
            atexit.register(close_programs, folder)

    jax.monitoring.register_event_listener(open_at_first_request)


def _folder_of_jax() -> str | None:
    return jax.config.values["jax_compilation_cache_dir"]


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


def open_programs(home: Path) -> Path | None:
    """Prepare the folder with the programs for this processor in a cache folder; both are made if missing.

    **Returns:** the folder, all programs of which are as they were noted; None if it cannot be used. A
    warning says why if others may write to it, or if POPSIM_CACHE names it.
    """
    folder = home / f"jaxlib-{jaxlib_version}-{processor_digest()}"
    try:
        for each in (home, folder):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_owner(each)
        noted, intact = _read_digests(folder), {}
        for path in _programs_in(folder):
            if (digest := _digest(path)) is None or digest != noted.get(path.name):
                path.unlink(missing_ok=True)  # another command may have removed it
            else:
                intact[path.name] = digest
        _write_digests(folder, intact, noted)  # what is compiled again may have another digest
        return folder
    except ValueError as error:
        warnings.warn(f"compiled programs are not kept: {error}", stacklevel=2)
    except OSError as error:
        if os.environ.get(VARIABLE):
            warnings.warn(f"compiled programs are not kept: {error}", stacklevel=2)
    return None


def close_programs(folder: Path) -> None:
    """Note the digests of the programs that were added to a folder, and remove the oldest beyond its room."""
    with contextlib.suppress(OSError):
        remove_oldest(folder.parent)
        noted = _read_digests(folder)
        digests = {path.name: noted.get(path.name) or _digest(path) for path in _programs_in(folder)}
        _write_digests(folder, digests, noted)


def _write_digests(folder: Path, digests: Mapping[str, Any], noted: Mapping[str, Any]) -> None:
    """Write the digests of a folder's programs if they are not those that are noted there."""
    if digests != noted:
        write_file(folder / DIGESTS, (json.dumps(digests).encode(),))


def _programs_in(folder: Path) -> list[Path]:
    return [folder / name for name in os.listdir(folder) if _PROGRAM.fullmatch(name)]


def _read_digests(folder: Path) -> dict[str, Any]:
    """Return the digests of a folder's programs by file name; none if they cannot be read."""
    try:
        with (folder / DIGESTS).open("rb") as file:
            digests = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return digests if isinstance(digests, dict) else {}


def _digest(path: Path) -> str | None:
    """Return the digest of a file; None if it is not a plain one, or too large."""
    if path.is_symlink() or not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size <= MOST_BYTES:
                return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        pass
    return None


def _check_owner(folder: Path) -> None:
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


def remove_oldest(home: Path, most_bytes: int = MOST_BYTES) -> None:
    """Remove the oldest programs of a cache folder beyond its room, to three quarters of it."""
    folders = [each for each in home.iterdir() if _FOLDER.fullmatch(each.name) and not each.is_symlink()]
    paths = [path for folder in folders if folder.is_dir() for path in _programs_in(folder)]
    programs = sorted((about.st_mtime, about.st_size, path) for path in paths for about in [path.lstat()])
    n_bytes = sum(size for _, size, _ in programs)
    goal = n_bytes if n_bytes <= most_bytes else most_bytes * 3 // 4
    for _, size, path in programs:
        if n_bytes > goal:
            path.unlink(missing_ok=True)
            n_bytes -= size
