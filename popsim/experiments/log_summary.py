"""The log of a run, read line by line: how long it is, and the losses at its end."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from popsim.store.json_files import log_lines, parse_json

LONGEST = 1e9
"""How long a training goes on, in seconds, at most: thirty years."""


@dataclasses.dataclass(frozen=True)
class LoggedLosses:
    """The losses of a logging point, their terms added up.

    - `batch`: the number of the training batch.
    - `seconds`: for how long the training had gone on.
    - `training`, `validation`: the losses of each member.
    """

    batch: int
    seconds: float
    training: Float[np.ndarray, " member"]
    validation: Float[np.ndarray, " member"]


def last_losses(path: Path) -> tuple[LoggedLosses | None, int]:
    """The losses of the last logging point in a log, None if there is none, and the number of its lines.

    A line that is no logging point, such as a torn one, is left out of account.

    **Raises:** `DamagedError` as `log_lines`.
    """
    n_lines, last = 0, None
    if os.path.lexists(path):
        for line in log_lines(path):
            n_lines += 1
            last = line if line.endswith(b"\n") else last
    try:
        return (None if last is None else logged_losses(parse_json(last))), n_lines
    except ValueError:
        return None, n_lines


def damaged_lines(path: Path) -> list[int]:
    """The numbers of the lines of a log that are no logging points; not of a last one that was torn.

    **Raises:** `DamagedError` as `log_lines`.
    """
    damaged = []
    for number, line in enumerate(log_lines(path), 1):
        try:
            logged_losses(parse_json(line))
        except ValueError:
            if line.endswith(b"\n"):
                damaged.append(number)
    return damaged


def logged_losses(line: Any) -> LoggedLosses:
    """The losses that a line of a log tells.

    **Raises:** `ValueError` if it is no logging point.
    """
    try:
        training, validation = _total(line["loss"]), _total(line["validation_loss"])
        batch, seconds = int(line["batch"]), float(line["seconds"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"a line of a log must be a logging point, got {error!r}.") from None
    if not 0 <= seconds < LONGEST:
        raise ValueError(f"the seconds of a log must be from 0 to {LONGEST}, got {seconds}.")
    return LoggedLosses(batch, seconds, training, validation)


def _total(terms: dict[str, Any]) -> Float[np.ndarray, " member"]:
    return np.sum([np.atleast_1d(np.asarray(values, float)) for values in terms.values()], axis=0)
