"""The Dask cluster that trains a sweep: one of this machine, or an existing one."""

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from popsim._shared.checks import check_positive_int
from popsim._shared.text_checks import one_line
from popsim.store import read_json
from popsim.sweeps.folder import SweepFolder
from popsim.sweeps.running import CellsFailed

SECONDS_TO_CONNECT = 10
SECONDS_FOR_WORKERS = 60
NOT_IMPORTED = (
    "`on` must be something that is installed, got dask without distributed: pip install popsim[dask]"
)


@contextlib.contextmanager
def connect(scheduler: str | None, n_workers: int | None) -> Iterator[tuple[Any, int | None]]:
    """Yield a client, and the number of workers if they are of this machine."""
    try:
        import distributed
    except ImportError:
        raise ValueError(NOT_IMPORTED) from None
    with _quiet_logs():
        yield from _clients(distributed, scheduler, n_workers)


def _clients(
    distributed: Any, scheduler: str | None, n_workers: int | None
) -> Iterator[tuple[Any, int | None]]:
    """Yield what `connect` yields."""
    if scheduler is None:
        count = default_workers() if n_workers is None else n_workers
        check_positive_int("workers", count)
        with (
            distributed.LocalCluster(
                n_workers=count, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
            client.as_current(),
        ):
            yield client, count
        return
    if n_workers is not None:
        raise ValueError(f"`workers` must not be given with --scheduler, which has its own, got {n_workers}.")
    try:
        # A default client that fails to connect stays the default, and later computations fail.
        client = distributed.Client(_address(scheduler), timeout=SECONDS_TO_CONNECT, set_as_default=False)
    except Exception as error:  # of any kind, such as TypeError without the keys that tls:// needs
        cause = one_line(error) or type(error).__name__
        raise ValueError(
            f"`scheduler` must be a Dask scheduler that answers, got {scheduler}: {cause:.300}"
        ) from None
    with client, client.as_current():
        try:
            client.wait_for_workers(1, timeout=SECONDS_FOR_WORKERS)
        except Exception as error:  # also of a scheduler that is lost meanwhile
            cause = "" if isinstance(error, TimeoutError) else f" ({one_line(error):.200})"
            raise ValueError(
                f"`scheduler` must have workers, got {scheduler}, which had none for {SECONDS_FOR_WORKERS} s"
                f"{cause}."
            ) from None
        yield client, None


def _address(scheduler: str) -> str:
    """Return the address of a scheduler, from the file that it wrote where there is such a file."""
    return read_json(path)["address"] if (path := Path(scheduler)).exists() else scheduler


@contextlib.contextmanager
def _quiet_logs() -> Iterator[None]:
    """Have distributed log nothing: what is to be said of its failures is raised."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in names}
    for logger in levels:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


@contextlib.contextmanager
def naming_lost_scheduler(client: Any, folder: SweepFolder) -> Iterator[None]:
    """**Raises:** `CellsFailed` in place of what distributed raises when its scheduler is lost."""
    from distributed.comm.core import CommClosedError

    lost = (asyncio.CancelledError, concurrent.futures.CancelledError, CommClosedError)
    try:
        yield
    except (Exception, *lost) as error:
        if not isinstance(error, lost) and client.status == "running":
            raise
        raise CellsFailed(
            f"the Dask scheduler of {folder.path} was lost; its workers save what they train. "
            f"To continue with another one: {folder.command('sweep run')} --on dask"
        ) from None


def default_workers() -> int:
    """Return the number of accelerators, or else of the cores that the process may use."""
    return len(accelerators()) or len(cores())


def accelerators() -> list[str]:
    """Return the names of the accelerators that the process may use, for `CUDA_VISIBLE_DEVICES`."""
    if not (nvidia := shutil.which("nvidia-smi")):
        return []
    listed = subprocess.run([nvidia, "-L"], capture_output=True, text=True, check=False)
    n_there = sum(line.startswith("GPU ") for line in listed.stdout.splitlines())
    if (granted := os.environ.get("CUDA_VISIBLE_DEVICES")) is None:
        return list(map(str, range(n_there)))
    return [name for name in granted.split(",") if name.strip()] if n_there else []


def cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
