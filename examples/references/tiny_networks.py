"""The log odds of the choices of a learner of two values, written out. NumPy; popsim is not used.

The value of the choice made moves to its reward r, Q += α (r - Q), and that of the other to zero, Q -= f Q.
The log odds of choice 1 are x = β (Q₁ - Q₀) + κ s, with s = 1 after choice 1, -1 after choice 0. At first
Q = 0 and s = 0. With f = α and κ = 0 the next x follows from x alone, x += α (s β r - x); else it does not.
"""

import numpy as np


def log_odds(
    actions: np.ndarray,
    rewards: np.ndarray,
    *,
    rate: float,
    beta: float,
    stickiness: float = 0.0,
    forgetting: float = 0.0,
) -> np.ndarray:
    """x before each choice [session, choice], where α = `rate`, κ = `stickiness` and f = `forgetting`."""
    found = np.zeros(actions.shape)
    for session in range(len(actions)):
        values, last = [0.0, 0.0], 0
        for place, choice in enumerate(actions[session]):
            found[session, place] = beta * (values[1] - values[0]) + stickiness * last
            values[choice] += rate * (rewards[session, place] - values[choice])
            values[1 - choice] *= 1 - forgetting
            last = 2 * choice - 1
    return found


def nats(log_odds: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """The negative log probability of each choice."""
    return np.logaddexp(0, np.where(actions == 1, -log_odds, log_odds))
