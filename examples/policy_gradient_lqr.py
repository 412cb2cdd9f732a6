"""Policy gradients and evolution strategies beside the linear-quadratic regulator (Williams 1992).

A point mass is brought to rest at the origin in 20 steps, at a cost of position, speed and force. A linear
policy learns its two gains from the cost alone, by a policy gradient or by an evolution strategy. The cost of
its mean action must be within 10 and 5 % of the lowest cost that any control has. For one step the mean and
the variance of the estimate of the gradient (REINFORCE; Mach Learn 8:229-256) are known in closed form, with
and without a baseline; 100,000 estimates must have them. Policies that do not explore, which stay untrained,
the variance without a baseline for the estimate with one, and both moments for gains that are larger by a
fifth must miss. Prints the numbers, draws the figure, and exits with 1 when a gate fails or a control passes.
"""

import sys
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

import popsim
from command_line import parse_options
from figures.policy_gradient_lqr import Estimates, draw_figure
from gates import (
    Row,
    exit_code,
    negative_controls,
    optimum_gate,
    print_table,
    standard_error_row,
    upper_bound_row,
)
from popsim.environment import AbstractEnvironment, Box, Outcome
from popsim.losses import PolicyGradient
from popsim.policies import AbstractPolicy, Deterministic, Gaussian, greedy
from popsim.randomness import key_stream
from popsim.training import EvolutionStrategies, TaskTrainer, adam, cosine_decay, sgd
from references.regulator import Regulator, estimator_moments, gain_costs, optimal_costs

REGULATOR, STD = Regulator(), 0.5  # N, of the force that a policy draws
N_MEMBERS, BATCH_SIZE, N_TESTED = 3, 256, 1000
N_BATCHES = {"policy gradient": 3000, "evolution": 400, "without noise": 400}
KEPT_EVERY = 10  # batches
HIGHEST = {"policy gradient": 1.10, "evolution": 1.05, "without noise": 1.10}  # cost / LQR's
N_ESTIMATES, START, GAINS = 100_000, (1.0, -0.5), (-0.8, -0.6)  # of one step
LARGEST_SINE = 1e-5  # of the angle between an estimate and the state
BASELINES = {"no baseline": 0.0, "baseline": 1.0}


class PointMass(AbstractEnvironment):
    """A mass on a line, which shows its position and velocity, and is paid minus its cost.

    - `start`: position (m) and velocity (m/s) at first.
    """

    start: Float[Array, "*axes 2"]

    @property
    def actions(self) -> Box:
        return Box(1)

    def init(self, *, key: Key[Array, ""]) -> tuple[Array, dict[str, Array]]:
        return self.start, {"state": self.start}

    def step(self, state: Array, action: Array, *, key: Key[Array, ""]) -> tuple[Array, Outcome]:
        dt, (force,) = REGULATOR.dt, action
        position, velocity = state[0] + dt * state[1], state[1] + dt * force
        cost = REGULATOR.position_weight * position**2 + REGULATOR.velocity_weight * velocity**2
        cost = cost + REGULATOR.effort_weight * force**2
        after = jnp.stack([position, velocity])
        return after, Outcome({"state": after}, -cost, jnp.array(False))


class LinearPolicy(popsim.networks.AbstractNetwork):
    """A network without memory, which puts out gains times its inputs, and the value of a critic if asked."""

    gains: Float[Array, "*axes 2"]
    value: Float[Array, "*axes"] = eqx.field(default_factory=lambda: jnp.zeros(()))
    n_inputs: int = eqx.field(static=True, default=2)
    n_outputs: int = eqx.field(static=True, default=1)
    constants = ("value",)

    def init(self, *, key: Key[Array, ""]) -> Array:
        return jnp.zeros(2)

    def step(self, inputs: Array, hidden: Array, *, key: Key[Array, ""]) -> Array:
        return inputs

    def read_out(self, hidden: Array) -> Array:
        return jnp.stack([jnp.sum(self.gains * hidden), self.value])[: self.n_outputs]


