"""The results of the members of a cell, read from the log and the summary of its run."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from popsim.experiments import AbstractExperiment
from popsim.experiments.run_info import LoggedLosses, last_losses, logged_losses
from popsim.store import CorruptDataError, RunFolder, read_sealed_json
from popsim.store.json_files import LARGEST_BYTES
from popsim.store.run_folder import DescribedRun
from popsim.store.run_parts import read_parts
from popsim.sweeps._index_checks import RESULT
from popsim.sweeps.cells import SweepCell

FIRST_BLOCK = 2**14  # bytes of the end of a log, in which its last line mostly is

Members = Mapping[str, Float[np.ndarray, " member"]]


def member_metrics(experiment: AbstractExperiment, summary: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the metrics of the members in a summary, by the name of their column.

    **Raises:** `CorruptDataError` if it is not a summary of the experiment.
    """
    try:
        results = experiment.table(dict(summary))
        columns = results.columns if results.has_members else []
        named = {
            f"{RESULT}{column.title}{', ' if column.heading else ''}{column.heading}": results.of_members(
                column
            )
            for column in columns
        }
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise CorruptDataError(f"a summary must be of {experiment.name}: {error!r:.200}") from error
    return {name: numbers for name, numbers in named.items() if numbers.shape == (experiment.n_members,)}


def agrees(cell: SweepCell, members: Members, seconds: float) -> bool:
    """Return whether results of a cell are what its log and its summary say.

    **Arguments:**

    - `cell`: the cell, finished or not.
    - `members`: by name, results of the members; NaN for those that are not known.
    - `seconds`: how long it trained.

    **Raises:** `ValueError` or `OSError` if the log or the summary cannot be read.
    """
    folder, unknown = cell.folder, np.full(cell.experiment.n_members, np.nan)
    if not folder.is_finished:
        losses, _ = last_losses(folder.log, read_parts(DescribedRun.read(folder)).n_log_lines)
        return _have_losses(members, losses, unknown)
    line = json.loads(last_line(folder.log))
    losses = logged_losses(line)
    is_frozen = members.get("frozen_from", unknown) >= 0
    if losses.seconds != seconds or line.get("frozen") != is_frozen.tolist():
        return False
    expected = member_metrics(cell.experiment, read_sealed_json(folder.summary))
    results = {name for name in {*members, *expected} if name.startswith(RESULT)}
    return _have_losses(members, losses, unknown) and all(
        _are_same(members.get(name, unknown), expected.get(name, unknown)) for name in results
    )


def check_losses(cell: RunFolder, losses: LoggedLosses) -> None:
    """Check losses of the log, which has no checksum, against the history, which has.

    **Raises:** `CorruptDataError` naming the log if they are others; what is not finite is not compared.
    """
    import popsim.training

    dataset = popsim.training.open_history(cell.path) if cell.history.is_dir() else {}
    for name, axis, logged in (
        ("loss", "batch", losses.training),
        ("validation_loss", "validation_batch", losses.validation),
    ):
        if name not in dataset or losses.batch not in dataset[axis].values:
            continue
        stored = dataset[name].sel({axis: losses.batch}).values.astype(float).sum(axis=-1)
        valid = (
            np.isfinite(stored) & np.isfinite(logged) if stored.shape == logged.shape else np.ones(1, bool)
        )
        if stored.shape != logged.shape or not np.allclose(logged[valid], stored[valid], rtol=1e-9, atol=0):
            raise CorruptDataError(f"{cell.log} must have the losses of {cell.history}; it is damaged.")


def _have_losses(members: Members, losses: LoggedLosses | None, unknown: np.ndarray) -> bool:
    """Whether results have these losses; where a member was stopped, its last one in training is earlier."""
    validation, training = (members.get(f"{kind}_loss", unknown) for kind in ("validation", "training"))
    if losses is None:
        return not np.any(np.isfinite([validation, training]))
    is_trained = ~(members.get("stopped_from", unknown) >= 0)
    expected = losses.training if losses.training.shape == is_trained.shape else unknown
    return _are_same(validation, losses.validation) and _are_same(training[is_trained], expected[is_trained])


def _are_same(numbers: np.ndarray, expected: np.ndarray) -> bool:
    """Whether numbers are equal; JSON has none that are not finite."""
    first, second = (np.where(np.isfinite(each), each, np.nan) for each in (numbers, expected))
    return np.array_equal(first, second, equal_nan=True)


def last_line(log: Path) -> bytes:
    """Return the last line of a log that is complete, without reading the others.

    **Raises:** `CorruptDataError` if there is none of at most some MB.
    """
    with log.open("rb") as file:
        n_bytes = file.seek(0, os.SEEK_END)
        size = FIRST_BLOCK
        while size < 2 * LARGEST_BYTES:
            file.seek(max(0, n_bytes - size))
            lines = file.read(size).split(b"\n")
            if len(lines) > 2 or (len(lines) == 2 and n_bytes <= size):
                return lines[-2]
            if n_bytes <= size:
                break
            size *= 8
    raise CorruptDataError(f"{log} must have a line for each log point; it is damaged.")
