"""Networks of one and two units, fitted to choices, find how an agent learns (Ji-An, Benna & Mattar 2025).

A Q-learner plays a bandit whose arms are exchanged. Gated networks of 1, 2 and 8 units are fitted to its
choices, and scored on other sessions. No model can predict these better than the agent, whose likelihood is
computed by `references/tiny_networks.py`, without popsim. The agent remembers three numbers: two values and
its last choice. One unit must miss, and of three networks with two units the best must come near. An agent
that forgets remembers one number, which one unit must find. Q-learners fitted to five folds must find the
agent, and networks fitted to choices in random order must not. The nearest wrong model, a fitted Q-learner
without stickiness, is shown without a gate. The figure shows what networks found: how log odds of a choice
change by choice and reward. Prints the numbers, draws it, and exits with 1 when a gate fails or a control
passes.
"""

import functools
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key

import popsim
from command_line import parse_options
from figures.tiny_networks import draw_figure
from gates import Row, exit_code, negative_controls, optimum_gate, print_table, tolerance_row, upper_bound_row
from popsim.losses import Entropy
from popsim.networks import GRUNetwork, QLearner
from popsim.policies import Categorical
from popsim.tasks import ReversalLearning, StoredChoices
from popsim.training import TaskTrainer, adam, cosine_decay
from references import tiny_networks as reference

LEARNER = {"rate": 0.35, "beta": 3.5, "stickiness": 0.3}
FORGETFUL = {"rate": 0.35, "beta": 3.5, "forgetting": 0.35}
N_CHOICES, N_FITTED, N_SESSIONS, N_FOLDS = 150, 200, 250, 5
SPLIT: dict[str, Any] = {"train": np.arange(160), "validation": np.arange(160, N_FITTED)}
SCORED = slice(N_FITTED, None)
N_NETWORKS, BATCH_SIZE, FULL, QUICK = 3, 64, 1500, 750  # the last two: batches
RATES = {1: 5e-2, 2: 2e-2, 8: 1e-2}  # by units
MOST_NATS, MOST_OF_FOLDS = 1.02, 2e-3  # relative to the agent; from it
LARGEST_ERROR = 0.15  # of changes of log odds, relative to them