class Regulation(popsim.AbstractTask):
    """Starts with normally distributed positions and velocities; the cost is minus the sum of rewards."""

    n_steps: int = eqx.field(static=True, default=REGULATOR.n_steps)
    loss: popsim.Loss = eqx.field(default_factory=lambda: 1.0 * PolicyGradient(discount=1.0))

    def trial(self, *, batch: Any, key: Key[Array, ""]) -> popsim.Trial:
        return self.trial_of(jax.random.normal(key, (2,)))

    def validation_trials(self) -> popsim.Trial:
        return jax.vmap(self.trial_of)(jax.random.normal(jax.random.key(5), (N_TESTED, 2)))

    def trial_of(self, start: Float[Array, "2"]) -> popsim.Trial:
        """The trial from this position and velocity."""
        epochs = {"regulation": jnp.array([0, self.n_steps])}
        timeline = popsim.Timeline(REGULATOR.dt, self.n_steps, epochs=epochs)
        return popsim.Trial((), (), (), timeline, environment=PointMass(start=start))


def build_ensemble(policy: AbstractPolicy, key: Key[Array, ""]) -> popsim.NetworkModel:
    """Policies with small random gains."""

    def build(key):
        network = LinearPolicy(gains=0.1 * jax.random.normal(key, (2,)))
        return popsim.NetworkModel(network, policy=policy, dt=REGULATOR.dt)

    return popsim.make_ensemble(build, N_MEMBERS, key=key)


def train(
    name: str, untrained: popsim.NetworkModel, key: Key[Array, ""]
) -> tuple[popsim.NetworkModel, Float[np.ndarray, "batch member 2"]]:
    """The trained ensemble, and its gains after every tenth batch."""
    trainer = TaskTrainer(adam(cosine_decay(0.03, N_BATCHES[name])))
    if name == "evolution":
        trainer = TaskTrainer(sgd(1.0), gradient=EvolutionStrategies(16, std=0.3))
    trained, history = trainer(
        Regulation(),
        untrained,
        N_BATCHES[name],
        BATCH_SIZE,
        where_train=lambda model: model.network.gains,
        ensembled=True,
        log_step=N_BATCHES[name],
        save_model_trainables=np.arange(KEPT_EVERY - 1, N_BATCHES[name], KEPT_EVERY),
        disable_tqdm=not sys.stderr.isatty(),
        key=key,
    )
    return trained, np.asarray(history.model_trainables.network.gains, float)


def costs_of(ensemble: popsim.NetworkModel) -> Float[np.ndarray, "member trial"]:
    """The costs of the mean actions in the test."""
    evaluation = popsim.evaluate_ensemble(greedy(ensemble), Regulation(), key=jax.random.key(0))
    return np.asarray(evaluation.losses.total, float)


def test_starts() -> Float[np.ndarray, "trial 2"]:
    """The starts of the test."""
    environments: Any = Regulation().validation_trials().environment
    return np.asarray(environments.start, float)


def estimates_of(baseline: float, key: Key[Array, ""]) -> Float[np.ndarray, "estimate 2"]:
    """The gradients of the loss by the gains, in trials of one step from the same start."""
    task = Regulation(n_steps=1)
    trial = task.trial_of(jnp.array(START))
    # The value of a critic is of rewards: minus the baseline, which is of costs.
    network = LinearPolicy(gains=jnp.array(GAINS), value=jnp.array(-baseline), n_outputs=2)
    model = popsim.NetworkModel(network, policy=Gaussian(1, STD, critic=True), dt=REGULATOR.dt)

    def loss(gains, key):
        moved = eqx.tree_at(lambda model: model.network.gains, model, gains)
        return task.loss(popsim.simulate(moved, trial, key=key), trial, moved).total

    keys = jax.random.split(key, N_ESTIMATES)
    return np.asarray(jax.jit(jax.vmap(jax.grad(loss), (None, 0)))(network.gains, keys), float)


