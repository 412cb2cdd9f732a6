"""The comparison of runs over the seeds that both have."""

import numpy as np
import pytest
from scipy import stats
from small_experiment import Sum
from swept_runs import Swept

from popsim.analysis.figures import draw_member_values
from popsim.report.comparison import paired_table, shared_members


def test_members_pair_by_their_seed_and_by_settings_that_both_vary():
    first, second = shared_members(Sum(n_members=4), Sum(n_members=3, first_member=2))
    assert (first.tolist(), second.tolist()) == ([2, 3], [0, 1])
    assert shared_members(Sum(seed=0), Sum(seed=1))[0].size == 0
    rates = Swept(n_members=4, grid=(("rate", (1e-3, 1e-2)),))
    reverse = Swept(n_members=4, grid=(("rate", (1e-2, 1e-3)),))
    first, second = shared_members(rates, reverse)
    assert (first.tolist(), second.tolist()) == ([0, 1, 2, 3], [2, 3, 0, 1])
    assert shared_members(rates, Swept(n_members=2))[0].size == 0  # each seed stands there twice


def test_changes_of_positive_values_are_ratios_and_of_others_differences():
    losses = np.array([1e-3, 2e-3, 5e-3]), np.array([2.4e-3, 5.5e-3, 9.0, np.nan])  # the third is no partner
    shift = np.array([-1.0, 0.5, 2.0]), np.array([0.0, 1.0, 2.5, 3.0])
    experiments = {"a": Sum(n_members=3), "b": Sum(n_members=4, first_member=1)}
    values = {"loss": losses, "shift": shift, "unknown": (np.zeros(0), shift[1])}
    table = paired_table(experiments, values)
    loss, moved = (list(row.values) for row in table.rows)
    logs = np.log(losses[1][:2]) - np.log(losses[0][1:])
    interval = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    low, high = np.exp([interval.low, interval.high])
    assert loss == ["a to b", "2", f"× {np.exp(logs.mean()):.3g} ({low:.3g} to {high:.3g})", "0.5"]
    assert moved[2].startswith("-0.75 (") and moved[3] == "0.5"
    assert paired_table({"a": Sum(seed=0), "b": Sum(seed=1)}, values) is None


def test_a_logarithmic_strip_has_its_bar_at_the_geometric_mean(ax):
    draw_member_values(ax, [np.array([1.0, 100.0])], names=["a"], label="error (mm)", scale="log")
    assert ax.get_xscale() == "log"
    np.testing.assert_allclose(ax.lines[-1].get_xdata(), [10.0, 10.0])
    with pytest.raises(ValueError, match="above zero"):
        draw_member_values(ax, [np.zeros(2)], names=["a"], label="", scale="log")
