"""The cells of a sweep on disk, and what is known of each: from the note that it leaves, or from its run."""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from popsim.experiments import AbstractExperiment
from popsim.experiments.run_info import RunInfo, logged_losses
from popsim.experiments.running import differences_from_plan, differences_text
from popsim.store import (
    CorruptDataError,
    MismatchError,
    as_json_numbers,
    read_sealed_json,
    write_sealed_json,
)
from popsim.store.files import missing_file
from popsim.store.run_folder import DescribedRun
from popsim.store.run_parts import read_parts, read_summary
from popsim.sweeps.folder import CellFolder
from popsim.sweeps.sweep import Sweep

__all__ = ["CellNote", "SweepCell"]

NOT_STARTED, STOPPED, DAMAGED, FINISHED = STATES = ("not started", "stopped", "damaged", "finished")
FIRST_BATCHES = ("frozen_from", "stopped_from")
LOSSES = ("training_loss", "validation_loss")


@dataclasses.dataclass(frozen=True)
class CellNote:
    """What is known of a cell: its state, how many batches are saved and planned, and what is wrong with it.

    Of its members there are, by name, the last losses and when they became inactive, NaN for what is not
    known, or did not happen; and the metrics, by titles such as "error (mm), noise on, mean".
    """

    state: str = NOT_STARTED
    n_batches: int = 0
    n_planned: int | None = None
    members: Mapping[str, list[float]] = dataclasses.field(default_factory=dict)
    metrics: Mapping[str, list[float]] = dataclasses.field(default_factory=dict)
    problem: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class SweepCell:
    """A cell of a sweep on disk, whether or not it is started.

    - `number`: its number.
    - `folder`: the folder of its run.
    - `part_of`: what its run says of its place in the sweep.
    - `sweep`: the plan of the sweep; None where its experiment is not registered.
    """

    number: int
    folder: CellFolder
    part_of: Mapping[str, Any]
    sweep: Sweep | None

    @functools.cached_property
    def experiment(self) -> AbstractExperiment:
        """The experiment that the plan has for the cell, with its members."""
        assert self.sweep is not None
        return self.sweep.cell(self.number).experiment

    def read(self) -> DescribedRun:
        """Read the description of the run, which must be what the plan says of it, before the run is used."""
        if not self.folder.description.exists():
            raise missing_file(self.folder.description)
        run = DescribedRun.read(self.folder)
        if (described := run.content.get("part_of")) != self.part_of:
            raise MismatchError(
                f"{self.folder.path} must be cell {self.number} of this sweep, got a part of "
                f"{described!r:.200}."
            )
        if self.sweep is None:
            return run
        differences = differences_from_plan(run.content, self.experiment, self.sweep.recording)
        batch_size = run.content.get("member_batch_size", self.sweep.member_batch_size)
        if batch_size != self.sweep.member_batch_size:
            differences.append(("member_batch_size", batch_size, self.sweep.member_batch_size))
        if differences:
            raise MismatchError(
                f"{run.path} must be as the sweep plans it: {differences_text(differences):.500}."
            )
        return run

    def look(self) -> CellNote:
        """Return what is known of the cell: as its note says, if that is of its run as it is now."""
        with contextlib.suppress(ValueError, OSError):
            return self.read_note()
        try:
            return self._inspect() if self.folder.is_started else CellNote()
        except (ValueError, OSError) as error:
            return CellNote(DAMAGED, problem=str(error)[:300])

    def read_note(self) -> CellNote:
        """Read the `cell.json` of a finished cell; raises if it is not of this cell and its run now."""
        note = read_sealed_json(self.folder.note)
        expected = {**self.part_of, **self._digests()}
        if {name: note.get(name) for name in expected} != expected:
            raise CorruptDataError(f"{self.folder.note} must be of this cell, and of its run as it is now.")
        members, metrics = (
            {
                name: [np.nan if n is None else float(n) for n in numbers]
                for name, numbers in note[part].items()
            }
            for part in ("members", "metrics")
        )
        return CellNote(FINISHED, note["n_batches"], note["n_batches"], members, metrics)

    def write_note(self) -> None:
        """Write the `cell.json` of a finished cell, unless it is there; its run must be locked."""
        note = self._inspect()
        if note.state != FINISHED:
            return
        content = {
            **self.part_of,
            **self._digests(),
            "n_batches": note.n_batches,
            "members": {name: as_json_numbers(values) for name, values in note.members.items()},
            "metrics": {name: as_json_numbers(values) for name, values in note.metrics.items()},
        }
        with contextlib.suppress(ValueError, OSError):
            if read_sealed_json(self.folder.note) == content:
                return
        write_sealed_json(self.folder.note, content)

    def _digests(self) -> dict[str, str]:
        """Return the digests of the files on which a `cell.json` depends."""
        folder = self.folder
        files = {
            "run": folder.description,
            "summary": folder.summary,
            "history": folder.history / "zarr.json",
        }
        return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}

    def _inspect(self) -> CellNote:
        """Read what is known of the cell from its run; raises what names its damage."""
        run = self.read()
        info = RunInfo(run)
        if run.content.get("finished") and not info.is_finished:
            raise missing_file(self.folder.summary)
        if info.history_damage:
            raise CorruptDataError(info.history_damage)
        state = FINISHED if info.is_finished else STOPPED
        if self.sweep is None:
            return CellNote(state, info.n_saved, info.n_batches)
        n_members = self.experiment.n_members
        members = {
            name: [float(batches.get(i, np.nan)) for i in range(n_members)]
            for name, batches in zip(FIRST_BATCHES, (info.frozen, info.stopped), strict=True)
        }
        members |= last_losses(info)
        metrics = member_metrics(self.experiment, read_summary(run)) if info.is_finished else {}
        if wrong := next((name for name, numbers in members.items() if len(numbers) != n_members), None):
            raise CorruptDataError(f"{wrong} of {self.folder.path} must be of {n_members} members.")
        return CellNote(state, info.n_saved, info.n_batches, members, metrics)

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


def last_losses(info: RunInfo) -> dict[str, list[float]]:
    """Return the last losses of the members of a run, by name."""
    parts, last, training = info.parts, None, None
    # The log of a run that is not finished may be ahead of what is saved.
    for line in itertools.islice(parts.stream_log(), None if info.is_finished else parts.n_log_lines):
        last = line
        if info.stopped:  # their last losses are earlier ones
            now = logged_losses(line).training
            training = now if training is None else np.where(np.isfinite(now), now, training)
    if last is None:
        return {}
    losses = logged_losses(last)
    training = losses.training.copy() if training is None else training
    training[list(info.frozen)] = np.nan
    return dict(zip(LOSSES, (training.tolist(), losses.validation.tolist()), strict=True))


def member_metrics(experiment: AbstractExperiment, summary: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the metrics of the members in a summary, by name."""
    metrics = {}
    try:
        results = experiment.table(dict(summary))
        for column in results.columns if results.has_members else ():
            numbers = results.of_members(column)
            if numbers.shape == (experiment.n_members,):
                heading = f", {column.heading}" if column.heading else ""
                metrics[f"{column.title}{heading}"] = numbers.tolist()
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise CorruptDataError(f"a summary must be of {experiment.name}: {error!r:.200}") from error
    return metrics
