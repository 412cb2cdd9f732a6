"""The devices on which commands train, and the folder in which they keep compiled programs."""

import contextlib
import hashlib
import os
import platform
import sys
from pathlib import Path

import jax

from popsim._shared.checks import check_positive_int

MOST_BYTES = 500_000_000
_ABOUT_PROCESSOR = ("model name", "flags", "Features", "CPU part", "features", "cpu", "isa")  # x86, ARM, ...


def keep_programs() -> None:
    """Have JAX keep what it compiles in the user's cache folder, and load it from there.

    JAX's own settings, such as the variables JAX_COMPILATION_CACHE_DIR and JAX_ENABLE_COMPILATION_CACHE, are
    left as they are. Where the folder cannot be written, programs are compiled as without it.
    """
    values = jax.config.values
    if values["jax_compilation_cache_dir"] or not values["jax_enable_compilation_cache"]:
        return
    try:
        folder = cache_folder() / f"programs-{processor_digest()}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # the latter of a user without a home folder
        return
    if os.access(folder, os.W_OK):
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_compilation_cache_max_size", MOST_BYTES)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def cache_folder() -> Path:
    """Return popsim's folder in the user's cache folder."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "popsim" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "popsim"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "popsim"


def processor_digest() -> str:
    """Return a digest of the processor: XLA compiles for its instructions, and others may lack them."""
    facts = {platform.machine(), platform.processor()}
    if os.path.exists("/proc/cpuinfo"):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        facts |= {line for line in lines if line.partition(":")[0].strip() in _ABOUT_PROCESSOR}
    return hashlib.sha256("\n".join(sorted(facts)).encode()).hexdigest()[:16]


MOST_VIRTUAL = 256


def use_cores(at_least: int = 1) -> None:
    """Have JAX make a virtual device for each core that the process may use, each run by XLA on its own.

    It must be called before a task or a model makes arrays: JAX then keeps the devices that it has.
    """
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    most = max(n_cores, MOST_VIRTUAL)
    if at_least > most:
        raise ValueError(f"`devices` must be at most {most}, got {at_least}.")
    with contextlib.suppress(RuntimeError):  # JAX has devices already
        jax.config.update("jax_num_cpu_devices", max(n_cores, at_least))


def training_devices(count: int | None) -> list[jax.Device]:  # pyright: ignore[reportInvalidTypeForm]
    """Return the devices, all or as many as asked, over which a command divides its ensemble."""
    if count is not None:
        check_positive_int("devices", count)
    use_cores(count or 1)
    devices = jax.local_devices()
    if count is not None and count > len(devices):
        raise ValueError(f"`devices` must be at most the {len(devices)} that JAX has, got {count}.")
    return devices[:count]
