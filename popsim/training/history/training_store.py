"""The folder of a training."""

import bisect
import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from popsim._checks import warn_caller
from popsim.loss import LossValues
from popsim.store import (
    Checkpoint,
    Checkpoints,
    GrowingArrays,
    MismatchError,
    RunFolder,
    append_json_line,
    as_json_numbers,
    keep_json_lines,
    lock_folder,
)
from popsim.store.array_group import remove_arrays
from popsim.store.files import make_folder, saving
from popsim.store.identity import RUN_ID, new_run_id
from popsim.store.run_folder import DescribedRun
from popsim.store.run_parts import RunParts, check_parts
from popsim.training.history.computation import compare_computations, different_settings
from popsim.training.history.history import BATCH, TRAINABLES, TRIALS, VALIDATION, update_axis
from popsim.training.history.history_on_disk import RowsOnDisk, member_axis, member_labels
from popsim.training.history.training_computation import TrainingComputation
from popsim.training.loop.training_plan import TrainingPlan
from popsim.training.observers import LogEntry
from popsim.training.steps.train_state import TrainState, named_state, with_named_state

__all__ = ["TrainingStore", "open_training_store"]

LOG_POINT_SECONDS = 1.0  # between checkpoints at log points, at least


class TrainingStore:
    """The log, history and checkpoints of a training, in one folder.

    A checkpoint records the length of the history at its time; on resuming, the history and the log are cut
    there. All files carry the id of the run. Created by `open_training_store`.
    """

    def __init__(
        self,
        described: DescribedRun,
        computation: TrainingComputation,
        *,
        seconds: float,
        n_kept: int,
        like: dict[str, PyTree],
        by_member: frozenset[str],
        fixed: Mapping[str, Any],
        attributes: dict[str, Any],
    ):
        self.folder = folder = described.folder
        self.seconds_before = 0.0
        self.member_batch_size = computation.plan.member_batch_size
        self._described, self._parts = described, RunParts(folder, described.run_id)
        self.computation = computation
        self._seconds = seconds
        self._checkpoints = Checkpoints(folder.checkpoints, n_kept=n_kept, run_id=described.run_id)
        self._like, self._by_member = like, by_member
        self._fixed, self._attributes = fixed, attributes
        self._saved_at = time.monotonic()
        self._saved_step = -1
        self._logged: list[int] = []  # batch numbers
        self._pending: tuple[int, RunParts] | None = None  # the checkpoint that is being written
        self._arrays: GrowingArrays | None = None
        self.rows: RowsOnDisk

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
        if checkpoint.step > (n_batches := self.computation.plan.training.n_batches):
            raise ValueError(
                f"`n_batches` must be at least the {checkpoint.step} that were made already, got {n_batches}."
            )
        arrays = GrowingArrays.open(self.folder.history, run_id=self._parts.run_id)
        parts = dataclasses.replace(
            self._parts, history=checkpoint.details["history"], n_log_lines=checkpoint.details["n_log_lines"]
        )
        parts.check_history_lengths(arrays.lengths)
        self._logged = [line["batch"] for line in parts.stream_log()][: parts.n_log_lines]
        self._write_parts(parts)  # before newer rows are cut
        arrays.truncate(parts.history)
        keep_json_lines(self.folder.log, lambda line: line["batch"] < checkpoint.step)
        self._use(arrays)
        self.seconds_before = checkpoint.details["seconds"]
        plan = self.computation.plan
        is_same_platform = checkpoint.details.get("platform") == plan.layout.platform
        if plan.trainer.member_batch_size is None and is_same_platform:  # as before, to the last bit
            self.member_batch_size = checkpoint.details["member_batch_size"]
        self._saved_step = checkpoint.step
        return with_named_state(state, checkpoint.arrays)

    def _forms(self, details: dict[str, Any], state: TrainState) -> Mapping[str, jax.ShapeDtypeStruct]:
        now = self.computation.up_to(details["step"])
        if different := different_settings(details["computation"], now):  # also in names and shapes of arrays
            self._refuse(details["step"], different)
        arrays = {**now.arrays, **named_state(state)}
        return {name: jax.ShapeDtypeStruct(array.shape, array.dtype) for name, array in arrays.items()}

    def _compare(self, checkpoint: Checkpoint) -> None:
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
        raise MismatchError(
            f"the checkpoint after batch {step - 1} in {self.folder.path} must be of this training, got "
            f"another one: they differ in {different}. Train into another folder, or undo the change."
        )

    def _start_over(self) -> None:
        """Create an empty history, and remove the remains of an interrupted start."""
        with saving(self.folder.path):
            remove_arrays(self.folder.history)
            self.folder.log.unlink(missing_ok=True)
        self._use(
            GrowingArrays.create(
                self.folder.history, fixed=self._fixed, attributes=self._attributes, run_id=self._parts.run_id
            )
        )

    def _use(self, arrays: GrowingArrays) -> None:
        self._arrays = arrays
        self.rows = RowsOnDisk(
            self.folder.history,
            arrays,
            like=self._like,
            by_member=self._by_member,
            attributes=arrays.attributes,
        )

    def log(self, entry: LogEntry) -> None:
        """Append a log point to the log."""
        append_json_line(self.folder.log, _log_line(entry, self._parts.run_id))
        self._logged.append(entry.batch)

    def is_due(self, *, at_log_point: bool) -> bool:
        """Return whether to write a checkpoint: at log points, at most once a second, else by `seconds`.

        Log points never wait for a slow disk: none is saved while a checkpoint is being written.
        """
        is_wanted = at_log_point and not self._checkpoints.is_writing
        wait = min(self._seconds, LOG_POINT_SECONDS) if is_wanted else self._seconds
        return time.monotonic() - self._saved_at >= wait

    def save(self, state: TrainState, seconds: float, n_rows: dict[str, int]) -> None:
        """Commit the history, and write a checkpoint in the background."""
        step = int(state.step)
        self.wait()
        if step == self._saved_step:
            return
        carry = state.loss_fn_state
        end_batches = {"frozen_from": carry.frozen_from, "stopped_from": carry.stops}
        # The history first: a checkpoint says how many rows it has, and they must be on disk by then. Rows
        # without a checkpoint, after a crash between the two, are cut when the training is resumed.
        self.rows.commit(
            n_rows, **{name: np.asarray(batches).tolist() for name, batches in end_batches.items()}
        )
        computation = self.computation.up_to(step)
        details = {
            "step": step,
            "computation": computation.as_json(),
            "inputs": self.computation.plan.state.model.trained_inputs.sizes,
            "history": n_rows,
            # The log may be ahead of the state that is saved.
            "n_log_lines": bisect.bisect_left(self._logged, step),
            "seconds": seconds,
            "member_batch_size": self.member_batch_size,
            "platform": self.computation.plan.layout.platform,
        }
        self._checkpoints.save(step, {**computation.arrays, **named_state(state)}, details)
        self._saved_at = time.monotonic()
        parts = {"history": details["history"], "n_log_lines": details["n_log_lines"]}
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
        """Write which parts must exist from now on."""
        steps = self._checkpoints.steps()[-self._checkpoints.n_kept :]
        parts = dataclasses.replace(parts, checkpoints=tuple(steps))
        if parts != self._parts:
            parts.write()
            self._parts = parts

    @property
    def resume_hint(self) -> str:
        """A message on what is saved of the training and how to resume."""
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
            if self._arrays is not None:
                self._arrays.close()


