"""Intervals, comparisons and models over members, on data whose truth is known."""

import jax
import numpy as np
import pytest
from scipy import stats

from popsim.analysis import statistics

KEY = jax.random.key(0)


@pytest.fixture
def generator():
    return np.random.default_rng(7)


def coverage(interval, truth):
    return np.mean((interval.low <= truth) & (truth <= interval.high))


def test_intervals_of_the_mean_are_what_their_names_say(generator):
    values = generator.normal(size=(6, 3))
    deviation = values.std(axis=0, ddof=1)
    high = {
        "standard deviation": values.mean(axis=0) + deviation,
        "standard error": values.mean(axis=0) + deviation / 6**0.5,
        "range": values.max(axis=0),
    }
    for method, expected in high.items():
        np.testing.assert_allclose(statistics.mean_interval(values, method=method).high, expected)
    by_scipy = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    np.testing.assert_allclose(statistics.mean_interval(values, confidence=0.9).low, by_scipy.low)


def test_intervals_of_positive_values_are_positive_and_hold_the_mean_as_often(generator):
    losses = np.exp(1.0 * generator.normal(size=(6, 2000)))
    plain, logarithmic = statistics.mean_interval(losses), statistics.mean_interval(losses, method="log t")
    assert (plain.low < 0).any() and (logarithmic.low > 0).all()
    assert coverage(logarithmic, np.exp(0.5)) > coverage(plain, np.exp(0.5))
    narrow = 100 + generator.normal(size=(6, 50))
    for end in ("low", "high"):
        found = getattr(statistics.mean_interval(narrow, method="log t"), end)
        np.testing.assert_allclose(found, getattr(statistics.mean_interval(narrow), end), rtol=1e-3)
    assert (
        statistics.interval_method(losses) == statistics.interval_method(np.append(losses, np.nan)) == "log t"
        and statistics.interval_method(np.zeros(1)) == "t"
    )


def test_the_geometric_mean_and_its_interval_are_those_of_logarithms(generator):
    losses = np.exp(generator.normal(size=(6, 2000)))
    interval = statistics.geometric_mean_interval(losses, confidence=0.9)
    np.testing.assert_allclose(interval.estimate, stats.gmean(losses))
    by_scipy = stats.ttest_1samp(np.log(losses), 0).confidence_interval(0.9)
    np.testing.assert_allclose(interval.low, np.exp(by_scipy.low))
    np.testing.assert_allclose(interval.high, np.exp(by_scipy.high))
    assert abs(coverage(interval, 1.0) - 0.9) < 4 * (0.1 * 0.9 / 2000) ** 0.5


def test_the_corrected_bootstrap_leans_to_the_long_tail_and_the_key_decides_the_draws(generator):
    values = generator.exponential(size=(15, 40))
    corrected, plain, again, other = (
        statistics.bootstrap_members(values, method=method, n_resamples=500, key=jax.random.key(seed))
        for method, seed in (("BCa", 0), ("percentile", 0), ("BCa", 0), ("BCa", 1))
    )
    assert np.mean(corrected.high > plain.high) > 0.9
    assert (corrected.low == again.low).all() and (corrected.low != other.low).any()


def test_members_and_trials_are_both_drawn():
    """Of two members with two trials, draws are means of 0, 1, 10 or 11 of each of two members."""
    values = np.array([[0.0, 1.0], [10.0, 11.0]])
    found = statistics.bootstrap_members_and_trials(values, confidence=0.999, key=KEY)
    assert (float(found.estimate), float(found.low), float(found.high)) == (5.5, 0.0, 11.0)


def test_paired_differences_have_the_interval_and_the_p_of_their_signs(generator):
    first = generator.normal(size=6)
    second = first + np.array([0.3, 0.1, 0.5, 0.2, 0.4, -0.05])
    found = statistics.paired_comparison(first, second, key=KEY)
    by_scipy = stats.ttest_rel(second, first)
    np.testing.assert_allclose(found.difference, 1.45 / 6)
    np.testing.assert_allclose([found.low, found.high], by_scipy.confidence_interval())
    np.testing.assert_allclose(found.effect_size, by_scipy.statistic / 6**0.5)
    assert found.test.exact and found.test.p == 4 / 64  # this one, the small one negated, and mirror images
    drawn = statistics.paired_comparison(first, second, n_permutations=63, key=KEY)
    assert not drawn.test.exact and len(drawn.test.null) == 63 and drawn.difference == found.difference
    assert np.isnan(statistics.paired_comparison(first, first, key=KEY).effect_size)


def test_a_table_has_a_row_for_each_place():
    values = np.arange(6.0).reshape(2, 3)
    labels = {"condition": ("trial", ["left", "up", "right"])}
    labels = {name: (axis, np.array(called)) for name, (axis, called) in labels.items()}
    table = statistics.long_table({"error": values, "twice": 2 * values}, ("member", "trial"), labels=labels)
    assert list(table) == ["member", "trial", "condition", "error", "twice"]
    row = table[(table.member == 1) & (table.condition == "up")]
    assert row.error.item() == 4.0 and row.twice.item() == 8.0 and len(table) == 6
