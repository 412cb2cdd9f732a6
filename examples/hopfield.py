"""Hebbian storage recalls patterns up to a load (Hopfield 1982; Amit, Gutfreund & Sompolinsky 1985).

One batch of p patterns makes a Hopfield network: p / N times the batch mean of Hebb's rule, without the
diagonal, is the sum of outer products. The share of units that one step gets wrong has to be that of
`references/hopfield.py`, which is exact for finite networks, and of networks that keep their diagonal it
must not. Unit by unit, patterns are kept far below the critical load of 0.138 and lost far above it. Prints
the numbers, draws the figure, and exits with 1 when a gate fails or a negative control passes.
"""

import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key

import popsim
from command_line import parse_options
from figures.hopfield import draw_figure
from gates import Row, exit_code, negative_controls, print_table, standard_error_row, upper_bound_row
from popsim.training import TaskTrainer
from popsim.training.rules import Hebb, Synapses
from references import hopfield as reference

N_UNITS, N_NETWORKS = 500, 20
N_PATTERNS = (50, 69, 92, 150, 185, 250)
N_TESTED = 50  # patterns of each network, so that one compiled program tests all loads
N_LARGE, N_LARGE_NETWORKS = 1000, 5
LARGE_LOADS = {0.1: (0.95, 1.0), 0.138: None, 0.2: (-1.0, 0.8)}  # and the gate of the mean overlap
N_SWEEPS, N_SWEPT = 60, 10  # of all units, from each of so many patterns
NO_GRADIENT = optax.set_to_zero()


class Hopfield(popsim.AbstractModel):
    """Units of +1 or -1, all updated at once: s = sign(W s)."""

    weights: Float[Array, "*members post pre"]

    def init(self, trial, *, key):
        return trial.init

    def step(self, step_input, state, *, key):
        return sign_or_state(self.weights @ state, state, state.size)


class Asynchronous(popsim.AbstractModel):
    """The same units, updated one after the other; a step is a sweep over all, in random order."""

    weights: Float[Array, "*members post pre"]

    def init(self, trial, *, key):
        return trial.init

    def step(self, step_input, state, *, key):
        order = jax.random.permutation(key, state.size)

        def update(k, state):
            unit = order[k]
            return state.at[unit].set(sign_or_state(self.weights[unit] @ state, state[unit], state.size))

        return jax.lax.fori_loop(0, state.size, update, state)


def sign_or_state(inputs: Array, state: Array, n_units: int) -> Array:
    """The sign of inputs, which are whole multiples of 1 / N but for rounding; the state where they are 0."""
    return jnp.where(jnp.abs(inputs) < 0.5 / n_units, state, jnp.sign(inputs))


def wrong_units(states, trial, model):
    return jnp.mean(states[-1] * trial.targets[-1] < 0, dtype=jnp.float32)


class Recall(popsim.AbstractTask):
    """Stay at a random pattern."""

    n_units: int = eqx.field(static=True)
    n_steps: int = eqx.field(static=True, default=1)
    loss: popsim.Loss = eqx.field(default_factory=lambda: 1.0 * popsim.FunctionTerm("wrong", wrong_units))

    def trial(self, *, batch, key):
        return self.start_at(jax.random.rademacher(key, (self.n_units,), jnp.float32))

    def validation_trials(self):
        return jax.vmap(self.start_at)(jnp.ones((1, self.n_units)))

    def start_at(self, pattern: Float[Array, " unit"]) -> popsim.Trial:
        """The trial that starts at a pattern."""
        targets = jnp.broadcast_to(pattern, (self.n_steps, self.n_units))
        return popsim.Trial(pattern, (), targets, popsim.Timeline(dt=1.0, n_steps=self.n_steps))


def clamped_activity(activity):
    """Before and behind the synapses: the units as the pattern sets them."""
    return activity.initial_state[None]


def store(
    n_units: int, n_patterns: int, n_networks: int, key: Key[Array, ""], *, zero_diagonal: bool = True
) -> tuple[Hopfield, Float[Array, "network pattern unit"]]:
    """Networks that store patterns of their own in one batch, and these patterns."""
    synapses = Synapses(
        lambda model: model.weights, pre=clamped_activity, post=clamped_activity, zero_diagonal=zero_diagonal
    )
    rule = Hebb(synapses, rate=n_patterns / n_units)
    empty = Hopfield(jnp.zeros((n_networks, n_units, n_units)))
    stored, history = TaskTrainer(NO_GRADIENT, model_update_funcs=(rule,))(
        Recall(n_units=n_units),
        empty,
        n_batches=1,
        batch_size=n_patterns,
        where_train=lambda model: model.weights,
        ensembled=True,
        save_trial_specs=np.array([0]),
        disable_tqdm=True,
        key=key,
    )
    return stored, history.trial_specs[0].init


