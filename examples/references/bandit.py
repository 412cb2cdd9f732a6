"""How well a bandit with two arms can be played. Numpy alone; popsim is not used.

Each arm pays 1 with a probability that is drawn uniformly from 0 to 1 for each bandit, else 0. The regret is
the sum over choices of the higher probability less that of the chosen arm. After s rewards and f failures the
probability of an arm has the posterior distribution Beta(1 + s, 1 + f), whose mean is (1 + s) / (2 + s + f).

The optimal player is that of dynamic programming over these posteriors (Bellman 1956, Sankhya 16:221-229),
for a known number of choices. Thompson sampling draws from both posteriors and takes the higher draw
(Thompson 1933, Biometrika 25:285-294). The greedy player takes the higher mean, or either if they are equal.
"""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class OptimalPlayer:
    """The optimal player of a number of choices.

    - `value`: the expected sum of rewards.
    - `advantages`: for each choice t an array [n, s, z] with sides t + 1. Arm 0 was chosen n times and paid
      s times, arm 1 was paid z times. The number is by how much arm 0 is expected to bring more than arm 1.
    """

    value: float
    advantages: list[np.ndarray]


def optimal_player(n_choices: int) -> OptimalPlayer:
    """The optimal player, by backward induction. What no player can reach (s > n, z > t - n) is not used."""
    to_go, advantages = np.zeros((n_choices + 1,) * 3), []
    for t in reversed(range(n_choices)):
        n, s, z = np.ogrid[: t + 1, : t + 1, : t + 1]
        first, second = (1 + s) / (2 + n), (1 + z) / (2 + t - n)
        here = slice(0, t + 1)
        paid, unpaid = to_go[1:, 1:, here], to_go[1:, here, here]
        take_first = first * (1 + paid) + (1 - first) * unpaid
        paid, unpaid = to_go[here, here, 1:], to_go[here, here, here]
        take_second = second * (1 + paid) + (1 - second) * unpaid
        to_go = np.maximum(take_first, take_second)
        advantages.append((take_first - take_second).astype(np.float32))
    return OptimalPlayer(float(to_go[0, 0, 0]), advantages[::-1])


def optimal_regret(player: OptimalPlayer) -> float:
    """The expected regret of the optimal player: the mean of the higher of two probabilities is 2/3."""
    return 2 / 3 * len(player.advantages) - player.value


def chance_regret(n_choices: int) -> float:
    """The expected regret of choices that do not depend on rewards: 2/3 - 1/2 for each."""
    return n_choices / 6


def played_regrets(
    probabilities: np.ndarray, n_choices: int, player: str | OptimalPlayer, seed: int
) -> np.ndarray:
    """The regret [bandit, choice] of each choice.

    **Arguments:**

    - `probabilities`: of each bandit and arm [bandit, 2].
    - `player`: "Thompson", "greedy" or the optimal player.
    """
    rng, rows = np.random.default_rng(seed), np.arange(len(probabilities))
    rewards, failures = np.zeros((2, len(rows), 2), int)
    regrets = []
    for t in range(n_choices):
        if isinstance(player, OptimalPlayer):
            n = rewards[:, 0] + failures[:, 0]
            advantage = player.advantages[t][n, rewards[:, 0], rewards[:, 1]]
        elif player == "Thompson":
            draws = rng.beta(1 + rewards, 1 + failures)
            advantage = draws[:, 0] - draws[:, 1]
        else:
            means = (1 + rewards) / (2 + rewards + failures)
            advantage = means[:, 0] - means[:, 1]
        equal = np.abs(advantage) < 1e-6
        chosen = np.where(equal, rng.integers(0, 2, len(rows)), advantage < 0)
        is_paid = rng.random(len(rows)) < probabilities[rows, chosen]
        rewards[rows, chosen] += is_paid
        failures[rows, chosen] += ~is_paid
        regrets.append(probabilities.max(axis=1) - probabilities[rows, chosen])
    return np.stack(regrets, axis=1)
