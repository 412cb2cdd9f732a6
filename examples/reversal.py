"""Networks that notice reversals, beside the Bayesian observer who knows how often there are any.

Of two arms one pays more often, until they are exchanged without notice, at one of three hazard rates.
Gated networks learn from reward; in the test their weights are fixed. How many choices after a reversal they
switch, and how often they choose the good arm, must be near those of the observer of their hazard rate (Glaze
et al. 2015, eLife 4:e08825). Networks that learned another hazard rate, and untrained ones, must miss. Prints
the numbers, draws the figure, and exits with 1 when a gate fails or a control passes.
"""

import dataclasses
import sys
import time

import jax
import numpy as np
from jaxtyping import Array, Key

import popsim
from command_line import parse_options
from figures.reversal import Choices, draw_figure
from gates import Row, exit_code, negative_controls, print_table, tolerance_row
from popsim.losses import Entropy, PolicyGradient, ValueRegression
from popsim.policies import Categorical, greedy
from popsim.randomness import key_stream
from popsim.schedules import LinearSchedule
from popsim.tasks import ReversalLearning
from popsim.training import TaskTrainer, adam, cosine_decay
from references import reversal

REWARD_PROBABILITY, HAZARD_RATES = 0.8, (0.01, 0.03, 0.1)
N_CHOICES, DT = 100, 1.0  # a time step is a choice
N_UNITS, BATCH_SIZE, LEARNING_RATE = 48, 64, 3e-3
# No choice changes what is learned from it, so that later rewards only add noise to the gradient.
DISCOUNT = 0.0
N_TESTED = 3000  # trials
LARGEST_ERROR, LOWEST_ACCURACY = 0.1, 0.97  # of the trials to switch, and relative to the observer's


@dataclasses.dataclass(frozen=True)
class Size:
    """How many networks are trained at each hazard rate, and for how many batches."""

    n_members: int
    n_batches: int


FULL, QUICK = Size(3, 1500), Size(1, 1500)


def build_task(hazard_rate: float, n_batches: int = FULL.n_batches) -> ReversalLearning:
    """The task, with a bonus for entropy that falls to zero in half of the batches."""
    weight = LinearSchedule(0.1, 0.0, last_batch=n_batches // 2)
    loss = PolicyGradient(discount=DISCOUNT) + 0.5 * ValueRegression(discount=DISCOUNT) + Entropy() * weight
    return ReversalLearning(
        n_choices=N_CHOICES,
        reward_probability=REWARD_PROBABILITY,
        hazard_rate=hazard_rate,
        n_validation_trials=N_TESTED,
        dt=DT,
        loss=loss,
    )


def build_ensemble(n_members: int, key: Key[Array, ""]) -> popsim.NetworkModel:
    """Untrained networks, which see what they chose and got."""
    policy = Categorical(2, critic=True)

    def build(key):
        network = popsim.networks.GRUNetwork(3, N_UNITS, policy.n_outputs, key=key)
        return popsim.NetworkModel(network, policy=policy, dt=DT)

    return popsim.make_ensemble(build, n_members, key=key)


def train(
    task: ReversalLearning, untrained: popsim.NetworkModel, n_batches: int, key: Key[Array, ""]
) -> popsim.NetworkModel:
    """The trained ensemble."""
    return TaskTrainer(adam(cosine_decay(LEARNING_RATE, n_batches), clip_norm=1.0))(
        task,
        untrained,
        n_batches,
        BATCH_SIZE,
        where_train=lambda model: model.network,
        ensembled=True,
        log_step=n_batches,
        disable_tqdm=not sys.stderr.isatty(),
        key=key,
    )[0]


def choose(ensemble: popsim.NetworkModel, hazard_rate: float, key: Key[Array, ""]) -> Choices:
    """What networks choose in the test, always the arm that they prefer."""
    states = popsim.evaluate_ensemble(greedy(ensemble), build_task(hazard_rate), key=key).states
    interaction = states.interaction
    return Choices(np.asarray(interaction.action), np.asarray(interaction.record["good arm"]))


def observe(hazard_rate: float, seed: int) -> Choices:
    """What the observer chooses in as many trials."""
    choices, good_arms = reversal.play(
        REWARD_PROBABILITY, hazard_rate, hazard_rate, N_TESTED, N_CHOICES, seed
    )
    return Choices(choices[None], good_arms[None])


def switch_rows(name: str, found: Choices, observer: Choices) -> list[Row]:
    """The mean trials to switch of each member, beside those of the observer."""
    expected = observer.switch_times()[0].mean()
    return [
        tolerance_row(f"{name}, trials to switch", str(i), times.mean(), expected, LARGEST_ERROR)
        for i, times in enumerate(found.switch_times())
    ]


def accuracy_rows(name: str, found: Choices, observer: Choices) -> list[Row]:
    """How often each member chooses the good arm, beside the observer, who has other trials."""
    rows, of_observer = [], observer.accuracies()[0]
    for i, of_member in enumerate(found.accuracies()):
        variance = of_member.var(ddof=1) + of_observer.var(ddof=1)
        error = float((variance / len(of_observer)) ** 0.5 / of_observer.mean())
        gate = (LOWEST_ACCURACY, 1 + 3 * error)
        rows.append(Row(f"{name}, accuracy", str(i), of_member.mean(), of_observer.mean(), error, gate))
    return rows


def main() -> int:
    """Train networks at each hazard rate, print the table, draw the figure."""
    short = f"train {QUICK.n_members} network at each hazard rate"
    options = parse_options(__file__, __doc__ or "", short_form=short)
    size, key = QUICK if options.quick else FULL, jax.random.key(options.seed)
    untrained = build_ensemble(size.n_members, key_stream(key, "networks"))
    rows, controls, trained, found, observers = [], [], {}, {}, {}
    for rate in HAZARD_RATES:
        began = time.perf_counter()
        task = build_task(rate, size.n_batches)
        trained[rate] = train(task, untrained, size.n_batches, key_stream(key, f"training at {rate}"))
        found[rate] = choose(trained[rate], rate, key_stream(key, "test"))
        observers[rate] = observe(rate, options.seed)
        for rows_of in (switch_rows, accuracy_rows):
            rows += rows_of(f"hazard {rate}", found[rate], observers[rate])
        before = choose(untrained, rate, key_stream(key, "test"))
        controls += accuracy_rows(f"untrained, {rate}", before, observers[rate])
        print(
            f"hazard rate {rate}: {size.n_batches} batches, {time.perf_counter() - began:.0f} s", flush=True
        )
    for learned, tested in (HAZARD_RATES[::2], HAZARD_RATES[::-2]):
        others = choose(trained[learned], tested, key_stream(key, "test"))
        controls += switch_rows(f"learned {learned}, hazard {tested}", others, observers[tested])
    rows += negative_controls(controls)
    print_table(rows, "found", "observer")
    print(*draw_figure(options.out, found, observers), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
