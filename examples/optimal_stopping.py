"""Networks that decide when to stop watching, beside the best time to stop (Drugowitsch et al. 2012).

Random dots of two strengths move left or right; each second of watching costs, and a response ends the trial
(J Neurosci 32:3612-3628). Gated networks learn when to respond, and with which side, by a policy gradient
from a start that is biased to wait, at three costs of time. Their mean payoff must be at least 95 % of that
of the best player, whom dynamic programming finds for the same time step and noise, and not above it. The
more time costs, the sooner and the less accurate their responses must be. Networks that learned another cost,
and untrained ones, must miss. Prints the numbers, draws the figure, and exits with 1 when a gate fails or a
control passes.
"""

import dataclasses
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

import popsim
from command_line import parse_options
from figures.optimal_stopping import Responses, draw_figure
from gates import Row, exit_code, negative_controls, print_table, standard_error_row
from popsim.distributions import Choice
from popsim.losses import Entropy, PolicyGradient, ValueRegression
from popsim.policies import Categorical
from popsim.randomness import key_stream
from popsim.schedules import LinearSchedule
from popsim.tasks import ReactionTimeDecision
from popsim.training import TaskTrainer, adam, cosine_decay
from references.optimal_stopping import Problem, Solution, play, solve

COHERENCES, NOISE, ERROR_PAYOFF = (-0.4, -0.1, 0.1, 0.4), 0.2, -1.0
FIXATION, DURATION, DT = 0.05, 2.0, 0.05  # s
COSTS = (0.1, 0.3, 0.9)  # per second
N_UNITS, BATCH_SIZE, LEARNING_RATE = 32, 128, 5e-3
WAITING_BIAS = 3.0  # of the preference for waiting in untrained networks
N_TESTED, LOWEST = 20_000, 0.95  # trials; payoff relative to the best player's


@dataclasses.dataclass(frozen=True)
class Size:
    """How many networks are trained at each cost, and for how many batches."""

    n_members: int
    n_batches: int


FULL, QUICK = Size(3, 6000), Size(1, 6000)


def build_problem(cost: float) -> Problem:
    """What the reference solves: the steps of the stimulus."""
    n_steps = round((DURATION - FIXATION) / DT)
    return Problem(COHERENCES, NOISE, DT, n_steps, cost, ERROR_PAYOFF)


