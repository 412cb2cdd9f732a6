"""Networks that look model-based in the two-step task (Daw et al. 2011; Wang et al. 2018).

An action leads to one of two second stages, as a rule to its own, and only the stage decides the reward. A
model-based agent leaves an action that was paid after a rare transition, a model-free one repeats it (Neuron
69:1204-1215). Gated networks learn by a policy gradient, which knows no model, to choose in their activity
(Nat Neurosci 21:860-868). A fit of the hybrid agent must give each network a model-based weight above 3/4,
and its probabilities of staying must have the interaction of reward and transition. The same fit must recover
the weights of simulated agents. Simulated agents that are model-free, or half so, and untrained networks must
miss. Prints the
numbers, draws the figure, and exits with 1 when a gate fails or a control passes.
"""

import dataclasses
import sys
import time

import jax
import numpy as np
from jaxtyping import Array, Key

import popsim
from command_line import parse_options
from figures.two_step import draw_figure
from gates import Row, at_least_row, exit_code, negative_controls, print_table
from popsim.losses import Entropy, PolicyGradient, ValueRegression
from popsim.policies import Categorical
from popsim.randomness import key_stream
from popsim.schedules import LinearSchedule
from popsim.tasks import TwoStepTask
from popsim.training import TaskTrainer, adam, cosine_decay
from references.two_step import Agent, Sessions, fit, interaction, observe, simulate

COMMON, PAID, HAZARD_RATE = 0.8, 0.9, 0.025
N_CHOICES, DT = 100, 1.0  # a time step is half of a choice
N_UNITS, BATCH_SIZE, LEARNING_RATE, DISCOUNT = 48, 64, 3e-3, 0.7
N_TESTED = 300  # sessions
AGENTS = {f"agent, weight {weight}": Agent(weight, 0.5, 5.0, 0.3) for weight in (0.0, 0.5, 1.0)}
# Between the best player, 0.89 and 0.66, and an agent that is half model-free, 0.51 and 0.57.
LOWEST_WEIGHT, LEAST_INTERACTION, LARGEST_ERROR = 0.75, 0.6, 0.1
LOWEST_REWARD = 0.95  # relative to the best player's


@dataclasses.dataclass(frozen=True)
class Size:
    """How many networks are trained, and for how many batches."""

    n_members: int
    n_batches: int


FULL, QUICK = Size(3, 1500), Size(1, 1500)


