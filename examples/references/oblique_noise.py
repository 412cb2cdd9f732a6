"""How gradient descent suppresses noise along the readout of a linear network. Numpy alone; no popsim.

A network starts its trials at x = 0, and is read out by w, a vector of length |w| along the unit vector u:

    x_{t+1} = (1 - k) x_t + k W x_t + (2 k)^½ sigma xi_t,    xi_t ~ N(0, 1) on each unit,    k = dt / tau

The loss L is the mean of (w' x_t)² over the noise, and over the steps t = b + 1 .. T that count. It is to
be made small by changing W, from W = 0.

Let W = lambda u u', and y = 1 - lambda. Then z = u' x is a process of its own, z_{t+1} = (1 - k y) z_t +
noise, whose variance after t steps is 2 k sigma² (1 + a + ... + a^(t-1)), with a = (1 - k y)². So

    L = |w|² V(y),    V(y) = 2 k sigma² sum_i c_i a^i = mean_t 2 k sigma² (1 - a^t) / (1 - a),

where c_i is the share of counted steps with t > i. Rotations about u change neither W nor L, so the gradient
is g u u' + h (I - u u'); and h = 0, as z does not depend on what W does orthogonal to u. The rest is
g = dL / d lambda = -|w|² V'(y). So W stays a multiple of u u', and gradient descent at the rate eta makes

    y_{n+1} = y_n - eta |w|² V'(y_n),    y_0 = 1;    in the limit dy/ds = -V'(y), with s = eta |w|² n.

Long trials have V = sigma² / (y (1 - k y / 2)). In continuous time, k -> 0, V = sigma² / y, and the limit is
y = (1 + 3 sigma² s)^(1/3).

Source: Schuessler, Mastrogiuseppe, Ostojic & Barak 2024, "Aligned and oblique dynamics in recurrent neural
networks", eLife 13:RP93060 (abstract verified). All formulas are derived here. V and the gradient are checked
by Monte Carlo, and by finite differences of L in all entries of W, with the covariance of all units.
"""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Setting:
    """The step k = dt / tau, sigma, the number of steps T, and b, the number of the first, not counted."""

    leak: float = 0.2
    sigma: float = 0.5
    n_steps: int = 80
    n_skipped: int = 30


def variance(y: float, setting: Setting) -> float:
    """V(y), of the activity along the readout: the mean over the steps that count."""
    i = np.arange(setting.n_steps)
    return float(np.sum(_weights(setting) * (1 - setting.leak * y) ** (2 * i)))


def variance_slope(y: float, setting: Setting) -> float:
    """V'(y)."""
    i = np.arange(1, setting.n_steps)
    slopes = -2 * setting.leak * i * (1 - setting.leak * y) ** (2 * i - 1)
    return float(np.sum(_weights(setting)[1:] * slopes))


def _weights(setting: Setting) -> np.ndarray:
    """2 k sigma² c_i, for i = 0 .. T - 1: what the noise of i steps ago adds to V, before it decays."""
    counted = np.arange(setting.n_skipped + 1, setting.n_steps + 1)
    shares = np.mean(counted[:, None] > np.arange(setting.n_steps), axis=0)
    return 2 * setting.leak * setting.sigma**2 * shares


def expected_course(rate: float, size: float, setting: Setting, n_batches: int) -> np.ndarray:
    """y [batch] before the first batch and after each, with a readout of length `size`."""
    course = [1.0]
    for _ in range(n_batches):
        course.append(course[-1] - rate * size**2 * variance_slope(course[-1], setting))
    return np.array(course)


def continuous_course(rate: float, size: float, setting: Setting, n_batches: int) -> np.ndarray:
    """The same for small steps and long trials, in continuous time: the nearest wrong model."""
    s = rate * size**2 * np.arange(n_batches + 1)
    return (1 + 3 * setting.sigma**2 * s) ** (1 / 3)


def simulated_outputs(W: np.ndarray, w: np.ndarray, setting: Setting, n_trials: int, seed: int) -> np.ndarray:
    """Outputs w' x [trial, step], of the steps that count, of simulated networks."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n_trials, len(w)))
    scale, outputs = np.sqrt(2 * setting.leak) * setting.sigma, []
    for _ in range(setting.n_steps):
        x = x + setting.leak * (x @ W.T - x) + scale * rng.standard_normal(x.shape)
        outputs.append(x @ w)
    return np.stack(outputs[setting.n_skipped :], axis=1)
