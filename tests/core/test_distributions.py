"""The statistics of 2,000 draws of each distribution; contracts are in `test_contracts`."""

import equinox as eqx
import jax
import numpy as np
import pytest

from popsim.distributions import Choice, Constant, Normal, TruncatedExponential, Uniform, as_distribution

N = 2000
SHARES = np.array([0.1, 0.25, 0.5, 0.75, 0.9])


@eqx.filter_jit
def sampled(distribution, keys):
    return jax.vmap(lambda key: distribution.sample(key=key))(keys)


def draws(distribution, key):
    return np.asarray(sampled(distribution, jax.random.split(key, N)))


def exponential_quantiles(low, high, scale):
    return low - scale * np.log1p(-SHARES * -np.expm1(-(high - low) / scale))


CONTINUOUS = {
    "uniform": (Uniform(-1.0, 3.0), -1.0 + 4.0 * SHARES),
    "normal": (Normal(2.0, 0.5), 2.0 + 0.5 * np.array([-1.28155, -0.67449, 0.0, 0.67449, 1.28155])),
    "exponential": (TruncatedExponential(0.3, 1.5, 0.4), exponential_quantiles(0.3, 1.5, 0.4)),
    "exponential, hardly cut": (TruncatedExponential(0.1, 9.0, 0.5), 0.1 - 0.5 * np.log1p(-SHARES)),
    "exponential, all but even": (TruncatedExponential(1.0, 2.0, 100.0), 1.0 + SHARES),
}


@pytest.mark.parametrize("distribution, quantiles", CONTINUOUS.values(), ids=CONTINUOUS)
def test_as_many_draws_as_there_should_be_are_below_each_quantile(distribution, quantiles, getkey):
    drawn = draws(distribution, getkey())
    assert drawn.shape == (N,) and drawn.dtype == np.float32 and len(np.unique(drawn)) > 0.99 * N
    below = (drawn[:, None] < quantiles).mean(axis=0)
    np.testing.assert_array_less(np.abs(below - SHARES), 4 * np.sqrt(SHARES * (1 - SHARES) / N) + 2e-3)


def test_a_choice_takes_each_value_as_often_and_a_number_always_itself(getkey):
    values, counts = np.unique(draws(Choice([5.0, 1.0, 3.0]), getkey()), return_counts=True)
    assert values.tolist() == [1.0, 3.0, 5.0]
    np.testing.assert_allclose(counts / N, 1 / 3, atol=4 * (2 / 9 / N) ** 0.5)
    pairs = draws(Choice([[0.0, 1.0], [2.0, 3.0]]), getkey())
    assert {tuple(pair) for pair in pairs.tolist()} == {(0.0, 1.0), (2.0, 3.0)}
    assert draws(as_distribution(0.5), getkey()).tolist() == [0.5] * N
    assert as_distribution(own := Constant(0.3)) is own


def test_coordinates_are_drawn_apart(getkey):
    for distribution in (Uniform([0.0, 0.0], [1.0, 1.0]), Normal([0.0, 0.0], [1.0, 1.0])):
        assert abs(np.corrcoef(draws(distribution, getkey()).T)[0, 1]) < 4 / N**0.5
