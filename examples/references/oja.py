"""The whole course of Hebbian learning in a linear unit, with and without decay. Numpy alone; no popsim.

A unit y = w' x receives inputs of mean mu and covariance C. In the limit of small steps, with t the rate
times the number of steps, its weights follow

    Oja's rule        dw/dt = K w - (w' K w) w,    K = C + mu mu'
    Hebb's rule       dw/dt = K w
    covariance rule   dw/dt = C w

Oja's rule ends at the unit vector along the first eigenvector of K, at whichever sign it started nearer to.

Source: Oja 1982, "A simplified neuron model as a principal component analyzer", J Math Biol 15:267-273
(citation verified; formulas derived here and checked by integrating them).
"""

import numpy as np


def hebb_course(K: np.ndarray, w0: np.ndarray, times: np.ndarray) -> np.ndarray:
    """w(t) = exp(K t) w0 [time, ..., input] from w0 [..., input]; K [input, input] is symmetric."""
    values, vectors = np.linalg.eigh(K)
    growth = np.exp(np.multiply.outer(times, values))
    growth = growth.reshape(len(times), *(1,) * (w0.ndim - 1), len(values))
    return (growth * (w0 @ vectors)) @ vectors.T


def oja_course(K: np.ndarray, w0: np.ndarray, times: np.ndarray) -> np.ndarray:
    """w(t) [time, ..., input] of Oja's rule from w0 [..., input].

    With v = exp(K t) w0, w = v / n: substituted, n' = (w' K w) n, so that (n²)' = 2 v' K v = (v' v)', and
    n² = 1 - |w0|² + |v|², as n = 1 at the start.
    """
    v = hebb_course(K, w0, times)
    squared = np.sum(v**2, axis=-1, keepdims=True)
    return v / np.sqrt(1 - np.sum(w0**2, axis=-1)[..., None] + squared)


def simulated_courses(
    K: np.ndarray, w0: np.ndarray, rate: float, n_steps: int, batch_size: int, decay: bool, seed: int
) -> np.ndarray:
    """w [step, run, input] of stochastic learning with or without Oja's decay, from w0 [run, input].

    Each step averages over `batch_size` inputs of mean zero: the check that the courses above are the
    limits of what is simulated.
    """
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(K)
    w, path = w0, [w0]
    for _ in range(n_steps):
        x = rng.standard_normal((len(w0), batch_size, len(K))) @ root.T
        y = np.sum(x * w[:, None], axis=-1)
        step = np.mean(y[..., None] * x, axis=1)
        if decay:
            step = step - np.mean(y**2, axis=1)[:, None] * w
        w = w + rate * step
        path.append(w)
    return np.stack(path)
