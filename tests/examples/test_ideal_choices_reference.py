"""The best observers and players of short problems, counted out; no popsim."""

import collections
import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, logsumexp
from scipy.stats import norm, poisson

ideal = pytest.importorskip("references.ideal_choices", reason="examples/ is not beside the tests")
paid = pytest.importorskip("references.paid_choices")
clicks = pytest.importorskip("references.optimal_clicks")
interval_timing = pytest.importorskip("references.interval_timing")


@pytest.mark.parametrize(("d_prime", "probability"), [(0.3, 0.5), (1.5, 0.8)])
def test_no_criterion_detects_a_signal_more_often(d_prime, probability):
    noise = np.linspace(-9, 9, 1501)
    normal = norm.pdf(noise) * (noise[1] - noise[0])
    # Of the evidence at one time, or at two of which one has the signal: the larger of both joint densities.
    one = np.maximum(probability * norm.pdf(noise - d_prime), (1 - probability) * norm.pdf(noise))
    single = one.sum() * (noise[1] - noise[0])
    assert ideal.two_signals(d_prime, probability) == pytest.approx(single, rel=1e-4)
    ratio = np.exp(d_prime * noise - d_prime**2 / 2)
    either = probability * (ratio + ratio[:, None]) / 2
    double = np.sum(np.maximum(either, 1 - probability) * normal * normal[:, None])
    assert ideal.signal_at_unknown_time(d_prime, 2, probability) == pytest.approx(double, rel=3e-4)


def test_the_best_bound_of_two_time_steps_of_clicks():
    ratios = (-2.0, -0.2, 0.0, 0.2, 2.0)
    ratios, counts = np.array(ratios), np.arange(26)
    rates = 40 * 0.05 * np.stack([expit(-ratios), expit(ratios)])
    one, two = (poisson.pmf(counts, n * rates[..., None]) for n in (1, 2))  # (side, ratio, count)

    def responding(pmf):
        joint = pmf[0][:, :, None] * pmf[1][:, None, :]
        right = np.tensordot((np.sign(ratios) + 1) / 2, joint, 1) / joint.sum(0)
        return -1 + 2 * np.maximum(right, 1 - right)

    first, second = responding(one), responding(two)
    later = np.zeros((len(ratios), 13, 13))
    for left, right in itertools.product(range(13), repeat=2):
        more = one[0, :, :13, None] * one[1, :, None, :13]
        later[:, left, right] = np.sum(more * second[left : left + 13, right : right + 13], axis=(1, 2))
    joint = one[0][:, :13, None] * one[1][:, None, :13]
    waiting = np.sum(joint * later, axis=0) / joint.sum(0) - 0.1
    expected = np.mean(np.sum(joint * np.maximum(first[:13, :13], waiting), axis=(1, 2)))
    reward, bounds = clicks.solve(clicks.Problem(tuple(ratios), 40.0, 0.05, 2, 2.0, -1.0))
    assert reward == pytest.approx(expected, abs=1e-4)
    left, right = np.indices((13, 13))
    respond = np.abs(right - left) >= bounds[0, left + right]
    played = np.mean(np.sum(joint * np.where(respond, first[:13, :13], waiting), axis=(1, 2)))
    assert played == pytest.approx(expected, abs=1e-4)


def test_the_best_reward_of_three_choices_in_two_contexts():
    sizes = np.array([0.0, 0.064, 0.128, 0.256, 0.512])
    c, std = np.concatenate([-sizes, sizes]), 0.1
    evidence = (c[:, None] + std * np.linspace(-6, 6, 201)).ravel()
    log = norm.logpdf(evidence[:, None], c, std)
    right = np.exp(log - logsumexp(log, axis=1, keepdims=True)) @ ((np.sign(c) + 1) / 2)
    sure = np.maximum(right, 1 - right)
    share = np.tile(norm.pdf(np.linspace(-6, 6, 201)), len(c))
    share /= share.sum()

    def best(n, second):
        if n == 0:
            return np.zeros(np.shape(second))
        values = []
        for chosen in (second, 1 - second):
            paid = np.multiply.outer(chosen, sure)
            after = (chosen[..., None] - paid) / np.maximum(1 - paid, 1e-300)
            if n == 1:
                values.append(paid @ share)
                continue
            later = best_on_grid(n - 1)
            unpaid = np.interp(0.95 * after + 0.05 * (1 - after), GRID, later)
            values.append((paid * (1 + np.interp(0.95, GRID, later)) + (1 - paid) * unpaid) @ share)
        return np.maximum(*values)

    def best_on_grid(n):
        return best(n, GRID)

    GRID = np.linspace(0, 1, 401)
    assert paid.reward_in_changing_environment(c, std, 0.05, 3) == pytest.approx(
        float(best(3, np.array([0.5]))[0]) / 3, abs=3e-5
    )


def test_the_best_player_is_the_best_of_all_that_report_or_err_by_time_level_and_row():
    right = norm.cdf(np.array([0.01, 0.3]) / 0.1)
    best, reporting = 0.0, 0.0
    for contradicts in itertools.product([False, True], repeat=12):  # choices 2 to 4; at first one reports
        at = np.array([[[False, False]] * 2, *np.reshape(contradicts, (3, 2, 2))])
        share, reward = {(1, 0): 1.0}, 0.0
        for policy in at:
            after = collections.defaultdict(float)
            for (level, in_a_row), weight in share.items():
                p = 1 - right[level] if policy[level, in_a_row] else right[level]
                reward += weight * p
                after[(max(level - 1, 0), 0) if in_a_row else (level, 1)] += weight * p
                after[1, 0] += weight * (1 - p)
            share = after
        best, reporting = max(best, reward / 4), reporting if any(contradicts) else reward / 4
    numbers = np.array([0.01, 0.3]), 0.1, 2, 4
    assert paid.reward_in_staircase(*numbers) == pytest.approx(reporting)
    assert paid.reward_in_staircase(*numbers, can_err=True) == pytest.approx(best)


def test_far_from_the_bounds_the_estimate_of_an_interval_exceeds_its_measurement():
    """By the expansion of both integrals in w: their ratio is m (1 + 2 w²), up to w⁴."""
    measured = np.array([0.8, 1.0, 1.2])
    found = interval_timing.estimate(measured, 0.2, 4.0, 0.05)
    np.testing.assert_allclose(found, measured * (1 + 2 * 0.05**2), rtol=2e-4)


@pytest.mark.parametrize("measured", [0.55, 0.8, 1.1])
def test_the_estimate_of_an_interval_is_the_mean_of_its_posterior(measured):
    def moment(power):
        return quad(lambda t: t**power * norm.pdf(measured, t, 0.1 * t), 0.6, 1.0)[0]

    found = interval_timing.estimate(np.array(measured), 0.6, 1.0, 0.1)
    np.testing.assert_allclose(found, moment(1) / moment(0), rtol=1e-5)
