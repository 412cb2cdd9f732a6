"""Uncertainty over members: intervals, comparisons and models whose unit of replication is the member."""

from popsim.analysis.statistics.bootstrap import bootstrap_members as bootstrap_members
from popsim.analysis.statistics.bootstrap import (
    bootstrap_members_and_trials as bootstrap_members_and_trials,
)
from popsim.analysis.statistics.interval import Interval as Interval
from popsim.analysis.statistics.interval import mean_interval as mean_interval
from popsim.analysis.statistics.long_table import long_table as long_table
from popsim.analysis.statistics.mixed_model import MixedModel as MixedModel
from popsim.analysis.statistics.mixed_model import fit_mixed_model as fit_mixed_model
from popsim.analysis.statistics.paired import PairedComparison as PairedComparison
from popsim.analysis.statistics.paired import paired_comparison as paired_comparison
from popsim.analysis.statistics.permutation import PermutationTest as PermutationTest
