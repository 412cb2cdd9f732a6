"""Intervals that are measured, compared and produced."""

from popsim.tasks.timing import interval_production, intervals
from popsim.tasks.timing.interval_production import *
from popsim.tasks.timing.intervals import *

__all__: list[str] = []
__all__ += interval_production.__all__
__all__ += intervals.__all__
