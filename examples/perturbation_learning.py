"""Learning by perturbing nodes or weights against gradient descent (Werfel, Xie & Seung 2005).

Linear networks learn a map from one random sample a step, each rule at the rate that is best for it. The
mean error of the ensemble has to follow the recursion of `references/perturbation_learning.py` at ten times
fixed beforehand, and node perturbation has to be slower than gradient descent by the number of outputs plus
two. At 2.5 times the best rate the error has to grow; a rule of the wrong sign has to miss the curve.
Prints the numbers, draws the figure, and exits with 1 when a gate fails or a negative control passes.
"""

import dataclasses
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

import popsim
from command_line import parse_options
from figures.perturbation_learning import Learning, draw_figure
from gates import Row, exit_code, negative_controls, print_table, standard_error_row
from popsim.training import TaskTrainer, sgd
from popsim.training.rules import NodePerturbation, Synapses, WeightPerturbation
from references import perturbation_learning as reference

SETTING = reference.Setting()
NO_GRADIENT = optax.set_to_zero()  # one for all, so that they share compiled programs


@dataclasses.dataclass(frozen=True)
class Condition:
    """A rule at a rate, relative to its best one, and how many members learn from how many samples."""

    rule: str
    n_members: int
    n_samples: int
    relative_rate: float = 1.0
    n_gates: int = 10

    @property
    def rate(self) -> float:
        """The learning rate."""
        return self.relative_rate * reference.optimal_rate(self.rule, SETTING)

    @property
    def expected(self) -> np.ndarray:
        """The mean error before the first sample and after each."""
        return reference.expected_error(self.rule, self.rate, SETTING, self.n_samples)

    @property
    def gate_times(self) -> np.ndarray:
        """After how many samples the error has a gate: evenly spaced, up to the last one."""
        return np.arange(1, self.n_gates + 1) * self.n_samples // self.n_gates


# No longer: late errors of single networks are too unequal for their mean to be normally distributed.
CONDITIONS = {
    "gradient descent": Condition("gradient descent", 2000, 30),
    "node perturbation": Condition("node perturbation", 2000, 200),
    "weight perturbation": Condition("weight perturbation", 60, 1500),
    "node, 2.5x rate": Condition("node perturbation", 2000, 50, relative_rate=2.5, n_gates=5),
}
WRONG_SIGN = Condition("node perturbation", 2000, 50, n_gates=5)


class Linear(popsim.AbstractModel):
    """y = W x + bias; the bias, through which nodes are perturbed, stays zero."""

    weights: Float[Array, "*members outputs inputs"]
    bias: Float[Array, "*members outputs"]

    def init(self, trial, *, key):
        return jnp.zeros_like(self.bias)

    def step(self, step_input, state, *, key):
        return self.weights @ step_input.inputs + self.bias


def squared_error(states, trial, model):
    return jnp.sum((states - trial.targets) ** 2) / 2


class LearnMap(popsim.AbstractTask):
    """Map normally distributed inputs as the matrix `target` does."""

    target: Float[Array, "outputs inputs"]
    loss: popsim.Loss

    def trial(self, *, batch, key):
        return self.trial_of(jax.random.normal(key, (1, SETTING.n_inputs)))

    def validation_trials(self):
        return jax.tree.map(lambda leaf: leaf[None], self.trial_of(jnp.ones((1, SETTING.n_inputs))))

    def trial_of(self, x: Float[Array, "1 inputs"]) -> popsim.Trial:
        """The trial with inputs x."""
        return popsim.Trial((), x, x @ self.target.T, popsim.Timeline(dt=1.0, n_steps=1))


def build_task(target: np.ndarray, weight: float) -> LearnMap:
    """A map to learn, and the squared error times `weight` as loss."""
    loss = weight * popsim.FunctionTerm("squared error", squared_error)
    return LearnMap(target=jnp.asarray(target, jnp.float32), loss=loss)


def build_ensemble(target: np.ndarray, away: np.ndarray) -> Linear:
    """Networks at a distance of one from the map, in the directions `away` [member, output, input]."""
    weights = target + away / np.linalg.norm(away, axis=(1, 2), keepdims=True)
    return Linear(jnp.asarray(weights, jnp.float32), jnp.zeros(away.shape[:2]))


SYNAPSES = Synapses(
    lambda model: model.weights,
    pre=lambda activity: activity.trial.inputs,
    where_bias=lambda model: model.bias,
)


def build_trainer(rule: str, rate: float) -> TaskTrainer:
    """Plain gradient descent; or a rule alone, the gradient being set to zero."""
    if rule == "gradient descent":
        return TaskTrainer(sgd(rate))
    kind = {"node perturbation": NodePerturbation, "weight perturbation": WeightPerturbation}[rule]
    update = kind(SYNAPSES, rate, std=SETTING.sigma)
    return TaskTrainer(NO_GRADIENT, model_update_funcs=(update,))


