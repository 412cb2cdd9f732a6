"""The Bayes least-squares estimate of an interval, by sums over a fine grid; shares no code with popsim.

Jazayeri & Shadlen 2010, Nat Neurosci 13:1020: an interval t is uniform between two bounds, and its
measurement m is normal around it with a standard deviation of w t. The estimate with the least squared error
is the mean of t given m, f(m) = ∫ t p(m|t) dt / ∫ p(m|t) dt.
"""

import numpy as np

N_GRID = 4001


def estimate(measured: np.ndarray, low: float, high: float, weber_fraction: float) -> np.ndarray:
    """The estimate f(m) of each measurement, in s.

    **Arguments:**

    - `measured`: m, in s.
    - `low`, `high`: the bounds of the prior, in s.
    - `weber_fraction`: w.
    """
    intervals = np.linspace(low, high, N_GRID)
    std = weber_fraction * intervals
    deviations = (np.asarray(measured, float)[..., None] - intervals) / std
    exponents = -(deviations**2) / 2
    likelihood = np.exp(exponents - exponents.max(axis=-1, keepdims=True)) / std
    return np.trapezoid(intervals * likelihood, axis=-1) / np.trapezoid(likelihood, axis=-1)


def smallest_error(low: float, high: float, weber_fraction: float) -> float:
    """The root mean square error of the estimate, in s, by sums over intervals and their measurements."""
    noise = np.linspace(-5, 5, 201)
    density = np.exp(-(noise**2) / 2)
    errors = []
    for interval in np.linspace(low, high, 101):
        measured = interval * (1 + weber_fraction * noise)
        squares = (estimate(measured, low, high, weber_fraction) - interval) ** 2
        errors.append(squares @ density / density.sum())
    return float(np.mean(errors) ** 0.5)