@contextlib.contextmanager
def open_training_store(plan: TrainingPlan) -> Iterator[TrainingStore]:
    """Open the store of a training, locked against other processes; its folder is created if missing."""
    trainer, training = plan.trainer, plan.training
    folder, restore = RunFolder(Path(str(trainer.folder))), training.restore_checkpoint
    folder.check_free_for_training(restore=restore)  # before anything is written
    try:
        make_folder(folder.path, parents=True)
    except OSError as error:
        raise ValueError(
            f"`chkpt_dir` must be a folder that can be written, got {trainer.folder}: {error}"
        ) from None
    of_updates = map(update_axis, plan.population_updates.axes)
    by_member = frozenset({BATCH, VALIDATION, TRAINABLES, *of_updates} if training.ensembled else ())
    with lock_folder(folder.path, without_lock=trainer.without_lock):
        folder.check_free_for_training(restore=restore)  # again, as another process may have been here
        folder.remove_left_overs()
        if not folder.training.exists():
            has_run = folder.description.is_file()
            run_id = DescribedRun.read(folder).run_id if has_run else new_run_id()
            RunParts(folder, run_id, of_experiment=has_run).write()
        store = TrainingStore(
            DescribedRun.read(folder),
            TrainingComputation(plan),
            seconds=trainer.checkpoint_seconds,
            n_kept=trainer.n_checkpoints,
            like={
                TRAINABLES: eqx.filter(plan.state.model, plan.recorded),
                TRIALS: eqx.filter(plan.first_trials, eqx.is_array),
            },
            by_member=by_member | ({TRIALS} if plan.trials_by_member else frozenset()),
            fixed=member_axis(plan.count),
            attributes=member_labels(training.members if training.ensembled else None)
            | {"n_trained": plan.n_trained},
        )
        try:
            yield store
        finally:
            store.close()


def _log_line(entry: LogEntry, run_id: str) -> dict[str, Any]:
    """Return a line of the log, as JSON values; numbers that are not finite are null."""
    return {
        RUN_ID: run_id,
        "batch": entry.batch,
        "seconds": round(entry.seconds, 3),
        "loss": _by_term(entry.loss),
        "validation_loss": _by_term(entry.validation_loss),
        "metrics": {name: as_json_numbers(values) for name, values in entry.metrics.items()},
        "learning_rate": as_json_numbers(entry.learning_rate),
        "frozen": entry.frozen.tolist(),
    }


def _by_term(loss: LossValues) -> dict[str, Any]:
    return {name: as_json_numbers(values) for name, values in loss.terms.items()}