def moment_rows(name: str, estimates: np.ndarray, baseline: float, gains: Any = GAINS) -> list[Row]:
    """The mean and the variance of estimates [estimate, 2] beside the closed form.

    An estimate is a random number times the state, so that it has one mean and one variance.
    """
    state = np.array(START) / np.linalg.norm(START)
    mean, covariance = estimator_moments(REGULATOR, np.array(gains), np.array(START), STD, baseline)
    along = estimates @ state
    rows = []
    for kind, values, expected in (
        ("mean", along, mean @ state),
        ("variance", (along - along.mean()) ** 2, state @ covariance @ state),
    ):
        error = float(values.std(ddof=1) / len(values) ** 0.5)
        rows.append(standard_error_row(f"{name}, {kind}", "", float(values.mean()), float(expected), error))
    return rows


def direction_row(name: str, estimates: np.ndarray) -> Row:
    """How far estimates are from the line through the state, relative to their size, which is rounding."""
    across = np.array([-START[1], START[0]]) / np.linalg.norm(START)
    away = np.abs(estimates @ across) / np.linalg.norm(estimates, axis=1)
    return upper_bound_row(f"{name}, off the state", "worst", float(away.max()), LARGEST_SINE)


def cost_rows(name: str, costs: np.ndarray, optimum: float, highest: float) -> list[Row]:
    """The cost of each member [member, trial] beside the optimum."""
    gate = optimum_gate(highest)
    return [Row(name, str(i), cost, optimum, gate=gate) for i, cost in enumerate(costs.mean(axis=1))]


def main() -> int:
    """Train policies, draw estimates, print the table, draw the figure."""
    options = parse_options(__file__, __doc__ or "")
    key = jax.random.key(options.seed)
    starts = test_starts()
    optimum = float(optimal_costs(REGULATOR, starts).mean())
    rows, courses = [], {}
    for name in N_BATCHES:
        began = time.perf_counter()
        policy = Gaussian(1, STD) if name == "policy gradient" else Deterministic(1)
        untrained = build_ensemble(policy, key_stream(key, "gains"))
        trained, gains = train(name, untrained, key_stream(key, f"{name} training"))
        found = cost_rows(name, costs_of(trained), optimum, HIGHEST[name])
        rows += negative_controls(found) if name == "without noise" else found
        courses[name] = np.array(
            [[gain_costs(REGULATOR, k, starts).mean() / optimum for k in at_batch] for at_batch in gains]
        )
        print(f"{name}: {N_BATCHES[name]} batches, {time.perf_counter() - began:.0f} s", flush=True)
    estimates = {
        name: estimates_of(baseline, key_stream(key, "estimates")) for name, baseline in BASELINES.items()
    }
    for name, baseline in BASELINES.items():
        rows += [*moment_rows(name, estimates[name], baseline), direction_row(name, estimates[name])]
    found = estimates["baseline"]
    _, without = moment_rows("baseline / without", found, BASELINES["no baseline"])
    larger = moment_rows("gains x 1.2", found, BASELINES["baseline"], 1.2 * np.array(GAINS))
    rows += negative_controls([without, *larger, direction_row("gains exchanged", found[:, ::-1])])
    print_table(rows, "found", "expected")
    arms = Estimates(estimates, {name: expected_moments(b) for name, b in BASELINES.items()})
    print(*draw_figure(options.out, courses, HIGHEST, arms), sep="\n")
    return exit_code(rows)


def expected_moments(baseline: float) -> tuple[float, float]:
    """The mean and the variance of the estimate for the gain of the position."""
    mean, covariance = estimator_moments(REGULATOR, np.array(GAINS), np.array(START), STD, baseline)
    return float(mean[0]), float(covariance[0, 0])


if __name__ == "__main__":
    sys.exit(main())
