"""Agents of the two-step task, and the fit that tells them apart. Numpy and SciPy; popsim is not used.

An action i of two leads to second stage i with probability p (common), else to the other one (rare). One of
the stages pays 1 with probability q, the other with 1 - q; after each choice they are exchanged with
probability h. The agents of Daw et al. 2011, Neuron 69:1204-1215, for a second stage without actions, learn
by one rate: the value of the stage V(s) += α (r - V(s)), and the value of the action F(a) += α (r - F(a)),
whatever the stage (SARSA(1)). A model-based agent plans M(a) = p V(a) + (1 - p) V(1 - a). Actions are drawn
with probabilities proportional to

    exp(β (w M(a) + (1 - w) F(a)) + π [a was the last action]).

After a reward that followed a rare transition, a model-based agent (w = 1) leaves its action, and a
model-free one (w = 0) repeats it.
"""

import dataclasses

import numpy as np
from scipy.optimize import minimize

NAMES = ("weight", "learning rate", "inverse temperature", "perseveration")


@dataclasses.dataclass(frozen=True)
class Sessions:
    """Choices in sessions [session, choice].

    - `actions`, `stages`: the action 0 or 1, and the second stage to which it led.
    - `rewards`: 1 or 0.
    """

    actions: np.ndarray
    stages: np.ndarray
    rewards: np.ndarray


@dataclasses.dataclass(frozen=True)
class Agent:
    """The parameters w, α, β and π."""

    weight: float
    learning_rate: float
    inverse_temperature: float
    perseveration: float


def simulate(
    agent: Agent, common: float, paid: float, hazard_rate: float, n_sessions: int, n_choices: int, seed: int
) -> Sessions:
    """What an agent chooses, where p = `common`, q = `paid` and h = `hazard_rate`."""
    rng = np.random.default_rng(seed)
    good, learner = rng.integers(0, 2, n_sessions), _Learner(n_sessions, agent, common)
    steps = []
    for _ in range(n_choices):
        action = (rng.random(n_sessions) < 1 / (1 + np.exp(-learner.preference()))).astype(int)
        stage = np.where(rng.random(n_sessions) < common, action, 1 - action)
        reward = (rng.random(n_sessions) < np.where(stage == good, paid, 1 - paid)).astype(int)
        good = np.where(rng.random(n_sessions) < hazard_rate, 1 - good, good)
        learner.learn(action, stage, reward)
        steps.append((action, stage, reward))
    return Sessions(*(np.stack(values, axis=1) for values in zip(*steps, strict=True)))


def observe(
    common: float, paid: float, hazard_rate: float, n_sessions: int, n_choices: int, seed: int
) -> Sessions:
    """What the best player chooses: the action to the stage that is more probably the better one.

    Its log odds of stage 1 are those of `reversal.py`: either stage tells equally much about which is good.
    """
    rng = np.random.default_rng(seed)
    good, log_odds = rng.integers(0, 2, n_sessions), np.zeros(n_sessions)
    evidence, steps = np.log(paid / (1 - paid)), []
    for _ in range(n_choices):
        action = np.where(log_odds == 0, rng.integers(0, 2, n_sessions), log_odds > 0)
        stage = np.where(rng.random(n_sessions) < common, action, 1 - action)
        reward = (rng.random(n_sessions) < np.where(stage == good, paid, 1 - paid)).astype(int)
        good = np.where(rng.random(n_sessions) < hazard_rate, 1 - good, good)
        second = 1 / (1 + np.exp(-log_odds - evidence * np.where((reward == 1) == (stage == 1), 1, -1)))
        second = (1 - hazard_rate) * second + hazard_rate * (1 - second)
        log_odds = np.log(second / (1 - second))
        steps.append((action, stage, reward))
    return Sessions(*(np.stack(values, axis=1) for values in zip(*steps, strict=True)))


class _Learner:
    """Values of many agents that have the same parameters."""

    def __init__(self, n_sessions: int, agent: Agent, common: float):
        self.agent, self.common = agent, common
        self.of_stages, self.of_actions = np.full((2, n_sessions, 2), 0.5)
        self.last_sign = np.zeros(n_sessions)

    def preference(self) -> np.ndarray:
        """The log odds of action 1."""
        of_stages, of_actions = (values[:, 1] - values[:, 0] for values in (self.of_stages, self.of_actions))
        planned, w = (2 * self.common - 1) * of_stages, self.agent.weight
        value = w * planned + (1 - w) * of_actions
        return self.agent.inverse_temperature * value + self.agent.perseveration * self.last_sign

    def learn(self, action: np.ndarray, stage: np.ndarray, reward: np.ndarray) -> None:
        """Learn from the reward of a choice."""
        rows = np.arange(len(action))
        for values, index in ((self.of_stages, stage), (self.of_actions, action)):
            values[rows, index] += self.agent.learning_rate * (reward - values[rows, index])
        self.last_sign = 2.0 * action - 1


def log_likelihood(agent: Agent, sessions: Sessions, common: float) -> float:
    """The mean over choices of the log probability of the actions."""
    learner, total = _Learner(len(sessions.actions), agent, common), 0.0
    for action, stage, reward in zip(sessions.actions.T, sessions.stages.T, sessions.rewards.T, strict=True):
        total -= np.logaddexp(0, -(2 * action - 1) * learner.preference()).sum()
        learner.learn(action, stage, reward)
    return total / sessions.actions.size


def fit(sessions: Sessions, common: float) -> tuple[Agent, float]:
    """The agent that makes the choices most probable, and its mean log likelihood, from three starts."""
    bounds = [(0, 1), (0.01, 1), (0, 50), (-5, 5)]
    fits = [
        minimize(
            lambda x: -log_likelihood(Agent(*x), sessions, common),
            (weight, 0.5, 3.0, 0.0),
            method="L-BFGS-B",
            bounds=bounds,
        )
        for weight in (0.1, 0.5, 0.9)
    ]
    best = min(fits, key=lambda result: result.fun)
    return Agent(*map(float, best.x)), -float(best.fun)


def stay_probabilities(sessions: Sessions) -> np.ndarray:
    """How often an action is repeated [not paid or paid, rare or common] after such a choice."""
    actions = sessions.actions
    stays, paid = actions[:, 1:] == actions[:, :-1], sessions.rewards[:, :-1]
    is_common = sessions.stages[:, :-1] == actions[:, :-1]
    return np.array([[stays[(paid == r) & (is_common == c)].mean() for c in (0, 1)] for r in (0, 1)])


def interaction(sessions: Sessions) -> float:
    """By how much a reward makes one stay more after a common transition than after a rare one."""
    stay = stay_probabilities(sessions)
    return float((stay[1, 1] - stay[0, 1]) - (stay[1, 0] - stay[0, 0]))
