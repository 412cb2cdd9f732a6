"""The mean-field theory of random networks against direct averages and known values."""

import numpy as np
import pytest
from short_form import every_nth_row

chaos = pytest.importorskip("references.chaos", reason="examples/ is not beside the tests")


def average(function, variance, covariance):
    """The mean of function(x) function(y) over normal x and y, by the trapezoid rule along both axes."""
    z = np.linspace(-8, 8, 161)
    weights = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * (z[1] - z[0])
    shared, alone = np.sqrt(covariance) * z[:, None], np.sqrt(variance - covariance) * z
    return weights @ (function(shared + alone) @ weights) ** 2


@pytest.mark.parametrize(("variance", "correlation"), [(0.7, 0.3), (1.9, 0.8), (5.4, 1.0)])
def test_power_series_are_the_averages_of_normal_pairs(variance, correlation):
    powers, orders = chaos.hermite_powers(variance), np.arange(chaos.N_TERMS)
    direct = average(np.tanh, variance, correlation * variance)
    assert powers @ correlation**orders == pytest.approx(direct, rel=1e-8)
    if correlation < 1:  # where the trapezoid rule is exact for the narrow slope as well
        slope = (orders[1:] * powers[1:]) @ correlation ** orders[:-1] / variance
        direct = average(lambda x: 1 / np.cosh(x) ** 2, variance, correlation * variance)
        assert slope == pytest.approx(direct, rel=1e-6)


@pytest.mark.parametrize(
    ("gain", "variance", "exponent"), every_nth_row([(2, 1.9248, 0.1125), (3, 5.4463, 0.2355)], 2)
)
def test_the_known_values(gain, variance, exponent):
    assert chaos.continuous_variance(gain) == pytest.approx(variance, abs=1e-4)
    assert chaos.continuous_exponent(gain, spacing=0.1) == pytest.approx(exponent, abs=1e-4)


def test_the_slope_of_the_autocorrelation_is_a_state_of_level_zero():
    course = chaos.autocorrelation(2.0, 0.1, step=0.0)
    assert course[0] == pytest.approx(chaos.continuous_variance(2.0), rel=1e-4)
    largest = chaos.levels(2.0, course, 0.1, kinetic=1.0)
    assert largest[1] == pytest.approx(1, abs=1e-4)
    assert largest[0] > 1.2 and largest[2] < 1
