"""What a training shows of its progress: a bar in a terminal or a notebook, else lines."""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float
from tqdm.auto import tqdm

from popsim._text_checks import count_text
from popsim._waiting import called_regularly, is_interactive, waiting_text
from popsim.training.observers import FinishedBatches, LogEntry, Observer, Records, TrainingStart

__all__ = [
    "BatchClock",
    "Compiling",
    "ProgressBar",
    "ProgressLines",
    "last_loss",
    "progress_observer",
]

SMOOTHING = 0.05  # of the rate, over some twenty calls of the compiled loop
SECONDS_BETWEEN_LINES = 30.0

Losses = Float[Array | np.ndarray, "*member"] | np.floating


class BatchClock:
    """Counts batches and the seconds in which they were made, without those of compilations."""

    def __init__(self) -> None:
        self.seconds, self.n_batches = 0.0, 0
        self._since: float | None = None

    def count(self, n_batches: int) -> None:
        """Count batches, and the seconds since the last event; neither after a pause, which this ends."""
        now = time.perf_counter()
        if self._since is not None:
            self.seconds += now - self._since
            self.n_batches += n_batches
        self._since = now

    def pause(self) -> None:
        """Do not count what follows, up to the next event."""
        self._since = None


class Compiling(NamedTuple):
    """What is compiled, and since when."""

    begun: float
    what: str

    @classmethod
    def now(cls, program: str) -> "Compiling":
        """Return what begins to be compiled."""
        what = "compiling" if program == "training" else f"compiling the {program}"
        return cls(time.perf_counter(), what)

    def __str__(self) -> str:
        return waiting_text(self.what, time.perf_counter() - self.begun)


def progress_observer() -> Observer:
    """Return what shows the progress of a training: a bar in a terminal or a notebook, else lines."""
    return ProgressBar() if is_interactive() else ProgressLines()


class ProgressBar(Observer):
    """A bar of loss, batches per second and time left, with the losses of log points above it.

    Compilation is shown by a line of its own, and its seconds count for neither rate nor time left.
    """

    def __init__(self) -> None:
        self._table = LossTable()
        self._shown = contextlib.ExitStack()
        self._compiling: Compiling | None = None

    def on_begin(self, start: TrainingStart) -> None:
        self._compiling = None
        self._bar = tqdm(
            total=start.n_batches,
            initial=start.first_batch,
            unit="batch",
            smoothing=SMOOTHING,
            bar_format="{desc}",
            desc="preparing",
            dynamic_ncols=True,
        )
        self._shown.callback(self._bar.close)
        self._write(title(start))
        self._shown.enter_context(called_regularly(self._refresh))

    def on_compilation(self, program: str) -> None:
        self._compiling = Compiling.now(program)
        self._refresh()

    def _refresh(self) -> None:
        """Bring the seconds up to date; called from another thread, too."""
        with self._bar.get_lock():  # no text of a compilation that has just ended
            if self._compiling is not None:
                self._bar.set_description_str(str(self._compiling), refresh=False)
            self._bar.refresh()

    def _skip_compilation(self, n_batches: int) -> None:
        """Leave the seconds since the last `on_compilation`, and batches made in them, out of the rate."""
        if self._compiling is None:
            return
        bar = self._bar
        with bar.get_lock():  # the other thread must not see one without the others
            seconds, self._compiling = time.perf_counter() - self._compiling.begun, None
            if bar.bar_format is not None:  # before the first batch, nothing counts
                bar.bar_format = None
                bar.start_t = bar.last_print_t = bar._time()  # pyright: ignore[reportAttributeAccessIssue]
            else:
                bar.start_t += seconds
                bar.last_print_t += seconds
            bar.set_description_str("training", refresh=False)
            for name in ("n", "initial", "last_print_n"):
                setattr(bar, name, getattr(bar, name) + n_batches)

    def on_batches(self, batches: FinishedBatches) -> None:
        self._bar.set_postfix_str(last_loss(batches), refresh=False)
        if self._compiling is None:
            self._bar.update(batches.count)
        else:
            self._skip_compilation(batches.count)
            self._bar.refresh()

    def on_log_point(self, entry: LogEntry) -> None:
        for row in self._table.rows(entry):
            self._write(row)

    def on_pause(self, last: int) -> None:
        self._skip_compilation(0)

    def on_replacement(self, batch: int, records: Records) -> None:
        self._skip_compilation(0)

    def _write(self, text: str) -> None:
        self._bar.write(text, file=self._bar.fp)

    def on_end(self, error: BaseException | None) -> None:
        self._shown.close()


