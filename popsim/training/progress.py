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
        """Write what is trained, and begin the bar."""
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
        """Show that a program is compiled, and for how long."""
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
        """Advance, and show the mean loss of the last batch over members that are not frozen."""
        self._bar.set_postfix_str(last_loss(batches), refresh=False)
        if self._compiling is None:
            self._bar.update(batches.count)
        else:
            self._skip_compilation(batches.count)
            self._bar.refresh()

    def on_log_point(self, entry: LogEntry) -> None:
        """Write the losses of the log point above the bar."""
        for row in self._table.rows(entry):
            self._write(row)

    def on_pause(self, last: int) -> None:
        """Leave what the log point has compiled out of the rate."""
        self._skip_compilation(0)

    def on_replacement(self, batch: int, records: Records) -> None:
        """Leave what the replacement has compiled out of the rate."""
        self._skip_compilation(0)

    def _write(self, text: str) -> None:
        self._bar.write(text, file=self._bar.fp)

    def on_end(self, error: BaseException | None) -> None:
        """Close the bar, leaving it on screen."""
        self._shown.close()


class ProgressLines(Observer):
    """Lines for a pipe or a file: what is compiled, the losses of log points, and the rate."""

    def __init__(self) -> None:
        self._table = LossTable()
        self._line = ""

    def on_begin(self, start: TrainingStart) -> None:
        """Write what is trained."""
        self._start, self._line = start, ""
        self._clock, self._n_done = BatchClock(), start.first_batch
        self._write(title(start))

    def on_compilation(self, program: str) -> None:
        """Write that a program is compiled."""
        self._clock.count(0)
        self._clock.pause()
        if program == "training":
            self._write("compiling")

    def on_batches(self, batches: FinishedBatches) -> None:
        """Write the progress from time to time."""
        self._clock.count(batches.count)
        self._n_done += batches.count
        self._line = self._progress(last_loss(batches))
        if time.perf_counter() - self._last_written > SECONDS_BETWEEN_LINES:
            self._write(self._line)
            self._line = ""

    def _progress(self, loss: str) -> str:
        n_batches = self._start.n_batches
        done = f"training: {self._n_done}/{n_batches} batches"
        if not (self._clock.n_batches and self._clock.seconds):
            return f"{done}, {loss}"
        rate = self._clock.n_batches / self._clock.seconds
        left = tqdm.format_interval((n_batches - self._n_done) / rate)
        return f"{done}, {rate:.3g} batch/s, {left} left, {loss}"

    def on_log_point(self, entry: LogEntry) -> None:
        """Write the losses of the log point."""
        for row in self._table.rows(entry):
            self._write(row)

    def on_pause(self, last: int) -> None:
        """Leave what the log point has compiled out of the rate."""
        self._clock.count(0)

    def on_replacement(self, batch: int, records: Records) -> None:
        """Leave what the replacement has compiled out of the rate."""
        self._clock.count(0)

    def _write(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
        self._last_written = time.perf_counter()

    def on_end(self, error: BaseException | None) -> None:
        """Write how far the training has come."""
        if self._line:
            self._write(self._line)


class LossTable:
    """Rows of a table of losses, with the names of the columns where they are new.

    The loss of the batch is a mean over the members that still train, the others over those that are not
    frozen.
    """

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
    """Return the line that is written above a bar."""
    of_members = "" if start.n_members is None else f" in each of {count_text(start.n_members, 'member')}"
    return f"training {start.n_trained:,} numbers{of_members}"


def last_loss(batches: FinishedBatches) -> str:
    """Return the mean loss of the last batch over members that are not frozen, as text.

    **Arguments:**

    - `batches`: the finished batches.
    """
    mean = mean_of_finite(np.asarray(batches.records.loss.total)[-1])
    return f"loss {mean}" if mean else "all frozen"


def mean_of_finite(losses: Losses) -> str:
    """Return the mean over members that are not frozen, in three digits; "" if all are."""
    values = np.asarray(losses)
    finite = values[np.isfinite(values)]
    return f"{finite.mean():.3g}" if finite.size else ""
