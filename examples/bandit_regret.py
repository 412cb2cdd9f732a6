"""Networks that learn to learn a bandit, against the players of theory (Wang et al. 2018).

Gated networks choose 100 times between two arms whose probabilities of reward are new in each trial. They
are trained by a policy gradient (Nat Neurosci 21:860-868); in the test their weights are fixed, so that
what they learn of a bandit is in their activity. On 5,000 fresh bandits, the same for all, their regret must
be between that of the Bayes-optimal player and 1.1 times that of Thompson sampling, and below that of a
player that never explores. Networks that see the same, but are paid for an arm that is drawn by a coin, must
miss these gates and stay at chance. Prints the numbers, draws the figure, and exits with 1 when a gate fails
or a control passes.
"""

import dataclasses
import sys
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

import popsim
from command_line import parse_options
from figures.bandit_regret import draw_figure
from gates import Row, exit_code, negative_controls, print_table, tolerance_row, upper_bound_row
from popsim.environment import AbstractEnvironment, Discrete, Outcome
from popsim.losses import Entropy, PolicyGradient, ValueRegression
from popsim.policies import Categorical
from popsim.randomness import key_stream
from popsim.schedules import LinearSchedule
from popsim.training import TaskTrainer, adam, cosine_decay
from references import bandit

N_CHOICES, N_UNITS, BATCH_SIZE, LEARNING_RATE, DISCOUNT = 100, 48, 64, 3e-3, 0.9
N_TESTED, N_REPEATS = 5000, 10  # bandits, and how often players play each
HIGHEST_MEAN, HIGHEST, N_ERRORS = 1.1, 1.3, 2  # regrets relative to Thompson's; standard errors


@dataclasses.dataclass(frozen=True)
class Size:
    """How many networks are trained, and for how many batches."""

    n_members: int
    n_batches: int


FULL, QUICK = Size(3, 3000), Size(1, 3000)


class Bandit(AbstractEnvironment):
    """Two arms, each of which pays 1 with a probability of its own, and what a choice regrets as a record.

    - `probabilities`: of reward.
    - `pays_chosen`: whether the reward is that of the chosen arm, or that of an arm drawn by a coin. What the
      network sees is that of the chosen arm in both cases.
    """

    probabilities: Float[Array, "*axes 2"]
    pays_chosen: Bool[Array, "*axes"]

    @property
    def actions(self) -> Discrete:
        return Discrete(2)

    def init(self, *, key: Key[Array, ""]) -> tuple[tuple[()], dict[str, Array]]:
        return (), {"last action": jnp.zeros(2), "last reward": jnp.zeros(1)}

    def step(
        self, state: tuple[()], action: Int[Array, ""], *, key: Key[Array, ""]
    ) -> tuple[tuple[()], Outcome]:
        drawn = jax.random.bernoulli(key_stream(key, "rewards"), self.probabilities).astype(float)
        one_hot = jax.nn.one_hot(action, 2)
        reward = jnp.sum(one_hot * drawn)
        coin = jax.random.bernoulli(key_stream(key, "coin"))
        paid = jnp.where(self.pays_chosen, reward, jnp.where(coin, drawn[1], drawn[0]))
        regret = jnp.max(self.probabilities) - jnp.sum(one_hot * self.probabilities)
        shown = {"last action": one_hot, "last reward": reward[None]}
        return state, Outcome(shown, paid, jnp.array(False), regret)


class TwoArms(popsim.AbstractTask):
    """A new bandit in each trial; the validation trials are those of the test."""

    loss: popsim.Loss
    pays_chosen: bool = eqx.field(static=True)

    def trial(self, *, batch: Any, key: Key[Array, ""]) -> popsim.Trial:
        return self.trial_of(jax.random.uniform(key, (2,)))

    def validation_trials(self) -> popsim.Trial:
        return jax.vmap(self.trial_of)(jax.random.uniform(jax.random.key(5), (N_TESTED, 2)))

    def trial_of(self, probabilities: Float[Array, "2"]) -> popsim.Trial:
        """The trial of these arms."""
        timeline = popsim.Timeline(1.0, N_CHOICES, epochs={"choices": jnp.array([0, N_CHOICES])})
        environment = Bandit(probabilities=probabilities, pays_chosen=jnp.array(self.pays_chosen))
        return popsim.Trial((), (), (), timeline, environment=environment)


