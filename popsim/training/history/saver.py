"""Saving of a training in its folder."""

import contextlib
import dataclasses
import time

from popsim.store import SaveError
from popsim.training.history.training_store import TrainingStore
from popsim.training.observers import FinishedBatches, LogEntry, Observer, Records
from popsim.training.steps.member_layout import MemberLayout
from popsim.training.steps.train_state import TrainState, copy_arrays

__all__ = ["Saver"]


class Saver(Observer):
    """Writes the log and checkpoints to the store of a training.

    Whatever ends a training, the batches that are finished are saved first. Batches with a log point are
    finished after it: otherwise the history of a resumed training would lack that point.

    **Arguments:**

    - `store`: the store.
    - `layout`: the layout of the members on the devices.
    - `start_time`: when the training began, on the clock of `time.perf_counter`.
    """

    is_recording = True

    def __init__(self, store: TrainingStore, layout: MemberLayout, start_time: float):
        self._store = store
        self._layout = layout
        self._start_time = start_time
        self._batches: FinishedBatches
        self._finished: _Finished | None = None

    def on_batches(self, batches: FinishedBatches) -> None:
        self._batches = batches
        # Else the batch is finished by a later method, when its log point or updates are in the history, too.
        if not (batches.logs or batches.updates):
            self._finish()

    def on_updates(self, batch: int, records: Records, state: TrainState) -> None:
        self._batches = dataclasses.replace(self._batches, state=state)
        if not self._batches.logs:
            self._finish()

    def on_log_point(self, entry: LogEntry) -> None:
        self._store.log(entry)
        self._finish()

    def on_pause(self, last: int) -> None:
        if self._store.is_due(at_log_point=self._batches.logs):
            self._save()

    def on_rendezvous(self) -> None:
        # What waits for others may wait for hours, or be killed: the checkpoint must be on disk before.
        self._save()
        self._store.wait()

    def on_end(self, error: BaseException | None) -> None:
        if error is not None:
            self._save_before_leaving(error)
            return
        try:
            self._save()
            self._store.wait()
        except BaseException as failed:
            self._save_before_leaving(failed)
            raise

    def _finish(self) -> None:
        """Keep what to save, copied: the next call of the compiled loop donates the arrays of the state."""
        state = copy_arrays(self._batches.state)
        self._finished = _Finished(state, time.perf_counter() - self._start_time, self._store.rows.n_rows)

    def _save(self) -> None:
        if (finished := self._finished) is not None:
            state = self._layout.gather_state(finished.state)
            self._store.save(state, finished.seconds, finished.n_rows)

    def _save_before_leaving(self, error: BaseException) -> None:
        """Save what is finished, and add a note on it to `error`; a failure to save is only noted."""
        with contextlib.suppress(SaveError):  # of an earlier checkpoint: the last one may still be written
            self._store.wait()
        try:
            self._save()
            self._store.wait()
        except Exception as failed:
            if self._finished is not None and str(failed) != str(error):
                batch = int(self._finished.state.step) - 1
                error.add_note(f"The training after batch {batch} was not saved: {failed}")
        error.add_note(self._store.resume_hint)


@dataclasses.dataclass(frozen=True)
class _Finished:
    """What to save: the state, the training time in seconds, and the rows of the history, by axis."""

    state: TrainState
    seconds: float
    n_rows: dict[str, int]