class ProgressLines(Observer):
    """Lines for a pipe or a file: what is compiled, the losses of log points, and the rate."""

    def __init__(self) -> None:
        self._table = LossTable()
        self._line = ""

    def on_begin(self, start: TrainingStart) -> None:
        self._start, self._line = start, ""
        self._clock, self._n_done = BatchClock(), start.first_batch
        self._write(title(start))

    def on_compilation(self, program: str) -> None:
        self._clock.count(0)
        self._clock.pause()
        if program == "training":
            self._write("compiling")

    def on_batches(self, batches: FinishedBatches) -> None:
        self._clock.count(batches.count)
        self._n_done += batches.count
        n_batches, pace = self._start.n_batches, ""
        if self._clock.n_batches and self._clock.seconds:
            rate = self._clock.n_batches / self._clock.seconds
            left = tqdm.format_interval((n_batches - self._n_done) / rate)
            pace = f" {rate:.3g} batch/s, {left} left,"
        self._line = f"training: {self._n_done}/{n_batches} batches,{pace} {last_loss(batches)}"
        if time.perf_counter() - self._last_written > SECONDS_BETWEEN_LINES:
            self._write(self._line)
            self._line = ""

    def on_log_point(self, entry: LogEntry) -> None:
        for row in self._table.rows(entry):
            self._write(row)

    def on_pause(self, last: int) -> None:
        self._clock.count(0)

    def on_replacement(self, batch: int, records: Records) -> None:
        self._clock.count(0)

    def on_end(self, error: BaseException | None) -> None:
        if self._line:
            self._write(self._line)

    def _write(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
        self._last_written = time.perf_counter()


class LossTable:
    """Rows of a table of losses, means over members that are not frozen, headed where columns are new."""

    def __init__(self) -> None:
        self._columns: tuple[str, ...] = ()

    def rows(self, entry: LogEntry) -> Iterator[str]:
        """Yield the row of a log point: the loss of the batch, and the validation loss with its terms."""
        validation = entry.validation_loss
        terms = validation.terms if len(validation.terms) > 1 else {}
        columns: tuple[str, ...] = ("batch", "loss", "validation", *terms)
        losses = [np.asarray(loss) for loss in (entry.loss.total, validation.total, *terms.values())]
        row = (str(entry.batch), *(mean_of_finite(loss[~entry.frozen]) or "frozen" for loss in losses))
        for texts in [row] if columns == self._columns else [columns, row]:
            yield "  ".join(text.rjust(max(10, len(name))) for name, text in zip(columns, texts, strict=True))
        self._columns = columns


def title(start: TrainingStart) -> str:
    of_members = "" if start.n_members is None else f" in each of {count_text(start.n_members, 'member')}"
    return f"training {start.n_trained:,} numbers{of_members}"


def last_loss(batches: FinishedBatches) -> str:
    """Return the mean loss of the last batch over members that are not frozen, as text."""
    mean = mean_of_finite(np.asarray(batches.records.loss.total)[-1])
    return f"loss {mean}" if mean else "all frozen"


def mean_of_finite(losses: Losses) -> str:
    """Return the mean over members that are not frozen, in three digits; "" if all are."""
    values = np.asarray(losses)
    finite = values[np.isfinite(values)]
    return f"{finite.mean():.3g}" if finite.size else ""
