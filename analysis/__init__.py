"""Analysis: pure functions from histories and states to arrays; `figures` draws them."""

if __name__ != "popsim.analysis":
    raise ImportError(f"import this package as `popsim.analysis`, not as `{__name__}`.")

import importlib
from typing import TYPE_CHECKING

from popsim.analysis import behaviour as behaviour
from popsim.analysis import dynamics as dynamics
from popsim.analysis import learning as learning
from popsim.analysis import population as population
from popsim.analysis import similarity as similarity
from popsim.analysis import statistics as statistics
from popsim.analysis import trainables as trainables
from popsim.analysis.events import aligned_to as aligned_to
from popsim.analysis.events import time_from_event as time_from_event
from popsim.analysis.windows import in_window as in_window
from popsim.analysis.windows import last_in_window as last_in_window
from popsim.analysis.windows import mean_in_window as mean_in_window
from popsim.analysis.windows import window_mask as window_mask

if TYPE_CHECKING:
    import popsim.analysis.figures as figures  # noqa: F401


def __getattr__(name: str):
    """`figures`, found only when asked for: it needs matplotlib."""
    if name == "figures":
        return importlib.import_module("popsim.analysis.figures")
    raise AttributeError(f"module 'popsim.analysis' has no attribute {name!r}")