def recall(networks, patterns: Array, n_steps: int, key: Key[Array, ""]) -> np.ndarray:
    """The units [network, pattern, unit] after some steps from each pattern of each network."""
    task, last = Recall(n_units=networks.weights.shape[-1], n_steps=n_steps), []
    for i, stored in enumerate(patterns):
        model, trials = popsim.member(networks, i), jax.vmap(task.start_at)(stored)
        last.append(popsim.evaluate(model, task, trials=trials, member_id=i, key=key).states[:, -1])
    return np.stack(last)


def weight_error(networks: Hopfield, patterns: Array) -> float:
    """The largest error of a weight, relative to the largest weight."""
    expected = np.stack([reference.hebbian_weights(stored) for stored in np.asarray(patterns, float)])
    return float(np.abs(networks.weights - expected).max() / np.abs(expected).max())


def one_step_rows(key: Key[Array, ""], *, n_patterns: int, zero_diagonal: bool = True) -> list[Row]:
    """The share of wrong units after one step, and how exact the weights are."""
    networks, patterns = store(N_UNITS, n_patterns, N_NETWORKS, key, zero_diagonal=zero_diagonal)
    patterns_tested = patterns[:, :N_TESTED]
    wrong = np.mean(recall(networks, patterns_tested, 1, key) != patterns_tested, axis=(1, 2))
    name = f"p = {n_patterns}" if zero_diagonal else f"p = {n_patterns}, with diagonal"
    print(
        f"{name}, wrong units of each network (%):",
        *(f"{100 * fraction:.2f}" for fraction in wrong),
        flush=True,
    )
    error = float(wrong.std(ddof=1) / len(wrong) ** 0.5)
    exact = reference.exact_wrong(N_UNITS, n_patterns)
    return [
        standard_error_row(f"{name}, wrong", "mean", float(wrong.mean()), exact, error),
        upper_bound_row(f"{name}, weights", "worst", weight_error(networks, patterns), 1e-6),
    ]


def large_overlaps(load: float, key: Key[Array, ""]) -> np.ndarray:
    """Overlaps [network, pattern] of where single updates lead with the pattern that they started from."""
    networks, patterns = store(N_LARGE, round(load * N_LARGE), N_LARGE_NETWORKS, key)
    patterns = patterns[:, :N_SWEPT]
    last = recall(Asynchronous(networks.weights), patterns, N_SWEEPS, key)
    return np.mean(last * np.asarray(patterns), axis=-1)


def main() -> int:
    """Store and recall at all loads, print the table, draw the figure."""
    options = parse_options(__file__, __doc__ or "")
    key, began = jax.random.key(options.seed), time.perf_counter()
    rows = []
    for n_patterns in N_PATTERNS:
        rows += one_step_rows(popsim.key_stream(key, f"{n_patterns} patterns"), n_patterns=n_patterns)
    wrong_rows = [row for row in rows if row.condition.endswith("wrong")]
    with_diagonal = one_step_rows(
        popsim.key_stream(key, "diagonal"), n_patterns=N_PATTERNS[-1], zero_diagonal=False
    )
    rows += negative_controls(with_diagonal)
    overlaps = {load: large_overlaps(load, popsim.key_stream(key, f"load {load}")) for load in LARGE_LOADS}
    for load, gate in LARGE_LOADS.items():
        for i, overlap in enumerate(overlaps[load].mean(axis=1)):
            rows.append(Row(f"load {load:g}, overlap", str(i), overlap, 1.0))
        rows.append(Row(f"load {load:g}, overlap", "mean", overlaps[load].mean(), 1.0, gate=gate))
    print(f"stored and recalled in {time.perf_counter() - began:.0f} s")
    print_table(rows, "found", "reference")
    loads = np.array(N_PATTERNS) / N_UNITS
    print(*draw_figure(options.out, loads, wrong_rows, N_UNITS, overlaps), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
