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
