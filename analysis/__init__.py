"""Analysis: pure functions from saved histories and states to arrays, and `figures` to draw them.

What other packages compute raises `ImportError` where one is missing, and says how to install it.
"""

if __name__ != "popsim.analysis":
    raise ImportError(f"import this package as `popsim.analysis`, not as `{__name__}`.")

import importlib
from typing import TYPE_CHECKING

from popsim.analysis import behaviour, dynamics, learning, neural_activity, similarity, statistics, trainables
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
