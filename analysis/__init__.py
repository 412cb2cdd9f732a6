"""Analysis: pure functions from saved histories and states to arrays, and `figures` to draw them.

Numbers are in SI units. These arguments mean the same everywhere:

- `activity`, `hidden`: of the units, such as `states.network.hidden` of an ensemble.
- `dt`: the time step in s; row t of a time course is at time (t + 1) dt.
- `trials`, `event`: stacked trials, and the name of an event in them, such as "go cue".
- `batch`: the training batch of each row of a history, from 0, ascending; -1 is before training.
- `confidence`: of an interval, above 0 and below 1.
- `key`: a random key for what is drawn: resamples, permutations, folds or starts.

What other packages compute raises `ImportError` where one is missing, and says how to install it.
"""

if __name__ != "popsim.analysis":
    raise ImportError(f"import this package as `popsim.analysis`, not as `{__name__}`.")

import importlib
from typing import TYPE_CHECKING

from popsim.analysis import (
    behaviour,
    dynamics,
    learning,
    neural_activity,
    optimal_control,
    similarity,
    statistics,
    trainables,
)
from popsim.analysis.trial_times import (
    align_to_event,
    last_value_in_window,
    mask_outside_window,
    mean_in_window,
    time_from_event,
    window_mask,
)

__all__ = [
    "align_to_event",
    "behaviour",
    "dynamics",
    "figures",
    "mask_outside_window",
    "last_value_in_window",
    "learning",
    "mean_in_window",
    "neural_activity",
    "optimal_control",
    "similarity",
    "statistics",
    "time_from_event",
    "trainables",
    "window_mask",
]


if TYPE_CHECKING:
    import popsim.analysis.figures as figures  # noqa: F401


def __getattr__(name: str):
    """Import `figures` on first use, because it needs matplotlib."""
    if name == "figures":
        return importlib.import_module("popsim.analysis.figures")
    raise AttributeError(f"module 'popsim.analysis' has no attribute {name!r}")
