"""What a sweep shows of its progress: one bar over all of its cells, or lines in a pipe or a file."""

import contextlib
import math
import sys
import time
from collections.abc import Iterable, Iterator

from tqdm.auto import tqdm

from popsim._shared.text_checks import count_text
from popsim._shared.waiting import call_regularly, is_interactive
from popsim.store import Checkpoints
from popsim.sweeps.cells import FINISHED
from popsim.sweeps.opened_sweep import OpenedSweep
from popsim.training import FinishedBatches, Observer, TrainingStart
from popsim.training.observers import Records
from popsim.training.progress import SECONDS_BETWEEN_LINES, Compiling, last_loss

__all__ = ["SweepProgress"]

BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} batches [{elapsed}{postfix}]"
SECONDS_BETWEEN_READINGS = 2.0


class SweepProgress(Observer):
    """Counts the batches and cells of a sweep, and shows them with the time that is left for some of them.

    It is an observer of the cells that this process trains, one after the other. Of cells that others train
    it reads the checkpoints. The time left is that of the remaining batches at the rate so far, which
    includes what the cells took to compile, to measure and to save.
    """

    def __init__(self, opened: OpenedSweep, numbers: Iterable[int]):
        sweep = opened.sweep
        self._folder, self._numbers = opened.folder, tuple(numbers)
        settings, n_batches = map(sweep.settings_of, range(sweep.n_cells)), sweep.experiment.n_batches
        self._n_batches = [of_cell.get("n_batches", n_batches) for of_cell in settings]
        self._done = [note.n_batches for note in opened.notes]
        self._finished = {*opened.cells_in(FINISHED)}
        for number in self._finished:  # all of its members may have ended before
            self._done[number] = self._n_batches[number]
        self._n_at_start = self._n_own_done
        self._start = self._last_read = time.perf_counter()
        self._last_shown = math.inf  # nothing is, before `shown`
        self._cell = -1  # that this process trains
        self._doing: str | Compiling = ""
        self._bar: tqdm | None = None

    @contextlib.contextmanager
    def shown(self) -> Iterator["SweepProgress"]:
        """Show the bar within the context; outside of a terminal and of a notebook, lines."""
        self._bar, self._last_shown = None, time.perf_counter()
        if not is_interactive():
            yield self
            self._print()
            return
        total, done = sum(self._n_batches), sum(self._done)
        bar = tqdm(total=total, initial=done, desc="sweep", bar_format=BAR, dynamic_ncols=True)
        self._bar = bar
        with contextlib.closing(bar), call_regularly(self._refresh):
            yield self
            self._refresh()

    def begin_cell(self, number: int) -> None:
        self._cell, self._doing = number, "building"

    def end_cell(self, number: int, *, is_finished: bool) -> None:
        """Count a cell that has ended; if it is finished, all of its batches."""
        if is_finished:
            self._done[number] = self._n_batches[number]
            self._finished.add(number)
        self._doing = ""
        self._show()

    def read_cells(self, numbers: Iterable[int]) -> None:
        """Count the batches that are saved of cells that other processes train, every few seconds."""
        now = time.perf_counter()
        if now - self._last_read < SECONDS_BETWEEN_READINGS:
            return
        self._last_read = now
        for number in numbers:
            steps = Checkpoints(self._folder.cell(number).checkpoints).steps()
            self._done[number] = max([self._done[number], *steps])
        self._show()

    def on_begin(self, start: TrainingStart) -> None:
        self._done[self._cell] = start.first_batch

    def on_compilation(self, program: str) -> None:
        self._doing = Compiling.now(program)

    def on_batches(self, batches: FinishedBatches) -> None:
        self._done[self._cell] = batches.last + 1
        self._doing = last_loss(batches)
        self._show()

    def on_pause(self, last: int) -> None:
        self._doing = ""

    def on_replacement(self, batch: int, records: Records) -> None:
        self._doing = ""

    def on_end(self, error: BaseException | None) -> None:
        self._doing = "measuring"

    @property
    def seconds_left(self) -> float | None:
        """The seconds until `numbers` are finished, at the rate so far; None if that is unknown."""
        n_left = sum(self._n_batches[number] for number in self._numbers) - self._n_own_done
        n_new = self._n_own_done - self._n_at_start
        return (time.perf_counter() - self._start) / n_new * n_left if n_new > 0 else None

    @property
    def _n_own_done(self) -> int:
        return sum(self._done[number] for number in self._numbers)

    def _text(self) -> str:
        """Return the number of cells, the time left, and what is being done."""
        left = self.seconds_left
        parts = [f"{len(self._finished)}/{count_text(len(self._n_batches), 'cell')}"]
        parts += [] if left is None else [f"{tqdm.format_interval(left)} left"]
        return ", ".join([*parts, *filter(None, [str(self._doing)])])

    def _show(self) -> None:
        if self._bar is not None:
            self._refresh()
        elif time.perf_counter() - self._last_shown > SECONDS_BETWEEN_LINES:
            self._print()

    def _refresh(self) -> None:
        """Bring the bar up to date; called from another thread, too."""
        if (bar := self._bar) is None:
            return
        with bar.get_lock():
            bar.n = sum(self._done)
            bar.set_postfix_str(self._text(), refresh=False)
            bar.refresh()

    def _print(self) -> None:
        done = f"{sum(self._done)}/{sum(self._n_batches)} batches"
        print(f"sweep: {done}, {self._text()}", file=sys.stderr, flush=True)
        self._last_shown = time.perf_counter()