def build_task(n_batches: int = FULL.n_batches) -> TwoStepTask:
    """The task, with a bonus for entropy that falls to zero in half of the batches."""
    weight = LinearSchedule(0.1, 0.0, last_batch=n_batches // 2)
    loss = PolicyGradient(discount=DISCOUNT) + 0.2 * ValueRegression(discount=DISCOUNT) + Entropy() * weight
    return TwoStepTask(
        n_choices=N_CHOICES,
        common_probability=COMMON,
        reward_probability=PAID,
        hazard_rate=HAZARD_RATE,
        n_validation_trials=N_TESTED,
        dt=DT,
        loss=loss,
    )


def build_ensemble(n_members: int, key: Key[Array, ""]) -> popsim.NetworkModel:
    """Untrained networks, which see the stage, and what they chose and got."""
    policy = Categorical(2, critic=True)

    def build(key):
        network = popsim.networks.GRUNetwork(6, N_UNITS, policy.n_outputs, key=key)
        return popsim.NetworkModel(network, policy=policy, dt=DT)

    return popsim.make_ensemble(build, n_members, key=key)


def train(untrained: popsim.NetworkModel, n_batches: int, key: Key[Array, ""]) -> popsim.NetworkModel:
    """The trained ensemble."""
    return TaskTrainer(adam(cosine_decay(LEARNING_RATE, n_batches), clip_norm=1.0))(
        build_task(n_batches),
        untrained,
        n_batches,
        BATCH_SIZE,
        where_train=lambda model: model.network,
        ensembled=True,
        log_step=n_batches,
        disable_tqdm=not sys.stderr.isatty(),
        key=key,
    )[0]


def choose(ensemble: popsim.NetworkModel, key: Key[Array, ""]) -> list[Sessions]:
    """What each member chooses at the first stages of the test, and what comes of it."""
    interaction = popsim.evaluate_ensemble(ensemble, build_task(), key=key).states.interaction
    actions, stages, rewards = (
        np.asarray(values).astype(int)
        for values in (interaction.action, interaction.record["second stage"], interaction.reward)
    )
    # The action and the transition are those of even steps, the reward that of the step after.
    return [
        Sessions(*values)
        for values in zip(actions[..., ::2], stages[..., ::2], rewards[..., 1::2], strict=True)
    ]


def interaction_row(name: str, member: int | str, sessions: Sessions) -> Row:
    """The interaction of reward and transition in the probabilities of staying."""
    return at_least_row(f"{name}, interaction", member, interaction(sessions), LEAST_INTERACTION)


def weight_row(name: str, member: int | str, agent: Agent) -> Row:
    """The model-based weight of a fit."""
    return at_least_row(f"{name}, weight", member, agent.weight, LOWEST_WEIGHT)


def recovery_row(name: str, fitted: Agent, true: Agent) -> Row:
    """The fitted weight of a simulated agent, both plus one, so that a weight of zero has a ratio too."""
    error = LARGEST_ERROR / (1 + true.weight)
    return Row(f"{name}, 1 + fit", "", 1 + fitted.weight, 1 + true.weight, gate=(1 - error, 1 + error))


def main() -> int:
    """Train networks, simulate agents, fit all, print the table, draw the figure."""
    short = f"train {QUICK.n_members} network"
    options = parse_options(__file__, __doc__ or "", short_form=short)
    size, key = QUICK if options.quick else FULL, jax.random.key(options.seed)
    untrained = build_ensemble(size.n_members, key_stream(key, "networks"))
    began = time.perf_counter()
    trained = train(untrained, size.n_batches, key_stream(key, "training"))
    print(f"networks: {size.n_batches} batches, {time.perf_counter() - began:.0f} s", flush=True)
    simulated = {
        name: simulate(agent, COMMON, PAID, HAZARD_RATE, N_TESTED, N_CHOICES, options.seed)
        for name, agent in AGENTS.items()
    }
    model_free, half, model_based = simulated
    sessions = {
        "networks": choose(trained, key_stream(key, "test")),
        "untrained": choose(untrained, key_stream(key, "test")),
        **{name: [of_agent] for name, of_agent in simulated.items()},
        "best player": [observe(COMMON, PAID, HAZARD_RATE, N_TESTED, N_CHOICES, options.seed)],
    }
    fits = {name: [fit(x, COMMON)[0] for x in of_kind] for name, of_kind in sessions.items()}
    rows, reward = [], sessions["best player"][0].rewards.mean()
    for i, (played, agent) in enumerate(zip(sessions["networks"], fits["networks"], strict=True)):
        rows += [interaction_row("networks", i, played), weight_row("networks", i, agent)]
        rows.append(at_least_row("networks, reward", i, played.rewards.mean(), LOWEST_REWARD * reward))
    rows.append(interaction_row(model_based, "", simulated[model_based]))
    rows.append(interaction_row("best player", "", sessions["best player"][0]))
    rows += [recovery_row(name, fits[name][0], agent) for name, agent in AGENTS.items()]
    controls = []
    for name in (model_free, half):
        controls += [interaction_row(name, "", simulated[name]), weight_row(name, "", fits[name][0])]
    for i, played in enumerate(sessions["untrained"]):
        controls.append(interaction_row("untrained", i, played))
        controls.append(at_least_row("untrained, reward", i, played.rewards.mean(), LOWEST_REWARD * reward))
    rows += negative_controls(controls)
    print_table(rows, "found", "least")
    for name, agents in fits.items():
        for agent in agents:
            print(f"{name}: " + ", ".join(f"{k} {v:.2f}" for k, v in dataclasses.asdict(agent).items()))
    print(*draw_figure(options.out, sessions, fits), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
