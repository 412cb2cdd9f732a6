"""Spikes of a Lorenz system, rates by Poisson regression on smoothed spikes, and their score, in NumPy.

Nothing here uses popsim.
"""

import dataclasses

import numpy as np
from scipy.ndimage import gaussian_filter1d
from scipy.optimize import minimize
from scipy.special import gammaln

SIGMA, RHO, BETA = 10.0, 28.0, 8 / 3  # Lorenz 1963, J Atmos Sci 20:130-141
DT, STEP, N_BURNT = 0.02, 0.02, 200  # s; time of the system in a time step; fewest time steps before a trial
BASE_RATE, GAIN = 5.0, 0.7  # spikes/s, and the standard deviation of log rates


@dataclasses.dataclass(frozen=True)
class Recording:
    """Spikes [trial, time, unit] of units whose log rates are linear in a Lorenz system.

    - `rates`: in spikes/s, of the same shape.
    """

    rates: np.ndarray
    spikes: np.ndarray


def lorenz(n_trials: int, n_steps: int, random: np.random.Generator) -> np.ndarray:
    """Courses [trial, time, 3] from random states, by Runge & Kutta's method; mean 0, variance 1."""

    def slope(x: np.ndarray) -> np.ndarray:
        a, b, c = x.T
        return np.stack([SIGMA * (b - a), a * (RHO - c) - b, a * b - BETA * c], axis=1)

    x, h, courses = random.normal(size=(n_trials, 3)) + [0, 0, RHO - 1], STEP / 2, []
    begins = random.integers(N_BURNT, 2 * N_BURNT, (n_trials, 1))  # courses oscillate alike for long
    for _ in range(2 * (2 * N_BURNT + n_steps)):
        k1 = slope(x)
        k2 = slope(x + h / 2 * k1)
        k3 = slope(x + h / 2 * k2)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(x + h * k3))
        courses.append(x)
    found = np.stack(courses[1::2], axis=1)[np.arange(n_trials)[:, None], begins + np.arange(n_steps)]
    return (found - found.mean(axis=(0, 1))) / found.std(axis=(0, 1))


def record(n_trials: int, n_steps: int, n_units: int, seed: int) -> Recording:
    """Draw the weights of units, trials that have no state in common, and spikes."""
    random = np.random.default_rng(seed)
    weights = random.normal(size=(3, n_units))
    weights *= GAIN / np.linalg.norm(weights, axis=0)
    rates = BASE_RATE * np.exp(lorenz(n_trials, n_steps, random) @ weights)
    return Recording(rates, random.poisson(DT * rates).astype(float))


def regress(spikes: np.ndarray, n_read: int, n_train: int, width: float, penalty: float = 1e-3) -> np.ndarray:
    """Rates (spikes/s) of the units after the first `n_read` in the trials after the first `n_train`.

    Poisson regression on the square roots of the spikes of the first units, smoothed in time by a Gaussian of
    `width` time steps, with a penalty on the squares of weights.
    """
    smooth = np.sqrt(gaussian_filter1d(spikes[..., :n_read], width, axis=1, mode="nearest"))
    shown = smooth[:n_train].reshape(-1, n_read)
    mean, std = shown.mean(axis=0), shown.std(axis=0)
    known = np.column_stack([(shown - mean) / std, np.ones(len(shown))])
    shrunk = penalty * np.append(np.ones(n_read), 0)

    def cost(weights: np.ndarray, counts: np.ndarray) -> tuple[float, np.ndarray]:
        logs = known @ weights
        expected = np.exp(logs)
        slopes = known.T @ (expected - counts) / len(counts) + shrunk * weights
        return float(np.mean(expected - counts * logs) + shrunk @ weights**2 / 2), slopes

    columns = []
    for counts in spikes[:n_train, :, n_read:].reshape(len(shown), -1).T:
        first = np.append(np.zeros(n_read), np.log(counts.mean()))
        weights = minimize(cost, first, (counts,), jac=True, method="L-BFGS-B").x
        columns.append(np.exp((smooth[n_train:] - mean) / std @ weights[:-1] + weights[-1]) / DT)
    return np.stack(columns, axis=-1)


def bits_per_spike(rates: np.ndarray, spikes: np.ndarray) -> float:
    """The score of Pei et al. 2021, arXiv 2109.04463, as nlb_tools computes it, from rates in spikes/s."""

    def cost(expected: np.ndarray) -> float:
        return float(np.sum(expected - spikes * np.log(expected) + gammaln(spikes + 1)))

    mean = np.broadcast_to(spikes.mean(axis=(0, 1)), spikes.shape)
    return (cost(mean) - cost(DT * rates)) / spikes.sum() / np.log(2)
