"""The losses at the log points of a run, from its log."""

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from popsim.store.json_files import log_lines

__all__ = ["LONGEST", "LoggedLosses", "last_losses", "logged_losses"]

LONGEST = 1e9
"""The longest plausible training in seconds: thirty years."""


@dataclasses.dataclass(frozen=True)
class LoggedLosses:
    """The total losses at a log point, summed over terms.

    - `batch`: the number of the training batch.
    - `seconds`: the elapsed time of the training.
    - `training`, `validation`: the losses of each member.
    """

    batch: int
    seconds: float
    training: Float[np.ndarray, " member"]
    validation: Float[np.ndarray, " member"]


def last_losses(path: Path, most: int | None = None) -> tuple[LoggedLosses | None, int]:
    """Return the losses of the last log point in a log (None without one), and its number of lines.

    Lines that are not log points, such as a torn one, are ignored.

    **Arguments:**

    - `path`: the log.
    - `most`: the number of lines to read; None for all.
    """
    n_lines, last = 0, None
    if path.exists():
        for line in itertools.islice(log_lines(path), most):
            n_lines += 1
            last = line if line.endswith(b"\n") else last
    try:
        return (None if last is None else logged_losses(json.loads(last))), n_lines
    except ValueError:
        return None, n_lines


def logged_losses(line: Any) -> LoggedLosses:
    """Return the losses in a line of a log."""
    try:
        training, validation = _total(line["loss"]), _total(line["validation_loss"])
        batch, seconds = int(line["batch"]), float(line["seconds"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"a line of a log must be a log point, got {error!r}.") from None
    if not 0 <= seconds < LONGEST:
        raise ValueError(f"the seconds of a log must be from 0 to {LONGEST}, got {seconds}.")
    return LoggedLosses(batch, seconds, training, validation)


def _total(terms: dict[str, Any]) -> Float[np.ndarray, " member"]:
    return np.sum([np.atleast_1d(np.asarray(values, float)) for values in terms.values()], axis=0)