def train(condition: Condition, seed: int, weight: float = 1.0) -> np.ndarray:
    """The errors |W - W*|² [member, sample] of an ensemble, before the first sample and after each."""
    rng = np.random.default_rng(seed)
    target = rng.standard_normal((SETTING.n_outputs, SETTING.n_inputs)) / SETTING.n_inputs**0.5
    task = build_task(target, weight)
    ensemble = build_ensemble(target, rng.standard_normal((condition.n_members, *target.shape)))
    _, history = build_trainer(condition.rule, condition.rate)(
        task,
        ensemble,
        condition.n_samples,
        batch_size=1,
        where_train=lambda model: model.weights,
        ensembled=True,
        log_step=condition.n_samples,
        save_model_trainables=True,
        disable_tqdm=not sys.stderr.isatty(),
        key=popsim.key_stream(
            jax.random.key(seed), f"{condition.rule} at {condition.relative_rate * weight}"
        ),
    )
    weights = np.concatenate([ensemble.weights[None], history.model_trainables.weights])
    return np.sum((weights - np.asarray(task.target)) ** 2, axis=(2, 3), dtype=float).T


def decay(errors: np.ndarray, condition: Condition) -> float:
    """1 - f from the mean error: e_{t+1} - e_t = c - (1 - f) e_t, summed over all samples."""
    mean = errors.mean(axis=0)
    _, floor = reference.decay_and_floor(condition.rule, condition.rate, SETTING)
    return float((mean[0] - mean[-1] + floor * condition.n_samples) / mean[:-1].sum())


def decay_error(errors: np.ndarray, condition: Condition, n_groups: int = 20) -> float:
    """The standard error of `decay`, by leaving out one of `n_groups` groups of members at a time."""
    groups = np.arange(len(errors)) % n_groups
    decays = np.array([decay(errors[groups != group], condition) for group in range(n_groups)])
    return float(np.sqrt((n_groups - 1) * decays.var()))


def standard_errors(errors: np.ndarray, condition: Condition) -> np.ndarray:
    """Of the mean error at each time.

    Where the error grows, few members carry the mean. A sample without them has too low a mean, and too
    small a spread to tell by; so the spread is that of more networks, simulated by the reference.
    """
    if condition.relative_rate > 1:
        simulated = reference.simulated_errors(
            condition.rule, condition.rate, SETTING, condition.n_samples, 20_000, seed=0
        )
        return simulated.std(axis=0, ddof=1) / len(errors) ** 0.5
    return errors.std(axis=0, ddof=1) / len(errors) ** 0.5


def learn(condition: Condition, seed: int, weight: float = 1.0) -> Learning:
    """Train an ensemble, and say how it learned beside how it should have."""
    errors = train(condition, seed, weight)
    factor, _ = reference.decay_and_floor(condition.rule, condition.rate, SETTING)
    return Learning(
        errors=errors,
        standard_errors=standard_errors(errors, condition),
        expected=condition.expected,
        decay=decay(errors, condition),
        decay_error=decay_error(errors, condition),
        expected_decay=1 - factor,
    )


def curve_rows(name: str, learning: Learning, times: np.ndarray) -> list[Row]:
    """The mean error of the ensemble at the times of the gates, beside its expectation."""
    curves = (learning.errors.mean(axis=0), learning.expected, learning.standard_errors)
    return [
        standard_error_row(f"{name}, t={t}", "mean", *(float(curve[t]) for curve in curves)) for t in times
    ]


def comparison_rows(learned: dict[str, Learning]) -> list[Row]:
    """How much faster each rule is than the next one, and that too high a rate makes the error grow."""
    gradient, node, weight, growing = learned.values()
    rows = []
    for name, faster, slower in (("gradient / node", gradient, node), ("node / weight", node, weight)):
        error = np.hypot(faster.decay_error / faster.decay, slower.decay_error / slower.decay)
        expected = faster.expected_decay / slower.expected_decay
        ratio = faster.decay / slower.decay
        rows.append(standard_error_row(f"1 - f, {name}", "mean", ratio, expected, error * ratio))
    rows[0] = dataclasses.replace(rows[0], gate=(0.95, 1.05))
    last, error = float(growing.errors[:, -1].mean()), float(growing.standard_errors[-1])
    return [*rows, Row("2.5x rate, last / first", "mean", last, 1.0, error, (1 + 3.5 * error, np.inf))]


def main() -> int:
    """Train by each rule, print the table, draw the figure."""
    options = parse_options(__file__, __doc__ or "")
    rows, learned = [], {}
    for name, condition in CONDITIONS.items():
        began = time.perf_counter()
        learned[name] = learn(condition, options.seed)
        rows += curve_rows(name, learned[name], condition.gate_times)
        spread = np.quantile(learned[name].errors[:, -1], [0, 0.1, 0.5, 0.9, 1])
        print(
            f"{name}: {condition.n_members} members, {time.perf_counter() - began:.1f} s; "
            "quantiles 0, 0.1, 0.5, 0.9, 1 of the last error",
            ", ".join(f"{value:.3g}" for value in spread),
            flush=True,
        )
    rows += comparison_rows(learned)
    wrong = learn(WRONG_SIGN, options.seed, weight=-1.0)
    rows += negative_controls(curve_rows("node, wrong sign", wrong, WRONG_SIGN.gate_times))
    print_table(rows, "|W - W*|²", "expected")
    print(*draw_figure(options.out, learned), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
