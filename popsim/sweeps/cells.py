"""The cells of a sweep on disk, and what is known of each from its run."""

import dataclasses
import functools
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from popsim.experiments import AbstractExperiment
from popsim.experiments.run_info import logged_losses
from popsim.experiments.run_options import CODE
from popsim.experiments.running import differences_from_plan, differences_text
from popsim.store import Checkpoints, CorruptDataError, MismatchError, RunFolder
from popsim.store.array_group import CommitRecord
from popsim.store.files import missing_file
from popsim.store.identity import RUN_ID, check_run_id, lock_holder
from popsim.store.json_files import log_lines
from popsim.store.run_folder import DescribedRun
from popsim.store.run_parts import read_parts, read_summary
from popsim.sweeps.sweep import Sweep

__all__ = ["CellNote", "SweepCell"]

FINISHED, TRAINED, STOPPED = "finished", "being trained", "stopped"
NOT_STARTED, DAMAGED = "not started", "damaged"
STATES = (FINISHED, TRAINED, STOPPED, NOT_STARTED, DAMAGED)
FIRST_BATCHES = ("frozen_from", "stopped_from")
LOSSES = ("training_loss", "validation_loss")


@dataclasses.dataclass(frozen=True)
class CellNote:
    """What is known of a cell: its state, how many batches are saved and planned, and what is wrong with it.

    - `state`: what its files are; not whether it is being trained.
    - `members`: by name, the last losses of its members, and when they became inactive; NaN for what is not
        known, or did not happen.
    - `code`: the digest of the user's modules with which it began.
    - `holder`: the process that trains it, such as "process 123 on 'host'".
    """

    state: str = NOT_STARTED
    n_batches: int = 0
    n_planned: int | None = None
    members: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    code: str = ""
    problem: str = ""
    holder: str | None = None

    @property
    def present_state(self) -> str:
        """The state, or "being trained"."""
        return TRAINED if self.holder else self.state


@dataclasses.dataclass(frozen=True, eq=False)
class SweepCell:
    """A cell of a sweep on disk, whether or not it is started.

    - `number`: its number.
    - `folder`: the folder of its run.
    - `part_of`: what its run says of its place in the sweep.
    - `sweep`: the plan of the sweep; None where its experiment is not registered.
    """

    number: int
    folder: RunFolder
    part_of: Mapping[str, Any]
    sweep: Sweep | None

    @functools.cached_property
    def experiment(self) -> AbstractExperiment:
        """The experiment that the plan has for the cell, with its members."""
        assert self.sweep is not None
        return self.sweep.cell(self.number).experiment

    @property
    def is_started(self) -> bool:
        """Whether there is anything of a run or its training."""
        files = (self.folder.description, self.folder.training, self.folder.summary)
        return any(map(os.path.lexists, files)) or bool(self.folder.existing_training_files())

    def _read_description(self) -> DescribedRun:
        """Read the description of the run, which must be of this cell."""
        if not self.folder.description.exists():
            raise missing_file(self.folder.description)
        run = DescribedRun.read(self.folder)
        if (part_of := run.content.get("part_of")) != self.part_of:
            raise MismatchError(
                f"{self.folder.path} must be cell {self.number} of this sweep, got a part of "
                f"{part_of!r:.200}."
            )
        return run

    def read(self) -> DescribedRun:
        """Read the description of the run, which must be what the plan says of it, before the run is used."""
        run = self._read_description()
        if self.sweep is None:
            return run
        differences = differences_from_plan(run.content, self.experiment, self.sweep.recording)
        size, planned = run.content.get("member_batch_size"), self.sweep.member_batch_size
        differences += [("member_batch_size", size, planned)] * (size != planned)
        if differences:
            raise MismatchError(
                f"{run.path} must be as the sweep plans it: {differences_text(differences):.500}."
            )
        return run

    def look(self) -> CellNote:
        """Return what is known of the cell from the ends of its files; `visible_damage` looks closer."""
        try:
            note = self._look() if self.is_started else CellNote()
        except (ValueError, OSError) as error:
            note = CellNote(DAMAGED, problem=str(error)[:300])
        holder = None if note.state == FINISHED else lock_holder(self.folder.path)
        return dataclasses.replace(note, holder=holder)

    def _look(self) -> CellNote:
        run = self._read_description()
        # Without this entry, it was killed after its summary, and is finished when it is resumed.
        is_finished, settings = bool(run.content.get("finished")), run.content["settings"]
        n_batches = 0 if is_finished else max(Checkpoints(self.folder.checkpoints).steps(), default=0)
        attributes = {}
        if is_finished or n_batches or os.path.lexists(self.folder.history / "zarr.json"):
            record = CommitRecord.read(self.folder.history, run.run_id)
            n_batches = record.lengths["batch"] if is_finished else n_batches
            attributes = record.attributes
        never = np.full(settings["n_members"], -1)
        members = {name: np.array(attributes.get(name, never), float) for name in FIRST_BATCHES}
        for first in members.values():
            first[first < 0] = np.nan
        members |= _last_losses(run, *members.values(), must_exist=is_finished)
        if is_finished:
            read_summary(run)  # to see that it is whole
        state, code = FINISHED if is_finished else STOPPED, run.content.get(CODE, "")
        return CellNote(state, n_batches, settings["n_batches"], members, code)

    def visible_damage(self) -> str:
        """Return what is wrong with the cell, as far as is seen without reading it all; empty if nothing."""
        try:
            run = self.read()
            damage = read_parts(run).damage(every_byte=False)
            if run.is_finished:
                read_summary(run)
        except (ValueError, OSError) as error:
            return str(error)
        return next(map(str, damage.values()), "")

    def metrics(self) -> dict[str, np.ndarray]:
        """Return the metrics of the members of a finished cell by titles such as "error (mm), noise on"."""
        results = self.experiment.table(read_summary(self._read_description()))
        return {
            f"{column.title}{', ' * bool(column.heading)}{column.heading}": numbers
            for column in (results.columns if results.has_members else ())
            if (numbers := results.of_members(column)).shape == (self.experiment.n_members,)
        }


def _last_losses(
    run: DescribedRun, frozen_from: np.ndarray, stopped_from: np.ndarray, *, must_exist: bool
) -> dict[str, np.ndarray]:
    """Return the last losses of the members of a run, by name; of a stopped one, those before it stopped."""
    log = run.folder.log
    lines = [line for line in log_lines(log) if line.endswith(b"\n")] if must_exist or log.exists() else []
    if not lines:
        return {}
    try:
        last = json.loads(lines[-1])
        losses = logged_losses(last)
        training = losses.training.copy()
        for line in reversed(lines[:-1] if np.isfinite(stopped_from).any() else []):
            training = np.where(np.isfinite(training), training, logged_losses(json.loads(line)).training)
    except ValueError as error:
        raise CorruptDataError(f"{log} must be as popsim wrote it; it is damaged: {error}") from None
    check_run_id(last.get(RUN_ID), run.run_id, f"the last line of {log}")
    training[np.isfinite(frozen_from)] = np.nan
    return dict(zip(LOSSES, (training, losses.validation), strict=True))