@dataclass(frozen=True)
class Recorded:
    """What an agent chose [session, choice].

    - `log_odds`, `nats`: of its choices, by NumPy.
    """

    actions: np.ndarray
    rewards: np.ndarray
    log_odds: np.ndarray
    nats: np.ndarray

    def task(self, n_sessions: int = N_SESSIONS, **split: Any) -> StoredChoices:
        """The first sessions as a task."""
        columns = {
            "session": np.indices(self.actions.shape)[0],
            "choice": self.actions,
            "reward": self.rewards,
        }
        table = {name: column[:n_sessions].ravel() for name, column in columns.items()}
        return StoredChoices.from_table(table, **split)

    def shuffled(self, seed: int) -> "Recorded":
        """The same in random order within each session."""
        pairs = np.random.default_rng(seed).permuted(2 * self.actions + self.rewards, axis=1)
        return replace(self, actions=pairs // 2, rewards=pairs % 2)


@dataclass(frozen=True)
class Found:
    """Networks on the sessions to score.

    - `nats`, `errors` [member]: per choice, relative to the agent's, and their standard errors over sessions.
    - `agent`: the nats of the agent.
    - `best`: the member that is best on the validation sessions.
    - `log_odds` [session, choice]: of this member.
    - `change_error`: of its changes of log odds, relative to those of the agent.
    """

    nats: np.ndarray
    errors: np.ndarray
    agent: float
    best: int
    log_odds: np.ndarray
    change_error: float

    def rows(self, condition: str, gated: str) -> list[Row]:
        """The nats of "each", or of the "best", within a gate; or those of each as "controls"."""
        rows = []
        for member, (ratio, error) in enumerate(zip(self.nats, self.errors, strict=True)):
            gate = None if gated == "best" and member != self.best else optimum_gate(MOST_NATS, error)
            values = ratio * self.agent, self.agent, error
            rows.append(Row(condition, str(member), *values, gate, must_fail=gated == "controls"))
        return rows


def record(parameters: dict[str, Any], key: Key[Array, ""]) -> Recorded:
    """What an agent chooses in a bandit whose arms are exchanged without notice."""
    agent = popsim.NetworkModel(QLearner(**parameters), policy=Categorical(2), dt=0.1)
    bandit = ReversalLearning(n_choices=N_CHOICES, n_validation_trials=N_SESSIONS, loss=1.0 * Entropy())
    played = popsim.evaluate(agent, bandit, key=key).states.interaction
    actions, rewards = np.asarray(played.action), np.asarray(played.reward)
    log_odds = reference.log_odds(actions, rewards, **parameters)
    return Recorded(actions, rewards, log_odds, reference.nats(log_odds, actions))


def show_paid(task: StoredChoices) -> StoredChoices:
    """The task that shows the reward at the choice for which it was paid, so that no unit multiplies them."""
    action, reward = task.inputs["last action"], task.inputs["last reward"]
    return replace(task, inputs={"last action": action, "reward of each": action * reward})


def fit(
    task: StoredChoices,
    build: Callable[..., Any],
    n_members: int,
    n_batches: int,
    key: Key[Array, ""],
    *,
    rate: float,
    where: Callable[[Any], Any] = lambda model: model.network,
) -> popsim.NetworkModel:
    """An ensemble of networks, fitted to choices."""
    trainer = TaskTrainer(adam(cosine_decay(rate, n_batches)))
    models = popsim.make_ensemble(lambda key: popsim.NetworkModel(build(key=key), dt=0.1), n_members, key=key)
    options = {"ensembled": True, "log_step": n_batches, "disable_tqdm": not sys.stderr.isatty(), "key": key}
    return trainer(task, models, n_batches, BATCH_SIZE, where, **options)[0]


def score(ensemble: popsim.NetworkModel, task: StoredChoices, agent: Recorded) -> Found:
    """Networks beside the agent whose choices are scored."""

    def evaluate(sessions):
        scored = replace(task, train=None, validation=sessions)
        return popsim.evaluate_ensemble(ensemble, scored, key=jax.random.key(0))

    best = int(evaluate(SPLIT["validation"]).losses.total.mean(axis=1).argmin())
    found, of_agent = evaluate(np.arange(N_FITTED, N_SESSIONS)), agent.nats[SCORED].mean(axis=1)
    ratios, logits = found.losses.total / of_agent.mean(), np.asarray(found.states.network.output[best])
    errors = np.std(ratios - of_agent / of_agent.mean(), axis=1, ddof=1) / len(of_agent) ** 0.5
    log_odds = logits[..., 1] - logits[..., 0]
    true, changes = np.diff(agent.log_odds[SCORED]), np.diff(log_odds)
    error = np.sqrt(np.mean((changes - true) ** 2) / np.mean(true**2))
    return Found(np.mean(ratios, axis=1), errors, of_agent.mean(), best, log_odds, float(error))


def fit_learners(agent: Recorded, task: StoredChoices, key: Key[Array, ""]) -> list[Row]:
    """Q-learners that are fitted: to folds, and without stickiness."""
    options = {"build": lambda key: QLearner(0.5, 2.0), "n_batches": 300, "rate": 5e-2, "key": key}
    folds = agent.task(N_FITTED).folds(N_FOLDS)
    nats = popsim.evaluate_ensemble(fit(folds, n_members=N_FOLDS, **options), folds, key=key).losses.total
    row = tolerance_row(
        "Q-learner, folds", "mean", float(nats.mean()), agent.nats[:N_FITTED].mean(), MOST_OF_FOLDS
    )
    options["where"] = lambda model: (model.network.rate_logit, model.network.log_beta)
    wrong = score(fit(task, n_members=1, **options), task, agent)
    return [row, replace(wrong.rows("Q-learner, no stickiness", "each")[0], gate=None)]


def main() -> int:
    """Fit networks to choices, print the table, draw the figure."""
    options = parse_options(__file__, __doc__ or "", short_form="half of the batches")
    key, began = jax.random.key(options.seed), time.perf_counter()
    learner, forgetful = (record(each, popsim.key_stream(key, "choices")) for each in (LEARNER, FORGETFUL))
    task, simple = learner.task(**SPLIT), show_paid(forgetful.task(**SPLIT))
    shuffled, paid = learner.shuffled(options.seed).task(**SPLIT), show_paid(task)
    cases = {  # units, what they are fitted to and scored on, the agent, which are gated
        "1 unit": (1, task, task, learner, "controls"),
        "2 units": (2, task, task, learner, "best"),
        "8 units": (8, task, task, learner, "each"),
        "2 units, random order": (2, shuffled, task, learner, "controls"),
        "1 unit, paid choice shown": (1, paid, paid, learner, "controls"),
        "1 unit, forgetful agent": (1, simple, simple, forgetful, "best"),
    }
    found, rows, changes = {}, [], []
    for name, (n_units, fitted, scored, agent, gated) in cases.items():
        build = functools.partial(GRUNetwork, popsim.n_network_inputs(fitted.validation_trials()), n_units, 2)
        n_batches, of_case = QUICK if options.quick else FULL, popsim.key_stream(key, name)
        networks = fit(fitted, build, N_NETWORKS, n_batches, of_case, rate=RATES[n_units])
        found[name] = score(networks, scored, agent)
        rows += found[name].rows(name, gated)
        error = found[name].change_error
        changes.append(upper_bound_row(f"{name}, changes", str(found[name].best), error, LARGEST_ERROR))
    rows += fit_learners(learner, task, popsim.key_stream(key, "learners"))
    rows += [changes[-1], *negative_controls(changes[-2:-1]), replace(changes[1], gate=None)]
    print(f"run in {time.perf_counter() - began:.0f} s")
    print_table(rows, "found", "agent")
    shown = {
        "forgetful agent": (forgetful, forgetful.log_odds[SCORED]),
        "1 unit, fitted to it": (forgetful, found["1 unit, forgetful agent"].log_odds),
        "Q-learner": (learner, learner.log_odds[SCORED]),
        "2 units, fitted to it": (learner, found["2 units"].log_odds),
    }
    portraits = {
        name: (x, agent.actions[SCORED], agent.rewards[SCORED]) for name, (agent, x) in shown.items()
    }
    print(*draw_figure(options.out, found, portraits), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
