"""What a training shows of its progress: a bar in a terminal or a notebook, else lines."""

import contextlib
import sys
import time
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float
from tqdm.auto import tqdm

from popsim._shared.text_checks import count_text
from popsim._shared.waiting import call_regularly, is_interactive, waiting_text
from popsim.training.observers import FinishedBatches, LogEntry, Observer, Records, TrainingStart

__all__ = ["Compiling", "ProgressBar", "ProgressLines", "last_loss", "progress_observer"]

BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} batches{postfix}"
SECONDS_BETWEEN_LINES = 30.0


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


class ProgressLines(Observer):
    """Lines for a pipe or a file: what is compiled, the losses of log points, and the rate.

    The seconds of compilations count for neither rate nor time left.
    """

    def __init__(self) -> None:
        self._columns: tuple[str, ...] = ()
        self._line = ""

    def on_begin(self, start: TrainingStart) -> None:
        self._n_batches, self._n_done, self._line = start.n_batches, start.first_batch, ""
        self._seconds, self._n_timed = 0.0, 0
        self._since: float | None = None
        of_members = "" if start.n_members is None else f" in each of {count_text(start.n_members, 'member')}"
        self._write(f"training {start.n_trained:,} numbers{of_members}")

    def _count(self, n_batches: int) -> None:
        """Count batches and the seconds since the last event; neither after a compilation, which it ends."""
        now = time.perf_counter()
        if self._since is not None:
            self._seconds += now - self._since
            self._n_timed += n_batches
        self._since = now

    def on_compilation(self, program: str) -> None:
        self._count(0)
        self._since = None
        if program == "training":
            self._write("compiling")

    def on_batches(self, batches: FinishedBatches) -> None:
        self._count(batches.count)
        self._n_done += batches.count
        pace = ""
        if self._n_timed and self._seconds:
            rate = self._n_timed / self._seconds
            left = tqdm.format_interval((self._n_batches - self._n_done) / rate)
            pace = f"{rate:.3g} batch/s, {left} left, "
        self._show(pace + last_loss(batches))

    def _show(self, progress: str) -> None:
        self._line = f"training: {self._n_done}/{self._n_batches} batches, {progress}"
        if time.perf_counter() - self._last_written > SECONDS_BETWEEN_LINES:
            self._write(self._line)
            self._line = ""

    def on_log_point(self, entry: LogEntry) -> None:
        """Write the loss of the batch and the validation loss with its terms, headed where these are new."""
        validation = entry.validation_loss
        terms = validation.terms if len(validation.terms) > 1 else {}
        columns: tuple[str, ...] = ("batch", "loss", "validation", *terms)
        losses = [np.asarray(loss) for loss in (entry.loss.total, validation.total, *terms.values())]
        row = (str(entry.batch), *(mean_of_finite(loss[~entry.frozen]) or "frozen" for loss in losses))
        for texts in [row] if columns == self._columns else [columns, row]:
            cells = (text.rjust(max(10, len(name))) for name, text in zip(columns, texts, strict=True))
            self._write("  ".join(cells))
        self._columns = columns

    def on_pause(self, last: int) -> None:
        self._count(0)

    def on_replacement(self, batch: int, records: Records) -> None:
        self.on_pause(batch)

    def on_end(self, error: BaseException | None) -> None:
        if self._line:
            self._write(self._line)

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # what is not shown ends no training
            print(text, file=sys.stderr, flush=True)
        self._last_written = time.perf_counter()


class ProgressBar(ProgressLines):
    """A bar of batches, loss and time left, with the losses of log points above it.

    While a program is compiled, the bar shows for how long.
    """

    def __init__(self) -> None:
        super().__init__()
        self._shown = contextlib.ExitStack()

    def on_begin(self, start: TrainingStart) -> None:
        self._compiling: Compiling | None = None
        self._bar = tqdm(
            total=start.n_batches,
            initial=start.first_batch,
            bar_format="{desc}",
            desc="preparing",
            dynamic_ncols=True,
        )
        self._shown.callback(self._bar.close)
        super().on_begin(start)
        self._shown.enter_context(call_regularly(self._refresh))

    def on_compilation(self, program: str) -> None:
        self._count(0)
        self._since = None
        self._compiling = Compiling.now(program)
        self._refresh()

    def _refresh(self) -> None:
        """Bring the seconds up to date; called from another thread, too."""
        with self._bar.get_lock():  # no text of a compilation that has just ended
            if self._compiling is not None:
                self._bar.set_description_str(str(self._compiling), refresh=False)
            self._bar.refresh()

    def _show(self, progress: str) -> None:
        with self._bar.get_lock():
            self._compiling, self._bar.bar_format, self._bar.n = None, BAR, self._n_done
            self._bar.set_description_str("training", refresh=False)
            self._bar.set_postfix_str(progress, refresh=False)
        self._bar.refresh()

    def on_pause(self, last: int) -> None:
        super().on_pause(last)
        with self._bar.get_lock():
            self._compiling = None
            self._bar.set_description_str("training", refresh=False)

    def on_end(self, error: BaseException | None) -> None:
        self._shown.close()  # which leaves it on screen

    def _write(self, text: str) -> None:
        self._bar.write(text, file=self._bar.fp)


def last_loss(batches: FinishedBatches) -> str:
    """Return the mean loss of the last batch over members that are not frozen, as text."""
    mean = mean_of_finite(np.asarray(batches.records.loss.total)[-1])
    return f"loss {mean}" if mean else "all frozen"


def mean_of_finite(losses: Float[Array | np.ndarray, "*member"] | np.floating) -> str:
    """Return the mean over members that are not frozen, in three digits; "" if all are."""
    values = np.asarray(losses)
    finite = values[np.isfinite(values)]
    return f"{finite.mean():.3g}" if finite.size else ""
