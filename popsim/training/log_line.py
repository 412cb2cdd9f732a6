"""A logging point as a line of the log."""

from typing import Any

from popsim.loss import LossValues
from popsim.store import as_json_numbers
from popsim.store.run_id import RUN_ID
from popsim.training.log_entry import LogEntry


def log_line(entry: LogEntry, run_id: str) -> dict[str, Any]:
    """What the log keeps of a logging point, as JSON values; numbers that are not finite are null.

    **Arguments:**

    - `entry`: the logging point.
    - `run_id`: the identity of the run.
    """
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
