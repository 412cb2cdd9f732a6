"""How often the best observer of a stimulus in noise is right. NumPy and SciPy; popsim is not used.

Two signals in noise are told apart by the theory of Green & Swets 1966, Signal Detection Theory and
Psychophysics; d' is the distance between the means of the evidence in standard deviations, and p the
probability of the first. Counts of pulses, weights of shapes and intervals are derived here.
"""

import numpy as np
from scipy.special import expit, logit
from scipy.stats import binom, norm, poisson, truncnorm

N_GRID = 2**14  # values of the likelihood ratio that `signal_at_unknown_time` distinguishes


def two_signals(d_prime: float, probability: float = 0.5) -> float:
    """p Phi(d'/2 + L/d') + (1 - p) Phi(d'/2 - L/d') with L = log(p / (1 - p)); Phi(d'/2) for p = 1/2."""
    shift = logit(probability) / d_prime
    right = norm.cdf(d_prime / 2 + np.array([shift, -shift]))
    return float(right @ [probability, 1 - probability])


def signal_at_unknown_time(d_prime: float, n_times: int = 1, probability: float = 0.5) -> float:
    """The accuracy for a signal at one of several equally probable times that do not overlap.

    The likelihood ratio is a mean of independent log-normal terms, whose distribution below the criterion is
    computed by repeated convolution on a grid. The criterion lies between two values of the grid.
    """
    limit = n_times * (1 - probability) / probability
    edges = (np.arange(N_GRID + 1) - 0.5).clip(0) * limit / (N_GRID - 0.5)

    def masses(mean: float) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.diff(norm.cdf((np.log(edges) - mean) / d_prime))

    def sum_on_grid(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return np.fft.irfft(np.fft.rfft(one, 2 * N_GRID) * np.fft.rfft(other, 2 * N_GRID))[:N_GRID]

    noise, signal = masses(-(d_prime**2) / 2), masses(d_prime**2 / 2)
    others = np.zeros(N_GRID)
    others[0] = 1.0
    for _ in range(n_times - 1):
        others = sum_on_grid(others, noise)
    rejects, misses = sum_on_grid(others, noise).sum(), sum_on_grid(others, signal).sum()
    return float((1 - probability) * rejects + probability * (1 - misses))


def same_kind(first: float, second: float) -> float:
    """How often one is right whether two things are of one kind, by the accuracy with which each is known."""
    return first * second + (1 - first) * (1 - second)


def counted_pulses(n_bins: int, probabilities: tuple[float, float], *, is_more_correct: bool) -> float:
    """The accuracy of one who counts pulses in bins on two sides, and guesses at ties.

    Either the side with more pulses is correct, or that with the higher probability.
    """
    few, many = (binom.pmf(np.arange(n_bins + 1), n_bins, p) for p in probabilities)
    difference = np.convolve(many, few[::-1])  # from -n_bins to n_bins
    tie = float(difference[n_bins])
    return 1 - tie / 2 if is_more_correct else float(difference[n_bins + 1 :].sum()) + tie / 2


def counted_clicks(
    log_ratio: np.ndarray, seconds: np.ndarray, total_rate: float, *, is_more_correct: bool
) -> np.ndarray:
    """The same for clicks at random times, with the log ratio of the rates (Hz) of both sides, by trial."""
    size = np.abs(np.asarray(log_ratio, float))[..., None]
    few, many = (total_rate * np.asarray(seconds, float)[..., None] * expit(sign * size) for sign in (-1, 1))
    # Not scipy.stats.skellam, whose tail is 2 for means of 40 and 1e-6.
    count = np.arange(int(np.max(few, initial=0.0) + 12 * np.max(few, initial=1.0) ** 0.5) + 1)
    tie = np.sum(poisson.pmf(count, few) * poisson.pmf(count, many), axis=-1)
    if is_more_correct:
        return 1 - tie / 2
    return np.sum(poisson.pmf(count, few) * poisson.sf(count, many), axis=-1) + tie / 2


def weighed_shapes(weights: np.ndarray, n_shapes: int) -> float:
    """The mean of 1 / (1 + 10^-|W|) over all sequences of shapes, with the sum W of their weights."""
    sums, shares = np.zeros(1), np.ones(1)
    for _ in range(n_shapes):
        longer = np.round(sums[:, None] + np.asarray(weights, float), 9)
        sums, index = np.unique(longer.ravel(), return_inverse=True)
        shares = np.bincount(index, weights=np.repeat(shares, len(weights))) / len(weights)
    return float(np.sum(shares / (1 + 10.0 ** -np.abs(sums))))


def shown_intervals(intervals: np.ndarray, weber_fraction: float, dt: float) -> np.ndarray:
    """How probably an interval (s) is shown as each number of time steps, from 0 [step, interval].

    Its noise is normal, in proportion to it, and truncated at three standard deviations.
    """
    edges = (np.arange(int(1.5 * np.max(intervals) / dt) + 2) - 0.5)[:, None] * dt
    return np.diff(truncnorm.cdf((edges - intervals) / (weber_fraction * intervals), -3, 3), axis=0)


def best_interval(intervals: np.ndarray, weber_fraction: float, dt: float) -> tuple[np.ndarray, float]:
    """The mean of an interval by the steps it was shown as, twice, and its root mean squared error.

    After Jazayeri & Shadlen 2010, Nat Neurosci 13:1020, for the two measurements of Egger & Jazayeri 2018,
    Sci Rep 8:12597.
    """
    single = shown_intervals(intervals, weber_fraction, dt)
    joint = single[:, None] * single / len(intervals)
    mean = joint @ intervals / np.maximum(joint.sum(-1), 1e-300)
    return mean, float(np.sum(joint * (intervals - mean[..., None]) ** 2) ** 0.5)
