"""The names of metrics in the table of a sweep."""

import re
from collections.abc import Iterable

RESULT = "result."  # before the names of metrics in the index
METRIC = "result_"
FIRST_BATCHES = ("frozen_from", "stopped_from")
LOSSES = ("training_loss", "validation_loss")


def metric_columns(stored_names: Iterable[str]) -> dict[str, str]:
    """Return the column of each metric, as an identifier that `pandas.DataFrame.query` takes.

    **Arguments:**

    - `stored_names`: the names of the metrics in the index, such as "result.error (mm), noise on, mean",
        which becomes "result_error_mm_noise_on_mean".

    **Returns:** the stored names by column; where two become the same, the second ends with "_2".
    """
    columns: dict[str, str] = {}
    for stored in stored_names:
        words = stored.removeprefix(RESULT).replace("/", " per ").replace("%", " percent ")
        name = base = METRIC + re.sub(r"\W+", "_", words, flags=re.ASCII).strip("_")
        number = 2
        while name in columns:
            name, number = f"{base}_{number}", number + 1
        columns[name] = stored
    return columns


def metric_title(stored: str) -> str:
    """Return a metric as text, such as "error (mm), noise on, mean"."""
    return stored.removeprefix(RESULT)
