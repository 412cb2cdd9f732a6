"""Checks of the index of a sweep and of the notes of its cells, which may be damaged or forged.

Both can be made again from the cells, so what does not fit is treated as if it were missing. Types, shapes
and ranges are checked here, from headers where there are some. What fits may still be stale or forged: a note
has the digests of the files that it was made from, and results are compared with the run before they are
shown, see `_index_comparison`. The number of batches of a finished cell, the batch from which on a
member is frozen or stopped, and the last training loss of one that is stopped are not.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from popsim.store.json_files import LARGEST_BYTES
from popsim.sweeps.history_layouts import CellLayout
from popsim.sweeps.sweep import Sweep

MISFITS = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError, OSError)
"""What reading a file may raise that is not as popsim writes it."""

MOST_RESULTS = 1000
LONGEST_NAME = 1000
RESULT = "result."
FIRST_BATCHES = ("frozen_from", "stopped_from")
LOSSES = ("training_loss", "validation_loss")


def most_batches(sweep: Sweep) -> int:
    """Return the largest number of batches of a cell."""
    return max(sweep.axes.get("n_batches", [sweep.experiment.n_batches]))


def largest_note(n_members: int) -> int:
    """Return the size in bytes which the note of a cell does not exceed: some hundred results a member."""
    return min(LARGEST_BYTES, 2**20 + 2**12 * n_members)


def check_forms(forms: Mapping[str, Any], columns: Mapping[str, np.ndarray], n_members: int) -> None:
    """Check the arrays of an index by what its header says of them.

    **Arguments:**

    - `forms`: the dtype and the shape of each array.
    - `columns`: arrays of the shapes and dtypes that are expected, by name. All others are results, with a
        number for each member.
    - `n_members`: the number of members of the sweep.
    """
    expected = {name: (column.dtype.name, list(column.shape)) for name, column in columns.items()}
    if missing := sorted(set(expected) - set(forms)):
        raise ValueError(f"an index must have the columns {', '.join(missing)}.")
    if len(forms) > len(columns) + MOST_RESULTS:
        raise ValueError(f"an index must have at most {MOST_RESULTS} results, got {len(forms)}.")
    for name, form in forms.items():
        dtype, shape = expected.get(name, ("float64", [n_members]))
        if (form.get("dtype"), form.get("shape")) != (dtype, shape):
            raise ValueError(f"{name!r:.100} must be {dtype} of shape {shape}, got {str(form):.100}.")


def check_range(name: str, numbers: np.ndarray, lowest: float, highest: float) -> None:
    """Raise `ValueError` if numbers are not finite, or outside of a range."""
    if not np.all((numbers >= lowest) & (numbers <= highest)):
        raise ValueError(f"{name} must be {lowest} to {highest}.")


def check_results(results: Mapping[str, Float[np.ndarray, " member"]], n_batches: int) -> None:
    """Check the names of results, and the batches from which on members are frozen or stopped.

    **Arguments:**

    - `results`: by name, the results of members whose cells have begun.
    - `n_batches`: the largest number of batches.
    """
    for name in results:
        if not (name.startswith(RESULT) or name in (*FIRST_BATCHES, *LOSSES)) or len(name) > LONGEST_NAME:
            raise ValueError(f"results must be losses or metrics, got {name!r:.100}.")
    for name in FIRST_BATCHES if results else ():
        check_range(name, results[name], -1, n_batches)
        if np.any(results[name] != np.floor(results[name])):
            raise ValueError(f"{name} must be whole numbers.")


def check_layout(layout: CellLayout, n_members: int, n_batches: int) -> None:
    """Raise `ValueError` unless the history of a cell of this size can have a layout."""
    if layout.n_members not in (None, n_members):
        raise ValueError(f"a layout must be of {n_members} members, got {layout.n_members}.")
    if layout.n_batches > n_batches:
        raise ValueError(f"a layout must be of at most {n_batches} batches, got {layout.n_batches}.")


def as_count(value: Any) -> int:
    """Return a count in a note; raises `ValueError` if it is none."""
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"a note must have counts, got {value!r:.100}.")
    return value


def as_seconds(value: Any) -> float:
    """Return a time in a note; raises `ValueError` if it is none."""
    if type(value) not in (int, float):
        raise ValueError(f"a note must have seconds, got {value!r:.100}.")
    return float(value)


def as_results(values: Any) -> dict[str, list[float]]:
    """Return the results in a note, NaN for None; raises `ValueError` if they are none."""
    if not isinstance(values, dict) or len(values) > MOST_RESULTS:
        raise ValueError(f"a note must have results by name, at most {MOST_RESULTS}, got {values!r:.100}.")
    for name, numbers in values.items():
        are_numbers = isinstance(numbers, list) and all(type(n) in (int, float, type(None)) for n in numbers)
        if not are_numbers:
            raise ValueError(f"a note must have numbers of {name!r:.100}, got {numbers!r:.100}.")
    return {name: [np.nan if n is None else float(n) for n in numbers] for name, numbers in values.items()}
