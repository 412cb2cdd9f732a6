"""Intervals, comparisons and mixed models whose unit of replication is the member."""

from popsim.analysis.statistics import comparisons, intervals
from popsim.analysis.statistics.comparisons import *
from popsim.analysis.statistics.intervals import *

__all__: list[str] = []
__all__ += comparisons.__all__
__all__ += intervals.__all__
