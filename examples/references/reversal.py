"""The Bayesian observer of a reversal, who knows how often there is one. Numpy alone; popsim is not used.

One of two arms is good and pays 1 with probability p, the other with 1 - p. After each choice they are
exchanged with probability h, the hazard rate. As either arm tells equally much about which one is good, the
best player chooses the arm that is more probably good. With L the log odds that arm 1 is good, a reward of
arm 1 or its absence from arm 0 adds log(p / (1 - p)), the opposite subtracts it. Then, with P = 1 / (1 +
e^-L),

    P' = (1 - h) P + h (1 - P).

This is the observer of changes of Glaze, Kable & Gold 2015, eLife 4:e08825, for evidence of one size.
"""

import numpy as np


def play(
    reward_probability: float,
    hazard_rate: float,
    believed_rate: float,
    n_trials: int,
    n_choices: int,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The choices of an observer, and the good arm [trial, choice].

    **Arguments:**

    - `hazard_rate`, `believed_rate`: h of the arms, and the one by which the observer reckons.
    """
    rng = np.random.default_rng(seed)
    evidence = np.log(reward_probability / (1 - reward_probability))
    good, log_odds = rng.integers(0, 2, n_trials), np.zeros(n_trials)
    choices, good_arms = [], []
    for _ in range(n_choices):
        coin = rng.integers(0, 2, n_trials)
        chosen = np.where(log_odds == 0, coin, log_odds > 0)
        choices.append(chosen)
        good_arms.append(good)
        probability = np.where(chosen == good, reward_probability, 1 - reward_probability)
        is_paid = rng.random(n_trials) < probability
        log_odds = log_odds + evidence * np.where(is_paid == (chosen == 1), 1, -1)
        second = 1 / (1 + np.exp(-log_odds))
        second = (1 - believed_rate) * second + believed_rate * (1 - second)
        log_odds = np.log(second / (1 - second))
        good = np.where(rng.random(n_trials) < hazard_rate, 1 - good, good)
    return np.stack(choices, axis=1), np.stack(good_arms, axis=1)


def switch_times(choices: np.ndarray, good_arms: np.ndarray) -> np.ndarray:
    """How many choices after each reversal the old arm is still chosen [reversal].

    Reversals count at which the arm was chosen that was good until then, and that were followed by a choice
    of the other arm before the next reversal, or the end.

    **Arguments:**

    - `choices`, `good_arms`: [trial, choice].
    """
    times = []
    for chosen, good in zip(choices, good_arms, strict=True):
        reversals = np.flatnonzero(np.diff(good)) + 1
        for first, after in zip(reversals, np.append(reversals, len(good))[1:], strict=True):
            switched = np.flatnonzero(chosen[first:after] == good[first])
            if chosen[first - 1] == good[first - 1] and switched.size:
                times.append(switched[0])
    return np.array(times)
