"""What trains cells of a sweep: this process, one after the other, or processes of this machine."""

import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from popsim.experiments import RunStopped
from popsim.store.identity import FolderLockedError
from popsim.sweeps.cell_process import RETRIES, WAS_STOPPED, CellOutcome, CellStopped, CellTask, train_cell
from popsim.sweeps.cell_training import run_cell
from popsim.sweeps.opened_sweep import OpenedSweep
from popsim.sweeps.progress import SweepProgress
from popsim.sweeps.selection import SelectionPending

__all__ = ["CellsFailed"]

SECONDS_TO_RETRY = 2.0  # a signal that reaches this process and that of a cell is noticed here in that time


class CellsFailed(RuntimeError):
    """Some cells of a sweep could not be trained; the others are finished. The message names them."""


@dataclasses.dataclass(frozen=True)
class Executor:
    """What trains cells.

    - `submit`: begins to train a cell, and returns the future of its `CellOutcome`.
    - `wait`: waits until one of some futures is done, for about a second.
    - `stop`: has all cells saved and stopped.
    """

    submit: Callable[[int], Any]
    wait: Callable[[Collection[Any]], None]
    stop: Callable[[], Any] = lambda: None


@contextlib.contextmanager
def in_order(
    opened: OpenedSweep,
    numbers: Collection[int],
    progress: SweepProgress,
    options: Mapping[str, Any],
    tell: Callable[[str], None],
) -> Iterator[Executor]:
    """Return what trains cells in this process, each while it is waited for."""
    waiting: collections.deque[tuple[int, Any]] = collections.deque()
    announced: set[int] = set()
    observers, stop = [*options.get("observers", ()), progress], options.get("stop")

    def submit(number: int) -> Any:
        waiting.append((number, concurrent.futures.Future()))
        return waiting[-1][1]

    def wait(futures: Collection[Any]) -> None:
        number, future = waiting.popleft()
        if number not in announced:
            tell(f"cell {number} of {opened.n_cells}: {opened.sweep.cell(number)}")
            announced.add(number)
        progress.begin_cell(number)
        try:
            run_cell(opened.folder.path, number, **{**options, "observers": observers})
            future.set_result(CellOutcome())
        except SelectionPending as pending:
            future.set_result(CellOutcome(selection=(pending.n_batches, pending.scores)))
        except FolderLockedError:
            holder = opened.folder.holder(number) or "another process"
            future.set_result(CellOutcome(left_to=holder))
            if opened.sweep.selects_across_cells:  # it is tried again, see `_train`
                time.sleep(SECONDS_TO_RETRY)
                if stop is not None and stop():
                    raise RunStopped(opened.folder.path, 0) from None
        except (ValueError, OSError, MemoryError, RuntimeError, ArithmeticError) as error:
            future.set_exception(error)

    yield Executor(submit, wait)


@contextlib.contextmanager
def on_this_machine(task: Callable[[int], CellTask], n_workers: int) -> Iterator[Executor]:
    """Return what trains cells in processes of this machine; on leaving, these save and end.

    What is started is the command that a person would type. A function of a worker would not do: its memory
    grows by the programs of each cell, its JAX keeps the devices with which it began, and it does not notice
    that the module of a user has changed.
    """
    places, stopping = queue.SimpleQueue(), threading.Event()
    for place in range(n_workers):
        places.put(place)

    def train(number: int) -> CellOutcome:
        place = places.get()
        try:
            return _train_with_retries(task(number), stopping, (place, n_workers))
        finally:
            places.put(place)

    def wait(futures: Collection[Any]) -> None:
        concurrent.futures.wait(futures, timeout=1.0, return_when=concurrent.futures.FIRST_COMPLETED)

    with concurrent.futures.ThreadPoolExecutor(n_workers) as pool:
        try:
            yield Executor(functools.partial(pool.submit, train), wait, stopping.set)
        except BaseException:
            stopping.set()
            raise


def _train_with_retries(task: CellTask, stopping: threading.Event, place: tuple[int, int]) -> CellOutcome:
    """Train a cell, again if its process is killed, as Dask does."""
    reason = ""
    for _ in range(1 + RETRIES):
        try:
            return train_cell(task, stopping, place)
        except CellStopped as error:
            reason = str(error)
            if stopping.wait(SECONDS_TO_RETRY):
                return WAS_STOPPED
    return CellOutcome(reason)
