"""The processes of cells on the workers of Dask: it places them, and repeats what a lost worker had begun."""

import asyncio
import concurrent.futures
import contextlib
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from popsim._shared.checks import warn_caller
from popsim._shared.text_checks import one_line
from popsim.experiments import RunStopped
from popsim.store import read_json
from popsim.sweeps.executors import CellOutcome, CellProcess, CellsFailed, Outcomes, Work, train_in_processes
from popsim.sweeps.folder import SweepFolder
from popsim.version import __version__

SECONDS_TO_CONNECT = 10


def train_on_dask(work: Work, process: CellProcess, scheduler: Any) -> Outcomes:
    """Train cells on the workers of a scheduler, all of which see the folder."""
    try:
        import distributed
    except ImportError:
        raise ValueError(
            "`scheduler` must be given where distributed is installed: pip install popsim[dask]"
        ) from None

    folder = work.opened.folder
    with _quiet_logs(), _client(distributed, scheduler) as client, _lost_scheduler(client, folder):
        _wait_for_workers(client, work)
        work.tell(f"Dask: {client.dashboard_link}")
        for worker, problem in client.run(_problem, folder, __version__, on_error="return").items():
            if problem:
                raise ValueError(
                    f"`scheduler` must have workers with popsim {__version__} that see {folder.path}, got "
                    f"{worker}: {problem}"
                )
        stopping, pool = distributed.Event(client=client), client.get_executor(pure=False)

        def submit(number: int) -> concurrent.futures.Future[CellOutcome]:
            return pool.submit(process.train, number, stopping)

        def stop_cells() -> None:
            if client.status == "running":
                stopping.set()

        yield from train_in_processes(work, submit, stop_cells, lambda: bool(client.nthreads()))


@contextlib.contextmanager
def _client(distributed: Any, scheduler: Any) -> Iterator[Any]:
    """Yield the client that a user has made, or one of an address, which is closed in the end."""
    if isinstance(scheduler, distributed.Client):
        with scheduler.as_current():
            yield scheduler
        return
    try:
        address = str(scheduler)
        if (path := Path(address)).exists():  # the file that a scheduler wrote
            address = read_json(path)["address"]
        # A default client that fails to connect stays the default, and later computations fail.
        client = distributed.Client(address, timeout=SECONDS_TO_CONNECT, set_as_default=False)
    except Exception as error:  # of any kind, such as TypeError without the keys that tls:// needs
        cause = one_line(error) or type(error).__name__
        raise ValueError(
            f"`scheduler` must be a Dask scheduler that answers, got {scheduler}: {cause:.300}"
        ) from None
    with client, client.as_current():
        yield client


def _wait_for_workers(client: Any, work: Work) -> None:
    """Wait until there is a worker, and say so; raises `RunStopped` if it is to stop meanwhile."""
    if not client.nthreads():
        warn_caller(f"waiting for workers: the Dask scheduler {client.scheduler.address} has none yet.")
    while not client.nthreads():
        if work.stop():
            raise RunStopped(work.opened.folder.path, 0)
        time.sleep(1)


def _problem(folder: SweepFolder, version: str) -> str:
    """Return why this worker cannot train the cells of a sweep, or nothing."""
    if version != __version__:
        return f"it has popsim {__version__}"
    return "" if folder.is_sweep else "it does not see the folder"


@contextlib.contextmanager
def _quiet_logs() -> Iterator[None]:
    """Have distributed log nothing: what is to be said of its failures is raised."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]
    levels = {logger: logger.level for logger in map(logging.getLogger, names)}
    for logger in levels:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


@contextlib.contextmanager
def _lost_scheduler(client: Any, folder: SweepFolder) -> Iterator[None]:
    """Raise `CellsFailed` in place of what distributed raises when its scheduler is lost."""
    from distributed.comm.core import CommClosedError

    lost = (asyncio.CancelledError, concurrent.futures.CancelledError, CommClosedError)
    try:
        yield
    except (Exception, *lost) as error:
        if isinstance(error, RunStopped) or (not isinstance(error, lost) and client.status == "running"):
            raise
        raise CellsFailed(
            f"the Dask scheduler of {folder.path} was lost; its workers save what they train. "
            f"To continue with another one: {folder.command('sweep run')} --scheduler ADDRESS"
        ) from None
