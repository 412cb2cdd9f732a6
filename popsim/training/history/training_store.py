"""The folder of a training."""

import bisect
import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax

from popsim import store
from popsim._shared.checks import warn_caller
from popsim.loss import LossValues
from popsim.store.array_group import remove_arrays
from popsim.store.files import make_folder, raise_save_errors
from popsim.store.identity import RUN_ID, new_run_id
from popsim.store.run_folder import DescribedRun
from popsim.store.run_parts import RunParts, check_parts
from popsim.training.history.computation import TrainingComputation, compare_computations, different_settings
from popsim.training.history.recording import batches_of_ends, create_arrays
from popsim.training.loop.training_plan import TrainingPlan
from popsim.training.observers import FinishedBatches, LogEntry, Observer, Records
from popsim.training.steps.train_state import (
    TrainState,
    copy_arrays,
    named_arrays,
    named_state,
    with_named_state,
)

__all__ = ["TrainingStore", "open_training_store"]

LOG_POINT_SECONDS = 1.0  # between checkpoints at log points, at least


class TrainingStore(Observer):
    """The log, history and checkpoints of a training, in one folder, which it writes as an observer.

    A checkpoint records the length of the history at its time; on resuming, the history and the log are cut
    there. All files carry the id of the run. Whatever ends a training, the batches that are finished are
    saved first; those with a log point are finished after it, or a resumed history would lack that point.
    Created by `open_training_store`.
    """

    is_recording = True

    def __init__(self, described: DescribedRun, plan: TrainingPlan):
        self.folder = folder = described.folder
        self.plan, self.computation = plan, TrainingComputation(plan)
        self.member_batch_size = plan.member_batch_size
        self.start_time = self._saved_at = time.perf_counter()
        self.arrays: store.GrowingArrays
        self._described, self._parts = described, RunParts(folder, described.run_id)
        self._checkpoints = store.Checkpoints(
            folder.checkpoints,
            n_kept=plan.trainer.n_checkpoints,
            shared_steps=plan.shared_steps,
            run_id=described.run_id,
        )
        self._saved_step = -1
        self._logged: list[int] = []  # batch numbers
        self._pending: tuple[int, RunParts] | None = None  # the checkpoint that is being written
        self._batches: FinishedBatches
        self._finished: tuple[TrainState, float, dict[str, int]] | None = None  # with seconds, rows by axis

    def begin(self, state: TrainState, *, restore: bool) -> TrainState:
        """Return the initial state, with the history and the log cut to it."""
        self._parts = check_parts(self._described)
        checkpoint = (
            self._checkpoints.restore(lambda details: self._forms(details, state)) if restore else None
        )
        if checkpoint is None:
            self._start_over()
            return state
        self._compare(checkpoint)
        if checkpoint.step > (n_batches := self.plan.training.n_batches):
            raise ValueError(
                f"`n_batches` must be at least the {checkpoint.step} that were made already, got {n_batches}."
            )
        arrays = store.GrowingArrays.open(self.folder.history, run_id=self._parts.run_id)
        parts = dataclasses.replace(
            self._parts, history=checkpoint.details["history"], n_log_lines=checkpoint.details["n_log_lines"]
        )
        parts.check_history_lengths(arrays.lengths)
        self._logged = [line["batch"] for line in parts.stream_log()][: parts.n_log_lines]
        self._write_parts(parts)  # before newer rows are cut
        arrays.truncate(parts.history)
        store.keep_json_lines(self.folder.log, lambda line: line["batch"] < checkpoint.step)
        self.arrays = arrays
        # So that the log continues where it stopped.
        self.start_time = time.perf_counter() - checkpoint.details["seconds"]
        is_same_platform = checkpoint.details.get("platform") == self.plan.layout.platform
        if self.plan.trainer.member_batch_size is None and is_same_platform:  # as before, to the last bit
            self.member_batch_size = checkpoint.details["member_batch_size"]
        self._saved_step = checkpoint.step
        return with_named_state(state, checkpoint.arrays)

    def _forms(self, details: dict[str, Any], state: TrainState) -> Mapping[str, jax.ShapeDtypeStruct]:
        now = self.computation.up_to(details["step"])
        if different := different_settings(details["computation"], now):  # also in names and shapes of arrays
            self._refuse(details["step"], different)
        arrays = {**now.arrays, **named_state(state)}
        return {name: jax.ShapeDtypeStruct(array.shape, array.dtype) for name, array in arrays.items()}

    def _compare(self, checkpoint: store.Checkpoint) -> None:
        """**Raises:** `MismatchError` naming what differs, unless a checkpoint is of this training."""
        then = checkpoint.details["computation"]
        found = compare_computations(then, self.computation.up_to(checkpoint.step), checkpoint.arrays)
        if found.refused:
            self._refuse(checkpoint.step, "; ".join(found.refused))
        if found.not_compared:
            what = " and ".join(found.not_compared)
            warn_caller(
                f"the training in {self.folder.path} continues, though {what} cannot be compared: it calls "
                "Python functions, or is made for another kind of machine."
            )
        if changes := [text for text in (found.versions, *found.unknown) if text]:
            warn_caller(
                f"the training in {self.folder.path} continues after batch {checkpoint.step - 1} with other "
                f"code than it began with, which may change its numbers: {'; '.join(changes)}."
            )

    def _refuse(self, step: int, different: str) -> None:
        raise store.MismatchError(
            f"the checkpoint after batch {step - 1} in {self.folder.path} must be of this training, got "
            f"another one: they differ in {different}. Train into another folder, or undo the change."
        )

    def _start_over(self) -> None:
        """Create an empty history, and remove the remains of an interrupted start."""
        with raise_save_errors(self.folder.path):
            remove_arrays(self.folder.history)
            self.folder.log.unlink(missing_ok=True)
        plan, history, run_id = self.plan, self.folder.history, self._parts.run_id
        members, n_trained = plan.training.members, plan.n_trained
        self.arrays = create_arrays(history, plan.count, members, run_id=run_id, n_trained=n_trained)

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
        store.append_json_line(self.folder.log, _log_line(entry, self._parts.run_id))
        self._logged.append(entry.batch)
        self._finish()

    def on_pause(self, last: int) -> None:
        if last + 1 in self.plan.shared_steps:
            # Other trainings inherit from this checkpoint: it is on disk before they are told of it.
            self.save()
            self.wait()
            return
        # Log points never wait for a slow disk: none is saved while a checkpoint is being written.
        is_wanted = self._batches.logs and not self._checkpoints.is_writing
        seconds = self.plan.trainer.checkpoint_seconds
        wait = min(seconds, LOG_POINT_SECONDS) if is_wanted else seconds
        if time.perf_counter() - self._saved_at >= wait:
            self.save()

    def on_end(self, error: BaseException | None) -> None:
        if error is not None:
            self._save_before_leaving(error)
            return
        try:
            self.save()
            self.wait()
        except BaseException as failed:
            self._save_before_leaving(failed)
            raise

    def _save_before_leaving(self, error: BaseException) -> None:
        """Save what is finished, and add a note on it to `error`; a failure to save is only noted."""
        with contextlib.suppress(store.SaveError):  # of an earlier checkpoint: this one may still be written
            self.wait()
        try:
            self.save()
            self.wait()
        except Exception as failed:
            if self._finished is not None and str(failed) != str(error):
                batch = int(self._finished[0].step) - 1
                error.add_note(f"The training after batch {batch} was not saved: {failed}")
        error.add_note(self._resume_hint())

    def _finish(self) -> None:
        """Keep what to save, copied: the next call of the compiled loop donates the arrays of the state."""
        seconds = time.perf_counter() - self.start_time
        self._finished = copy_arrays(self._batches.state), seconds, self.arrays.appended_lengths

    def save(self) -> None:
        """Commit the history of the finished batches, and write a checkpoint in the background."""
        if self._finished is None:
            return
        state, seconds, n_rows = self._finished
        state, step = self.plan.layout.gather_state(state), int(state.step)
        self.wait()
        if step == self._saved_step:
            return
        # The history first: a checkpoint says how many rows it has, and they must be on disk by then. Rows
        # without a checkpoint, after a crash between the two, are cut when the training is resumed.
        # Batches are appended as they are made, also those that came after the state to be saved.
        self.arrays.attributes |= batches_of_ends(state.loss_fn_state.frozen_from, state.loss_fn_state.stops)
        self.arrays.commit(n_rows)
        computation = self.computation.up_to(step)
        # The log may be ahead of the state that is saved.
        parts = {"history": n_rows, "n_log_lines": bisect.bisect_left(self._logged, step)}
        details = {
            "step": step,
            "computation": computation.as_json(),
            "inputs": self.plan.state.model.trained_inputs.sizes,
            "final": [*named_arrays({"final": state.final})],
            **parts,
            "seconds": seconds,
            "member_batch_size": self.member_batch_size,
            "platform": self.plan.layout.platform,
        }
        self._checkpoints.save(step, {**computation.arrays, **named_state(state)}, details)
        self._saved_at = time.perf_counter()
        # Only noted: `training.json` lists what must exist, and the checkpoint is still being written.
        self._pending = step, dataclasses.replace(self._parts, **parts)

    def wait(self) -> None:
        """Wait until the last checkpoint is written; raises `SaveError` if that failed."""
        pending, self._pending = self._pending, None
        self._checkpoints.wait()
        if pending is not None:
            self._saved_step, parts = pending
            self._write_parts(parts)

    def _write_parts(self, parts: RunParts) -> None:
        parts = dataclasses.replace(parts, checkpoints=tuple(self._checkpoints.kept_steps()))
        if parts != self._parts:
            parts.write()
            self._parts = parts

    def _resume_hint(self) -> str:
        where, is_run = self.folder.path, self.folder.description.exists()
        if self._saved_step < 0:
            how = f"to begin anew: {self.folder.resume_command}" if is_run else "it may begin anew there."
            return f"Nothing of the training in {where} is saved; {how}"
        how = self.folder.resume_command if is_run else "restore_checkpoint=True"
        last = self._saved_step - 1
        return f"The training in {where} is saved after batch {last}; to continue: {how}"

    def close(self) -> None:
        """Wait until all is written; nothing writes to the folder afterwards."""
        try:
            self.wait()
        finally:
            if hasattr(self, "arrays"):
                self.arrays.close()


