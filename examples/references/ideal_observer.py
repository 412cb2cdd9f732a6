"""The best choices from a noisy stream of evidence, and the psychometric curve. Numpy alone; no popsim.

At each of T time steps the evidence is c + sigma n_t, with c the signed coherence and n_t standard normal
and independent. Its sum is all that it tells of c. If c is as often positive as negative, no observer is
right more often, at any |c|, than the one that goes by the sign of the sum (Neyman & Pearson):

    P(right) = Phi(c sqrt(T) / sigma)
    share of correct choices = mean over |c| of Phi(|c| sqrt(T) / sigma)

The psychometric curve is a probit: P(right) = Phi(b_0 + sum_j b_j c_j) of the coherences c_j of all streams.
That of the ideal observer has the slope sqrt(T) / sigma for the stream that it is to judge, and 0 for the
others. It is fitted by Fisher's scoring, Newton's method with the expected curvature.

The task is that of Mante, Sussillo, Shenoy & Newsome 2013, Nature 503:78-84. The formulas are derived here
and checked by simulation.
"""

import dataclasses
import math

import numpy as np


@dataclasses.dataclass(frozen=True)
class Evidence:
    """A stream of evidence.

    - `n_steps`: T, for how many time steps it is there.
    - `noise`: sigma, the standard deviation of its noise at each of them, in units of coherence.
    """

    n_steps: int
    noise: float

    @property
    def slope(self) -> float:
        """The psychometric slope of the ideal observer, per unit of coherence."""
        return self.n_steps**0.5 / self.noise

    def accuracy(self, coherences: np.ndarray) -> float:
        """The share of correct choices of the ideal observer, if all `coherences` are equally frequent."""
        return float(np.mean(normal_cdf(self.slope * np.abs(coherences))))


@dataclasses.dataclass(frozen=True)
class PsychometricFit:
    """A psychometric curve fitted to choices.

    - `bias`: b_0.
    - `slopes` [stream]: b_j, per unit of coherence.
    - `errors` [stream]: their standard errors.
    """

    bias: float
    slopes: np.ndarray
    errors: np.ndarray


def normal_cdf(x: np.ndarray) -> np.ndarray:
    """Phi, the standard normal cumulative distribution."""
    return 0.5 * np.vectorize(math.erfc, otypes=[float])(-np.asarray(x) / 2**0.5)


def psychometric_curve(coherences: np.ndarray, bias: float, slopes: np.ndarray) -> np.ndarray:
    """P(right) [trial] at the coherences [trial, stream]."""
    return normal_cdf(bias + coherences @ slopes)


def fit_psychometric(
    coherences: np.ndarray, chose_right: np.ndarray, n_iterations: int = 30
) -> PsychometricFit:
    """The most likely psychometric curve.

    **Arguments:**

    - `coherences`: [trial, stream].
    - `chose_right`: [trial], whether the choice was right.

    **Returns:** the curve. That of choices that are all the same is flat, of an infinite bias.
    """
    if np.all(chose_right == chose_right[0]):
        flat = np.zeros(coherences.shape[1])
        return PsychometricFit(math.inf if chose_right[0] else -math.inf, flat, flat + math.inf)
    X, n_trials, condition_of_trial = _conditions(coherences)
    fraction = np.bincount(condition_of_trial, weights=chose_right) / n_trials
    b = np.zeros(X.shape[1])
    for _ in range(n_iterations):
        p, density, weights = _weights(X, n_trials, b)
        b = b + np.linalg.solve(X.T @ (weights[:, None] * X), X.T @ (weights * (fraction - p) / density))
    return PsychometricFit(float(b[0]), b[1:], standard_errors(coherences, float(b[0]), b[1:]))


def standard_errors(coherences: np.ndarray, bias: float, slopes: np.ndarray) -> np.ndarray:
    """Of the slopes [stream] fitted to choices of this curve at the coherences [trial, stream].

    Errors of a fit are those of the curve that was fitted: from few choices of one kind, a slope of any
    size has an error as large. How far chance may take the slope of the ideal observer is told by its own.
    """
    X, n_trials, _ = _conditions(coherences)
    _, _, weights = _weights(X, n_trials, np.array([bias, *slopes]))
    return np.sqrt(np.diag(np.linalg.inv(X.T @ (weights[:, None] * X))))[1:]


def _conditions(coherences: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictors [condition, 1 + stream], how many trials each has, and which is that of each trial."""
    conditions, condition_of_trial = np.unique(coherences, axis=0, return_inverse=True)
    X = np.hstack([np.ones((len(conditions), 1)), conditions])
    return X, np.bincount(condition_of_trial.ravel()), condition_of_trial.ravel()


def _weights(X: np.ndarray, n_trials: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P(right), its slope, and the weight of each condition in the expected curvature."""
    eta = np.clip(X @ b, -6.0, 6.0)
    p, density = normal_cdf(eta), np.exp(-(eta**2) / 2) / (2 * np.pi) ** 0.5
    return p, density, n_trials * density**2 / (p * (1 - p))


def simulated_choices(coherences: np.ndarray, evidence: Evidence, judged: int, seed: int) -> np.ndarray:
    """Whether the ideal observer of stream `judged` chooses right [trial], evidence being drawn step by step.

    The check of the formulas above, on the coherences [trial, stream].
    """
    rng = np.random.default_rng(seed)
    total = np.zeros(len(coherences))
    for _ in range(evidence.n_steps):
        evidence_now = coherences + evidence.noise * rng.standard_normal(coherences.shape)
        total += evidence_now[:, judged]
    return total > 0
