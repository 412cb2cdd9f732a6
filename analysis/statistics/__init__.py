"""Intervals, comparisons and mixed models whose unit of replication is the member."""

from popsim.analysis.statistics import intervals, mixed_models
from popsim.analysis.statistics.intervals import *
from popsim.analysis.statistics.mixed_models import *

__all__: list[str] = []
__all__ += intervals.__all__
__all__ += mixed_models.__all__
