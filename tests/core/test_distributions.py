"""The statistics of 2,000 draws of each distribution."""

import equinox as eqx
import jax
import numpy as np
import pytest

from popsim.distributions import Choice, Constant, Normal, TruncatedExponential, Uniform, as_distribution

N = 2000
SHARES = np.array([0.1, 0.25, 0.5, 0.75, 0.9])


def draws(distribution, key):
    sample = eqx.filter_jit(eqx.filter_vmap(lambda key: distribution.sample(key=key)))
    return np.asarray(sample(jax.random.split(key, N)))


def exponential_quantiles(low, high, scale):
    return low - scale * np.log1p(-SHARES * -np.expm1(-(high - low) / scale))


CONTINUOUS = {
    "uniform": (Uniform(-1.0, 3.0), -1.0 + 4.0 * SHARES),
    "normal": (Normal(2.0, 0.5), 2.0 + 0.5 * np.array([-1.28155, -0.67449, 0.0, 0.67449, 1.28155])),
    "exponential": (TruncatedExponential(0.3, 1.5, 0.4), exponential_quantiles(0.3, 1.5, 0.4)),
    "exponential, hardly cut": (TruncatedExponential(0.0, 9.0, 0.5), exponential_quantiles(0.0, 9.0, 0.5)),
    "exponential, all but even": (TruncatedExponential(1.0, 2.0, 100.0), 1.0 + SHARES),
}


@pytest.mark.parametrize("distribution, quantiles", CONTINUOUS.values(), ids=CONTINUOUS)
def test_as_many_draws_as_there_should_be_are_below_each_quantile(distribution, quantiles, getkey):
    drawn = draws(distribution, getkey())
    low, high = distribution.bounds()
    assert drawn.shape == (N,) and drawn.dtype == np.float32
    assert low <= drawn.min() and drawn.max() <= high and len(np.unique(drawn)) > 0.99 * N
    below = (drawn[:, None] < quantiles).mean(axis=0)
    np.testing.assert_array_less(np.abs(below - SHARES), 4 * np.sqrt(SHARES * (1 - SHARES) / N) + 2e-3)


MOMENTS = {
    "uniform": (Uniform(-1.0, 3.0), 1.0, 4.0 / 12**0.5),
    "normal": (Normal(2.0, 0.5), 2.0, 0.5),
    "exponential, hardly cut": (TruncatedExponential(0.1, 9.0, 0.5), 0.6, 0.5),
    "choice": (Choice([1.0, 2.0, 6.0]), 3.0, (14 / 3) ** 0.5),
    "constant": (Constant(0.3), 0.3, 0.0),
}


@pytest.mark.parametrize("distribution, mean, std", MOMENTS.values(), ids=MOMENTS)
def test_mean_and_standard_deviation(distribution, mean, std, getkey):
    drawn = draws(distribution, getkey()).astype(np.float64)
    np.testing.assert_allclose(drawn.mean(), mean, atol=4 * std / N**0.5 + 1e-6)
    np.testing.assert_allclose(drawn.std(), std, rtol=0.1, atol=1e-6)


def test_a_choice_takes_each_value_as_often(getkey):
    drawn = draws(Choice([5.0, 1.0, 3.0]), getkey())
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == [1.0, 3.0, 5.0]
    np.testing.assert_allclose(counts / N, 1 / 3, atol=4 * (2 / 9 / N) ** 0.5)
    pairs = draws(Choice([[0.0, 1.0], [2.0, 3.0]]), getkey())
    assert {tuple(pair) for pair in pairs.tolist()} == {(0.0, 1.0), (2.0, 3.0)}


def test_coordinates_are_drawn_apart(getkey):
    for distribution in (Uniform([0.0, 0.0], [1.0, 1.0]), Normal([0.0, 0.0], [1.0, 1.0])):
        assert abs(np.corrcoef(draws(distribution, getkey()).T)[0, 1]) < 4 / N**0.5


def test_waiting_tells_little_where_the_scale_is_short_of_the_bounds(getkey):
    """The hazard of the first half of the interval is that of an exponential, 1 / scale."""
    drawn = draws(TruncatedExponential(0.5, 4.5, 0.5), getkey()) - 0.5
    for start in (0.0, 0.5, 1.0):
        still = drawn[drawn >= start]
        fraction = np.mean(still < start + 0.1)
        np.testing.assert_allclose(fraction, -np.expm1(-0.2), atol=4 * (0.15 / len(still)) ** 0.5)


def test_a_number_is_the_distribution_that_always_gives_it(getkey):
    assert draws(as_distribution(0.5), getkey()).tolist() == [0.5] * N
    own = Uniform(0.0, 1.0)
    assert as_distribution(own) is own