def build_task(n_batches: int = FULL.n_batches, *, pays_chosen: bool = True) -> TwoArms:
    """The task, with a bonus for entropy that falls to zero in half of the batches."""
    weight = LinearSchedule(1.0, 0.0, last_batch=n_batches // 2)
    loss = PolicyGradient(discount=DISCOUNT) + 0.05 * ValueRegression(discount=DISCOUNT)
    loss = loss + Entropy() * weight
    return TwoArms(loss, pays_chosen)


def build_ensemble(n_members: int, key: Key[Array, ""]) -> popsim.NetworkModel:
    """Untrained networks, which see what they chose and got, and put out two preferences and a value."""
    policy = Categorical(2, critic=True)

    def build(key):
        network = popsim.networks.GRUNetwork(3, N_UNITS, policy.n_outputs, key=key)
        return popsim.NetworkModel(network, policy=policy, dt=1.0)

    return popsim.make_ensemble(build, n_members, key=key)


def train(
    task: TwoArms, untrained: popsim.NetworkModel, n_batches: int, key: Key[Array, ""]
) -> tuple[popsim.NetworkModel, Float[np.ndarray, "batch member"]]:
    """The trained ensemble, and the mean reward of a choice in each batch."""
    trained, history = TaskTrainer(adam(cosine_decay(LEARNING_RATE, n_batches)))(
        task,
        untrained,
        n_batches,
        BATCH_SIZE,
        where_train=lambda model: model.network,
        ensembled=True,
        log_step=n_batches,
        disable_tqdm=not sys.stderr.isatty(),
        key=key,
    )
    return trained, -np.asarray(history.loss.terms["minus reward"]) / N_CHOICES


def regrets_of(ensemble: popsim.NetworkModel, key: Key[Array, ""]) -> Float[np.ndarray, "member trial time"]:
    """The regret of each choice in the test."""
    states = popsim.evaluate_ensemble(ensemble, build_task(), key=key).states
    return np.asarray(states.interaction.record, float)


def regret_rows(
    name: str, regrets: np.ndarray, of_players: dict[str, np.ndarray], optimum: float
) -> list[Row]:
    """The regrets of networks [member, trial] beside those of players [trial] and of the optimal one."""
    rows, thompson = [], of_players["Thompson"].mean()
    errors = regrets.std(axis=1, ddof=1) / regrets.shape[1] ** 0.5
    for i, (regret, error) in enumerate(zip(regrets.mean(axis=1), errors / optimum, strict=True)):
        lowest = (1 - N_ERRORS * error, np.inf)
        rows.append(Row(f"{name} / optimal", str(i), regret, optimum, error, lowest))
        rows.append(upper_bound_row(f"{name} / {HIGHEST} Thompson", str(i), regret, HIGHEST * thompson))
    mean = float(regrets.mean())
    bounds = {
        f"{HIGHEST_MEAN} Thompson": HIGHEST_MEAN * thompson,
        "greedy": of_players["greedy"].mean(),
    }
    return rows + [upper_bound_row(f"{name} / {other}", "mean", mean, x) for other, x in bounds.items()]


def main() -> int:
    """Train networks and controls, let players play, print the table, draw the figure."""
    short = f"train {QUICK.n_members} network of each kind"
    options = parse_options(__file__, __doc__ or "", short_form=short)
    size, key = QUICK if options.quick else FULL, jax.random.key(options.seed)
    untrained = build_ensemble(size.n_members, key_stream(key, "networks"))
    regrets, rewards = {"untrained": regrets_of(untrained, key_stream(key, "test"))}, {}
    for name, pays_chosen in (("networks", True), ("paid by a coin", False)):
        began, task = time.perf_counter(), build_task(size.n_batches, pays_chosen=pays_chosen)
        trained, rewards[name] = train(task, untrained, size.n_batches, key_stream(key, "training"))
        regrets[name] = regrets_of(trained, key_stream(key, "test"))
        print(f"{name}: {size.n_batches} batches, {time.perf_counter() - began:.0f} s", flush=True)

    optimal = bandit.optimal_player(N_CHOICES)
    environments: Any = build_task().validation_trials().environment
    probabilities = np.repeat(np.asarray(environments.probabilities, float), N_REPEATS, axis=0)
    players = {
        name: bandit.played_regrets(probabilities, N_CHOICES, player, options.seed)
        for name, player in (("optimal", optimal), ("Thompson", "Thompson"), ("greedy", "greedy"))
    }
    sums = {name: regret.sum(axis=-1) for name, regret in (regrets | players).items()}
    bounds = (sums, bandit.optimal_regret(optimal))
    rows = regret_rows("networks", sums["networks"], *bounds)
    rows += [Row(name, "", sums[name].mean(), bounds[1]) for name in players]
    chance = bandit.chance_regret(N_CHOICES)
    for name in ("untrained", "paid by a coin"):
        rows += [
            tolerance_row(f"{name} / chance", str(i), regret, chance, 0.1)
            for i, regret in enumerate(sums[name].mean(axis=1))
        ]
        control = regret_rows(name, sums[name], *bounds)
        rows += negative_controls([row for row in control if "optimal" not in row.condition])
    print_table(rows, "regret", "reference")
    print(*draw_figure(options.out, rewards, regrets, players, bounds[1]), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
