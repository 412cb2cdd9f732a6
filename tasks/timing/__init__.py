"""Intervals that are measured, compared and produced."""

from popsim.tasks.timing import ideal_intervals, ideal_timing, interval_production, intervals, ready_set_go
from popsim.tasks.timing.ideal_intervals import *
from popsim.tasks.timing.ideal_timing import *
from popsim.tasks.timing.interval_production import *
from popsim.tasks.timing.intervals import *
from popsim.tasks.timing.ready_set_go import *

__all__: list[str] = []
__all__ += ideal_intervals.__all__
__all__ += ideal_timing.__all__
__all__ += interval_production.__all__
__all__ += intervals.__all__
__all__ += ready_set_go.__all__
