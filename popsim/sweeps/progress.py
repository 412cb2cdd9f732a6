"""What a sweep shows of its progress: one bar over the cells to train, or lines in a pipe or a file."""

import contextlib
import math
import sys
import time
from collections.abc import Iterable, Iterator

from tqdm.auto import tqdm

from popsim._shared.text_checks import count_text
from popsim._shared.waiting import call_regularly, is_interactive
from popsim.store import Checkpoints
from popsim.sweeps.opened_sweep import OpenedSweep
from popsim.training import FinishedBatches, Observer, TrainingStart
from popsim.training.observers import Records
from popsim.training.progress import SECONDS_BETWEEN_LINES, Compiling, last_loss

__all__ = ["SweepProgress"]

BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} batches [{elapsed}{postfix}]"
SECONDS_BETWEEN_READINGS = 2.0


class SweepProgress(Observer):
    """Counts the batches and the cells of those that are trained, and shows them with the time that is left.

    It is an observer of the cells that this process trains, one after the other. Of cells that others train
    it reads the checkpoints. The time left is that of the remaining batches at the rate so far, which
    includes what the cells took to compile, to measure and to save.
    """

    def __init__(self, opened: OpenedSweep, numbers: Iterable[int]):
        sweep, self._folder = opened.sweep, opened.folder
        self._done = {number: opened.notes[number].n_batches for number in numbers}
        n_batches = sweep.experiment.n_batches
        self._n_batches = {n: sweep.settings_of(n).get("n_batches", n_batches) for n in self._done}
        self._n_at_start, self._n_finished = sum(self._done.values()), 0
        self._start = self._last_read = time.perf_counter()
        self._last_shown = math.inf  # nothing is, before `display`
        self._cell = -1  # that this process trains
        self._doing: str | Compiling = ""
        self._bar: tqdm | None = None

    @contextlib.contextmanager
    def display(self) -> Iterator["SweepProgress"]:
        """Show the bar within the context; outside of a terminal and of a notebook, lines."""
        self._bar, self._last_shown = None, time.perf_counter()
        if not is_interactive():
            yield self
            self._last_shown = -math.inf
            self._show()
            return
        total = sum(self._n_batches.values())
        bar = tqdm(total=total, initial=self._n_at_start, desc="sweep", bar_format=BAR, dynamic_ncols=True)
        self._bar = bar
        with contextlib.closing(bar), call_regularly(self._show):
            yield self
            self._show()

    def begin_cell(self, number: int) -> None:
        self._cell, self._doing = number, "building"

    def end_cell(self, number: int, *, is_finished: bool) -> None:
        """Count a cell that has ended; if it is finished, all of its batches."""
        if is_finished:  # all of its members may have ended before
            self._done[number] = self._n_batches[number]
            self._n_finished += 1
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

    def _show(self) -> None:
        """Bring the bar up to date, also from another thread; or print a line, every half a minute."""
        n_done, total, now = sum(self._done.values()), sum(self._n_batches.values()), time.perf_counter()
        texts = [f"{self._n_finished}/{count_text(len(self._done), 'cell')}"]
        if (n_new := n_done - self._n_at_start) > 0:
            left = (now - self._start) / n_new * (total - n_done)
            texts.append(f"{tqdm.format_interval(left)} left")
        text = ", ".join([*texts, *filter(None, [str(self._doing)])])
        if (bar := self._bar) is not None:
            with bar.get_lock():
                bar.n = n_done
                bar.set_postfix_str(text, refresh=False)
                bar.refresh()
        elif now - self._last_shown > SECONDS_BETWEEN_LINES:
            print(f"sweep: {n_done}/{total} batches, {text}", file=sys.stderr, flush=True)
            self._last_shown = now