@contextlib.contextmanager
def open_training_store(plan: TrainingPlan) -> Iterator[TrainingStore]:
    """Open the store of a training, locked against other processes; its folder is created if missing."""
    trainer, restore = plan.trainer, plan.training.restore_checkpoint
    folder = store.RunFolder(Path(str(trainer.folder)))
    folder.check_free_for_training(restore=restore)  # before anything is written
    try:
        make_folder(folder.path, parents=True)
    except OSError as error:
        raise ValueError(
            f"`chkpt_dir` must be a folder that can be written, got {trainer.folder}: {error}"
        ) from None
    with store.lock_folder(folder.path, without_lock=trainer.without_lock):
        folder.check_free_for_training(restore=restore)  # again, as another process may have been here
        folder.remove_left_overs()
        if not folder.training.exists():
            has_run = folder.description.is_file()
            run_id = DescribedRun.read(folder).run_id if has_run else new_run_id()
            RunParts(folder, run_id, of_experiment=has_run).write()
        with contextlib.closing(TrainingStore(DescribedRun.read(folder), plan)) as opened:
            yield opened


def _log_line(entry: LogEntry, run_id: str) -> dict[str, Any]:
    """Return a line of the log, as JSON values; numbers that are not finite are null."""
    return {
        RUN_ID: run_id,
        "batch": entry.batch,
        "seconds": round(entry.seconds, 3),
        "loss": _by_term(entry.loss),
        "validation_loss": _by_term(entry.validation_loss),
        "metrics": {name: store.as_json_numbers(values) for name, values in entry.metrics.items()},
        "learning_rate": store.as_json_numbers(entry.learning_rate),
        "frozen": entry.frozen.tolist(),
    }


def _by_term(loss: LossValues) -> dict[str, Any]:
    return {name: store.as_json_numbers(values) for name, values in loss.terms.items()}
