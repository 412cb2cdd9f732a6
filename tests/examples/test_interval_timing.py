"""The best estimates of intervals, by popsim and by the reference, and the gates of produced intervals."""

import jax.numpy as jnp
import numpy as np
import pytest

from popsim.distributions import Uniform
from popsim.tasks import bayes_least_squares

interval_timing = pytest.importorskip("interval_timing", reason="examples/ is not beside the tests")
reference = pytest.importorskip("references.interval_timing")
SHOWN = np.linspace(0.4, 1.4, 21)


@pytest.mark.parametrize("prior", interval_timing.PRIORS.values(), ids=interval_timing.PRIORS)
def test_the_estimates_of_popsim_are_those_of_the_reference(prior):
    for fraction in (0.05, 0.1, 0.2):
        found = bayes_least_squares(jnp.asarray(SHOWN), Uniform(*prior), fraction)
        np.testing.assert_allclose(found, reference.estimate(SHOWN, *prior, fraction), rtol=1e-5)


@pytest.mark.full
def test_the_reference_regresses_to_the_mean_and_has_the_error_of_drawn_intervals():
    prior = interval_timing.PRIORS["long"]
    estimates = reference.estimate(np.linspace(0.75, 1.4, 21), *prior, 0.1)
    assert np.all(np.diff(estimates) > 0) and prior[0] < estimates[0] < estimates[-1] < prior[1]
    np.testing.assert_allclose(reference.estimate(SHOWN[10:12], 0.1, 5.0, 0.01), SHOWN[10:12], rtol=1e-3)
    rng = np.random.default_rng(0)
    intervals = rng.uniform(*prior, 40000)
    measured = intervals * (1 + 0.1 * rng.standard_normal(40000))
    squares = (reference.estimate(measured[:4000], *prior, 0.1) - intervals[:4000]) ** 2
    np.testing.assert_allclose(squares.mean() ** 0.5, reference.smallest_error(*prior, 0.1), rtol=0.05)


def timed(means, squares):
    shown = interval_timing.measurements(interval_timing.PRIORS["long"])
    estimates = reference.estimate(shown, *interval_timing.PRIORS["long"], 0.1)
    rng = np.random.default_rng(1)
    best = 0.079**2 * rng.chisquare(1, 4000)
    kinds = {"best": estimates, "shown": shown}
    return interval_timing.Timed(
        shown,
        np.stack([kinds[kind] for kind in means]),
        estimates,
        np.stack([factor**2 * best for factor in squares]),
        best,
        1.3 * best,
    )


@pytest.mark.parametrize(
    ("means", "factors", "failed"),
    [
        (("best", "shown"), (1.02, 1.3), 0),
        (("shown", "best"), (1.3, 1.02), 4),
        (("best", "best"), (0.8, 1.3), 2),
    ],
)
def test_gates_pass_for_the_best_estimates_and_controls_for_measurements(means, factors, failed):
    rows = interval_timing.prior_rows("long", timed(means, factors))
    checked = [row for row in rows if row.gate is not None and "error of" not in row.condition]
    assert sum(row.passed == row.must_fail for row in checked) == failed


@pytest.mark.parametrize("prior", interval_timing.PRIORS.values(), ids=interval_timing.PRIORS)
def test_the_crossing_that_the_loss_asks_for_is_within_the_published_percent_of_the_estimate(prior):
    """The mean of the ramps s / t that still count, each divided by the steps that count in its trial."""
    t, s = np.linspace(*prior, 2001), np.linspace(0.4, 1.4, 2001)
    shown = interval_timing.measurements(prior)
    likelihood = np.exp(-(((shown[:, None] - t) / (0.1 * t)) ** 2) / 2) / t
    counts = np.mean(interval_timing.FIXATION) + shown[:, None] + 1.2 * t
    weights = (likelihood / counts)[:, None] * (s[:, None] <= 1.2 * t)
    output = s * (weights @ (1 / t)) / np.maximum(weights.sum(-1), 1e-300)
    crossing = s[np.argmax(output >= 1, axis=1)]
    away = np.abs(crossing / reference.estimate(shown, *prior, 0.1) - 1).max()
    assert 0.009 < away < 0.0131  # to the spacing of s


@pytest.mark.parametrize("prior", interval_timing.PRIORS.values(), ids=interval_timing.PRIORS)
def test_who_regresses_half_as_much_misses_both_gates(prior):
    rng = np.random.default_rng(0)
    intervals = rng.uniform(*prior, 4000)
    measured = intervals * (1 + 0.1 * rng.standard_normal(4000))
    best = reference.estimate(measured, *prior, 0.1)
    squares, best_squares = ((each - intervals) ** 2 for each in ((measured + best) / 2, best))
    assert not interval_timing.error_row("half", squares, best_squares).passed
    shown = interval_timing.measurements(prior)
    estimates = reference.estimate(shown, *prior, 0.1)
    half = (shown + estimates) / 2
    assert not interval_timing.deviation_row("half", prior[1] - prior[0], half, estimates).passed