def build_task(cost: float, n_batches: int = FULL.n_batches) -> ReactionTimeDecision:
    """The task, with a bonus for entropy that falls to zero in half of the batches."""
    weight = LinearSchedule(0.05, 0.0, last_batch=n_batches // 2)
    loss = PolicyGradient(discount=1.0) + 0.5 * ValueRegression(discount=1.0) + Entropy() * weight
    return ReactionTimeDecision(
        coherence=Choice(jnp.array(COHERENCES)),
        noise=NOISE,
        fixation=FIXATION,
        waiting_cost=cost,
        error_payoff=ERROR_PAYOFF,
        duration=DURATION,
        dt=DT,
        loss=loss,
    )


def build_ensemble(n_members: int, key: Key[Array, ""]) -> popsim.NetworkModel:
    """Untrained networks that prefer to wait; their outputs are wait, left, right and a value."""
    policy = Categorical(3, critic=True)

    def build(key):
        bias = np.array([WAITING_BIAS, 0.0, 0.0, 0.0])
        network = popsim.networks.GRUNetwork(1, N_UNITS, policy.n_outputs, output_bias=bias, key=key)
        return popsim.NetworkModel(network, policy=policy, dt=DT)

    return popsim.make_ensemble(build, n_members, key=key)


def train(
    task: ReactionTimeDecision, untrained: popsim.NetworkModel, n_batches: int, key: Key[Array, ""]
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


def draw_trials(key: Key[Array, ""]) -> popsim.Trial:
    """The trials of the test, whose cost of time is nil."""
    task = build_task(0.0)
    return jax.vmap(lambda key: task.trial(batch=0, key=key))(jax.random.split(key, N_TESTED))


def respond(ensemble: popsim.NetworkModel, trials: popsim.Trial, key: Key[Array, ""]) -> Responses:
    """When each member responds, and what it is paid, but for the cost of time."""
    states = popsim.evaluate_ensemble(ensemble, build_task(0.0), trials=trials, key=key).states
    interaction = states.interaction
    n_active = np.asarray(interaction.active.sum(axis=-1))
    onset = round(FIXATION / DT)
    return Responses(
        times=DT * np.maximum(n_active - 1 - onset, 0), payoffs=np.asarray(interaction.reward.sum(axis=-1))
    )


def best_responses(solution: Solution, problem: Problem, trials: popsim.Trial) -> Responses:
    """What the best player does in the same trials."""
    inputs: Any = trials.inputs
    evidence = np.asarray(inputs["evidence"], float)[:, round(FIXATION / DT) :, 0]
    steps, signs = play(problem, solution.bounds, evidence)
    right = signs == np.sign(np.asarray(trials.conditions["coherence"]))
    return Responses(times=DT * steps, payoffs=np.where(right, 1.0, ERROR_PAYOFF))


def payoff_rows(name: str, found: Responses, best: Responses, cost: float) -> list[Row]:
    """The mean payoff of each member and of all, at a cost of time, beside that of the best player.

    Both have the same trials, so that the error is that of the difference.
    """
    optimum = best.net(cost).mean()
    values = found.net(cost)
    errors = (values - best.net(cost)).std(axis=-1, ddof=1) / values.shape[-1] ** 0.5 / optimum
    return [
        Row(name, str(i), value, optimum, error, (LOWEST, 1 + 3 * error))
        for i, (value, error) in enumerate(zip(values.mean(axis=-1), errors, strict=True))
    ]


def order_rows(found: dict[float, Responses]) -> list[Row]:
    """The mean accuracy and response time at each cost but the last, relative to those at the next."""
    rows = []
    for cheap, dear in zip(COSTS, COSTS[1:], strict=False):
        for name in ("accuracy", "time"):
            values = [getattr(found[cost], name).mean(axis=-1) for cost in (cheap, dear)]
            rows += [
                Row(f"{name}, cost {cheap} / {dear}", str(i), *pair, gate=(1.0 + 1e-6, np.inf))
                for i, pair in enumerate(zip(*values, strict=True))
            ]
    return rows


def main() -> int:
    """Train networks at each cost, print the table, draw the figure."""
    short = f"train {QUICK.n_members} network at each cost"
    options = parse_options(__file__, __doc__ or "", short_form=short)
    size, key = QUICK if options.quick else FULL, jax.random.key(options.seed)
    trials = draw_trials(key_stream(key, "test"))
    untrained = build_ensemble(size.n_members, key_stream(key, "networks"))
    before = respond(untrained, trials, key_stream(key, "responses"))
    rows, controls, found, best, solutions = [], [], {}, {}, {}
    for cost in COSTS:
        began = time.perf_counter()
        problem = build_problem(cost)
        solutions[cost] = solve(problem)
        best[cost] = best_responses(solutions[cost], problem, trials)
        task = build_task(cost, size.n_batches)
        trained = train(task, untrained, size.n_batches, key_stream(key, f"training at {cost}"))
        found[cost] = respond(trained, trials, key_stream(key, "responses"))
        played = best[cost].net(cost)
        error = played.std(ddof=1) / len(played) ** 0.5
        rows.append(
            standard_error_row(f"best player, cost {cost}", "", played.mean(), solutions[cost].value, error)
        )
        rows += payoff_rows(f"payoff, cost {cost}", found[cost], best[cost], cost)
        controls += payoff_rows(f"untrained, cost {cost}", before, best[cost], cost)
        print(f"cost {cost}: {size.n_batches} batches, {time.perf_counter() - began:.0f} s", flush=True)
    for learned, tested in (COSTS[::2], COSTS[::-2]):
        name = f"learned {learned}, cost {tested}"
        controls += payoff_rows(name, found[learned], best[tested], tested)
    rows += order_rows(found)
    rows += [
        Row(f"{name}, cost {cost} / best", str(i), value, getattr(best[cost], name).mean())
        for cost in COSTS
        for name in ("accuracy", "time")
        for i, value in enumerate(getattr(found[cost], name).mean(axis=-1))
    ]
    rows += negative_controls(controls)
    print_table(rows, "found", "reference")
    strengths = np.abs(np.asarray(trials.conditions["coherence"]))
    bounds = {cost: solution.bounds for cost, solution in solutions.items()}
    print(*draw_figure(options.out, found, best, strengths, bounds, DT), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
