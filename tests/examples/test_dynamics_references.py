"""Random networks and those of low rank against averages, limits and simulated networks."""

import numpy as np
import pytest
from short_form import every_nth_row

from references import balanced_spectrum as spectrum
from references import chaos, chaotic_dynamics, feedback_rotations, held_out_neurons
from references import low_rank_dynamics as low_rank

# Chaos


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


# Neurons that were held out


def test_a_regression_finds_rates_that_are_exponentials_of_what_it_reads():
    """Slow rates, read from many units: the score is near that of the true rates; the mean scores zero."""
    random = np.random.default_rng(0)
    slow = np.repeat(random.normal(size=(120, 2, 1)), 25, axis=1)
    rates = 20 * np.exp(0.5 * slow * np.ones(21))
    spikes = random.poisson(held_out_neurons.DT * rates).astype(float)
    found = held_out_neurons.regress(spikes, 20, 100, width=3)
    true = held_out_neurons.bits_per_spike(rates[100:, :, 20:], spikes[100:, :, 20:])
    assert 0.8 * true < held_out_neurons.bits_per_spike(found, spikes[100:, :, 20:]) < 1.05 * true
    mean = np.full((20, 50, 1), spikes[100:, :, 20:].mean() / held_out_neurons.DT)
    assert held_out_neurons.bits_per_spike(mean, spikes[100:, :, 20:]) == pytest.approx(0, abs=1e-12)


# Chaotic dynamics


def test_the_exponents_of_the_lorenz_system_add_up_to_its_contraction():
    starts = chaotic_dynamics.orbits(20, 1, 0.02, seed=0)[:, 0]
    found = chaotic_dynamics.exponents(starts, 2000, 0.02)
    np.testing.assert_allclose(found.sum(axis=1), -(10 + 1 + 8 / 3), rtol=1e-5)
    largest, second, _ = found.mean(axis=0)
    assert largest == pytest.approx(chaotic_dynamics.LARGEST_EXPONENT, rel=0.02)
    assert second == pytest.approx(0, abs=0.01)


def test_the_divergence_of_states_is_that_of_their_counts():
    corners = np.array([[0, 0, 0], [1, 1, 1]], float)
    true, generated = corners[[0, 0, 1, 1]], corners[[0, 1, 1, 1]]
    expected = 0.5 * np.log(2) + 0.5 * np.log(2 / 3)
    assert chaotic_dynamics.state_space_divergence(true, generated) == pytest.approx(expected, abs=0.01)
    assert chaotic_dynamics.state_space_divergence(true, true[::-1]) == 0
    away = np.concatenate([generated, [[np.nan, 0, 0], [5, 0, 0]]])
    assert chaotic_dynamics.state_space_divergence(true, away) == pytest.approx(expected, abs=0.01)


# Low rank dynamics


def vectors(n_units, overlap, seed=0):
    """m and n with n'm = overlap N and |m|^2 = N, exactly."""
    m, other = np.random.default_rng(seed).standard_normal((2, n_units))
    m *= n_units**0.5 / np.linalg.norm(m)
    return m, overlap * m + other - (other @ m) / n_units * m


def settle(weights, start, n_steps=300, leak=0.3):
    x = start
    for _ in range(n_steps):
        x = x + leak * (weights(np.tanh(x)) - x)
    return x


def test_the_variance_near_an_overlap_of_one_and_of_a_large_one():
    assert low_rank.variance_at_rest(1.0) == 0
    assert low_rank.variance_at_rest(1.001) == pytest.approx(1 - 1 / 1.001, rel=0.01)  # <tanh'> = 1 - D
    assert low_rank.variance_at_rest(15.0) == pytest.approx(2 * 15.0**2 / np.pi, rel=0.01)  # tanh = sign


@pytest.mark.parametrize("overlap", [0.8, 1.2, 3.0])
def test_kappa_without_a_random_part_is_exact(overlap):
    m, n = vectors(300, overlap)
    x = settle(lambda rates: m * (n @ rates) / 300, m, n_steps=600)
    assert low_rank.exact_kappa(m, n) == pytest.approx(m @ x / 300, abs=1e-9)


def test_the_reduction_has_the_outputs_of_the_whole_network():
    rng, n_units, leak = np.random.default_rng(0), 40, 0.4
    left, right = 3 * rng.standard_normal((2, n_units, 2))
    network = low_rank.LowRankNetwork(
        left=left,
        right=right,
        input_weights=rng.standard_normal((n_units, 3)),
        bias=rng.standard_normal(n_units),
        readout=rng.standard_normal((2, n_units)),
        output_bias=rng.standard_normal(2),
        leak=leak,
    )
    inputs = rng.standard_normal((5, 30, 3))
    x, outputs = np.zeros((5, n_units)), []
    for t in range(30):
        received = np.tanh(x) @ (left @ right.T / n_units).T
        x = x + leak * (received + inputs[:, t] @ network.input_weights.T + network.bias - x)
        outputs.append(np.tanh(x) @ network.readout.T + network.output_bias)
    _, reduced = network.latent_course(inputs)
    np.testing.assert_allclose(reduced, np.stack(outputs, axis=1), atol=1e-11)


# Balanced spectrum

UNBALANCED = spectrum.Weights(200, 0.75, (1.0, -1.0), (1.0, 2.0))


def test_known_values():
    assert UNBALANCED.radius == pytest.approx(1.75**0.5)
    assert UNBALANCED.outlier == pytest.approx(200**0.5 / 2)
    assert UNBALANCED.outlier_deviation == pytest.approx(1.75**0.5 * 2 / 200**0.5)


def test_a_planted_rotation_is_all_of_the_change_and_a_decay_none():
    """Of a rotation that also decays, the skew-symmetric fit is what its M says."""
    angles = 0.1 * np.arange(30)
    starts = np.random.default_rng(0).normal(size=(6, 2))
    turns = np.array([[np.cos(angles), -np.sin(angles)], [np.sin(angles), np.cos(angles)]])
    turning = np.einsum("ijt,kj->kti", turns, starts)
    turning -= turning.mean(axis=0)
    for share, values in (
        (1.0, turning),
        (0.0, np.exp(-angles)[:, None] * (starts - starts.mean(axis=0))[:, None]),
    ):
        skew, free = feedback_rotations.rotation_fit(values, 2)
        np.testing.assert_allclose(skew, share, atol=1e-9)
        assert free > 1 - 1e-9
