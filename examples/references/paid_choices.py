"""The rewards of the best players of a staircase and of a changing environment. NumPy and SciPy; no popsim.

By dynamic programming over the choices from the last one back. In the staircase of Levitt 1971, J Acoust Soc
Am 49:467, the sign of the evidence is right with probability Phi(c / σ) at a level of coherence c. In the
task of Purcell & Kiani 2016, PNAS 113:E4531, a target is paid if both context and direction are right.
"""

import numpy as np
from scipy.special import softmax
from scipy.stats import norm

N_BELIEFS, N_SURENESS = 1001, 100  # probabilities of the context, and of the direction


def reward_in_staircase(
    coherences: np.ndarray, noise: float, n_correct: int, n_choices: int, *, can_err: bool = False
) -> float:
    """The mean reward of a choice of one who reports the sign of the evidence, from the strongest level on.

    One who may err contradicts it where a correct choice, with all that follows, is worth less than an error,
    which makes the choices to come easier.
    """
    right = norm.cdf(np.asarray(coherences) / noise)[:, None]
    levels = np.arange(right.size)
    weaker, stronger = np.maximum(levels - 1, 0), np.minimum(levels + 1, right.size - 1)
    value = np.zeros((right.size, min(n_correct, n_choices)))
    for _ in range(n_choices):
        after_correct = 1 + np.concatenate([value[:, 1:], value[weaker, :1]], axis=1)
        after_error = value[stronger, :1]
        p = np.where(can_err & (after_error > after_correct), 1 - right, right)
        value = p * after_correct + (1 - p) * after_error
    return float(value[-1, 0]) / n_choices


def reward_in_changing_environment(
    coherences: np.ndarray, noise: float, hazard_rate: float, n_choices: int
) -> float:
    """The mean reward of a choice of the best player, over the probability of the context, on a grid.

    The less probable context pays less now, and may tell more.
    """
    sureness, shares = _distribution_of_sureness(np.asarray(coherences), noise)
    grid = np.linspace(0.0, 1.0, N_BELIEFS)
    value = np.zeros(N_BELIEFS)

    def following(belief: np.ndarray) -> np.ndarray:
        return np.interp((1 - hazard_rate) * belief + hazard_rate * (1 - belief), grid, value)

    def worth(chosen: np.ndarray) -> np.ndarray:
        """The value of choosing a context of the given probabilities [belief, sureness]."""
        paid = chosen[:, None] * sureness
        unpaid = 1 - paid
        later = (chosen[:, None] - paid) / np.where(unpaid > 0, unpaid, 1.0)
        return paid * (1 + following(np.ones_like(paid))) + unpaid * following(later)

    for _ in range(n_choices):
        probable, improbable = worth(np.maximum(grid, 1 - grid)), worth(np.minimum(grid, 1 - grid))
        value = np.maximum(probable, improbable) @ shares
    return float(np.interp(0.5, grid, value)) / n_choices


def _distribution_of_sureness(coherences: np.ndarray, std: float) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of the more probable direction, and how frequent each is."""
    noise = np.linspace(-6.0, 6.0, 2001)
    evidence = (coherences[:, None] + std * noise).ravel()
    odds = softmax((coherences * evidence[:, None] - coherences**2 / 2) / std**2, axis=1)
    right = odds @ ((np.sign(coherences) + 1) / 2)
    sureness = np.clip(np.maximum(right, 1 - right), 0.5, 1.0)
    density = np.tile(np.exp(-(noise**2) / 2), coherences.size)
    # One number, their mean, stands for all that are almost equal.
    place = (N_SURENESS * np.sqrt(2 * (1 - sureness))).astype(int)
    shares = np.bincount(place, density)
    means = np.bincount(place, density * sureness)[shares > 0] / shares[shares > 0]
    return means, shares[shares > 0] / density.sum()
