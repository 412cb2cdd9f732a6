"""Chaotic networks learn to put out a sum of sines by FORCE and full-FORCE (Sussillo & Abbott 2009).

Least squares change the weights while a trial runs. Then the weights are fixed, in the same trial, and the
networks have to go on alone for eight periods: by FORCE with their output coming back, and by full-FORCE
(DePasquale et al. 2018) without. Output and weights have to be those of `references/force_learning.py`, which
shares no code with popsim. Networks must miss that did not learn, learned for one period, learned too slowly,
or whose output does not come back.

The nearest wrong model is FORCE with the target in place of the output coming back. It goes on alone for
these periods, too, and only the comparison step by step rejects it. Whether networks find their cycle from
another random start is shown without a gate: its mirror image is a cycle as well. Prints the numbers, draws
the figure, and exits with 1 when a gate fails or a control passes.
"""

import argparse
import dataclasses
import sys
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

import popsim
from command_line import parse_options
from figures.force_learning import draw_figure
from gates import Row, exit_code, negative_controls, print_table, upper_bound_row
from popsim.training import AbstractGradient, BatchRun, rules, select_trainables, training_trials
from popsim.windows import InEpoch
from references import force_learning as reference

DT, TAU, PERIOD = 0.001, 0.01, 600  # s, s, steps
N_FROZEN, FEWER, N_STARTS, SLOW = 8, (0, 1, 4, 12), 4, 1e4  # periods, periods of learning, starts, alpha
N_COMPARED = {"FORCE": None, "full-FORCE": 1500}  # steps; None for all
LARGEST_ERROR, LARGEST_DIFFERENCE = 0.1, 1e-9  # in standard deviations of the target
TARGET_STD = reference.four_sines(PERIOD, PERIOD).std()
WINDOW = InEpoch("learned")
RULES = {"FORCE": rules.FORCE(window=WINDOW), "full-FORCE": rules.FullFORCE(window=WINDOW)}


@dataclasses.dataclass(frozen=True)
class Size:
    """How many networks there are, of how many units, and for how many periods they learn."""

    n_networks: int
    n_units: int
    n_learned: int


FULL, QUICK = Size(3, 500, 30), Size(1, 300, 30)


class Sines(popsim.AbstractTask):
    """The target, for some periods in which networks learn, and eight more, which alone count."""

    loss: popsim.Loss = 1.0 * popsim.losses.OutputError()
    n_learned: int = eqx.field(static=True, kw_only=True)

    def trial(self, *, batch: int | Array, key: Key[Array, ""]) -> popsim.Trial:
        return self.validation_trials(stacked=False)

    def validation_trials(self, *, stacked: bool = True) -> popsim.Trial:
        learned, n_steps = self.n_learned * PERIOD, (self.n_learned + N_FROZEN) * PERIOD
        target = jnp.asarray(reference.four_sines(n_steps, PERIOD))[:, None]
        trial = popsim.Trial(
            init=(),
            inputs={"nothing": jnp.zeros((n_steps, 1))},
            targets=popsim.OutputTarget(target, jnp.ones(n_steps), is_choice=False),
            timeline=popsim.Timeline(DT, n_steps, epochs={"learned": (0, learned)}),
        )
        return jax.tree.map(lambda leaf: leaf[None], trial) if stacked else trial


@dataclasses.dataclass(frozen=True)
class Learned:
    """A network that has learned.

    - `untrained`, `trained`: the models.
    - `outputs` [time]: z after each step.
    - `start` [unit]: the state before the first step.
    - `other`: what full-FORCE drew.
    """

    untrained: Any
    trained: Any
    outputs: np.ndarray
    start: np.ndarray
    other: Any


def build_ensemble(n_networks: int, n_units: int, key: Key[Array, ""]) -> popsim.NetworkModel:
    """Untrained networks, whose output comes back."""

    def build(key):
        return popsim.NetworkModel(popsim.networks.FeedbackRNN(1, n_units, 1, tau=TAU, dt=DT, key=key), dt=DT)

    return popsim.make_ensemble(build, n_networks, key=key)


def without_feedback(model: popsim.NetworkModel) -> popsim.NetworkModel:
    """The same, of which no output comes back."""
    return eqx.tree_at(lambda model: model.network.feedback_weights, model, replace_fn=jnp.zeros_like)


def trained_by(rule: AbstractGradient) -> Callable[[Any], Any]:
    """The weights that a rule learns."""
    if isinstance(rule, rules.FullFORCE):
        return lambda model: (model.network.recurrent_weights, model.network.readout.weight)
    return lambda model: model.network.readout.weight


@eqx.filter_jit
def run_trial(
    model: popsim.NetworkModel, rule: AbstractGradient, task: Sines, carry: Any, key: Key[Array, ""]
) -> Any:
    """One trial, as `TaskTrainer(gradient=rule)` runs it: its states are kept here."""
    params, _ = select_trainables(model, trained_by(rule))
    trials = training_trials(task, 1, batch=0, member_id=None, key=key)
    run = BatchRun(model, trials, key[None], task.loss, jnp.asarray(0), keeps_states=True)
    change, batch, _ = rule(run, params, carry, key=key)
    trained = eqx.combine(jax.tree.map(jnp.add, params, change), model)
    return trained, batch.states.network.output[0, :, 0], batch.initial_states.network.hidden[0]


def learn(ensemble: Any, rule: AbstractGradient, n_learned: int, key: Key[Array, ""]) -> list[Learned]:
    """Each network of the ensemble after one trial."""
    found = []
    for member in range(popsim.n_members(ensemble)):
        model, of_member = popsim.member(ensemble, member), popsim.key_stream(key, f"network {member}")
        params, _ = select_trainables(model, trained_by(rule))
        carry = rule.init(params, model, key=of_member)
        trained, outputs, start = run_trial(model, rule, Sines(n_learned=n_learned), carry, of_member)
        found.append(Learned(model, trained, np.asarray(outputs), np.asarray(start), carry[1]))
    return found


def error(outputs: np.ndarray) -> float:
    """The root mean squared error of the last eight periods, in standard deviations of the target."""
    differences = outputs - reference.four_sines(len(outputs), PERIOD)
    return float(np.sqrt(np.mean(differences[-N_FROZEN * PERIOD :] ** 2)) / TARGET_STD)


def error_rows(condition: str, networks: list[Learned]) -> list[Row]:
    """The errors of networks, with gates."""
    return [
        upper_bound_row(condition, str(member), error(network.outputs), LARGEST_ERROR)
        for member, network in enumerate(networks)
    ]


def without_gates(rows: list[Row]) -> list[Row]:
    """Rows that are only reported."""
    return [dataclasses.replace(row, gate=None) for row in rows]


def errors_of_other_starts(network: Learned, key: Key[Array, ""]) -> np.ndarray:
    """With fixed weights: errors of the last eight periods, at the best phase [start, sign of the output]."""
    task = Sines(n_learned=4)
    trials = popsim.repeat_trials(task.validation_trials(), N_STARTS)
    outputs = popsim.evaluate(network.trained, task, trials=trials, key=key).states.network.output[..., 0]
    last, shifts = np.asarray(outputs)[:, -N_FROZEN * PERIOD :], range(0, PERIOD, 2)
    return np.array([[min(error(np.roll(sign * z, n)) for n in shifts) for sign in (1, -1)] for z in last])


def reference_of(name: str, network: Learned) -> tuple[reference.Network, reference.Driven | None]:
    """The arrays of a network before it learned, and of the other network."""
    model: Any = network.untrained.network
    J, v = np.asarray(model.recurrent_weights), np.asarray(model.feedback_weights)[:, 0]
    own = reference.Network(J, v, network.start, DT / TAU)
    if name == "FORCE":
        return own, None
    weights, drive = network.other
    return own, reference.Driven(np.asarray(weights), np.asarray(drive)[:, 0])


def compare(name: str, network: Learned, n_learned: int) -> tuple[list[Row], reference.Course]:
    """Output and readout beside those of the reference, and outputs beside those of wrong models."""
    own, driven = reference_of(name, network)
    n_steps = N_COMPARED[name]
    outputs = network.outputs[:n_steps]
    target = reference.four_sines(len(outputs), PERIOD)

    def run(own: reference.Network = own, **options: Any) -> reference.Course:
        return reference.learn(own, target, n_learned * PERIOD, driven, **options)

    def row(label: str, course: reference.Course) -> Row:
        difference = np.abs(course.outputs - outputs).max() / TARGET_STD
        return upper_bound_row(f"{name}, beside {label}", "0", difference, LARGEST_DIFFERENCE)

    course, wrong = run(), {"alpha of 1.01": run(dataclasses.replace(own, alpha=1.01))}
    rows = [row("NumPy", course)]
    if name == "FORCE":
        readout = np.asarray(network.trained.network.readout.weight)[0]
        difference = float(np.abs(course.readout - readout).max() / np.abs(readout).max())
        rows.append(upper_bound_row(f"{name}, readout beside NumPy", "0", difference, LARGEST_DIFFERENCE))
        wrong["target fed back"] = run(fed_target=True)
        fed = error(wrong["target fed back"].outputs)
        rows.append(Row(f"{name}, target fed back, error", "0", fed, LARGEST_ERROR))
    return rows + negative_controls([row(label, each) for label, each in wrong.items()]), course


def main() -> int:
    """Learn, compare with the reference, print the table, draw the figure."""
    short = f"{QUICK.n_networks} network of {QUICK.n_units} units for each rule"
    options = parse_options(__file__, __doc__ or "", short_form=short)
    with jax.enable_x64(True):
        return run(options, QUICK if options.quick else FULL)


def run(options: argparse.Namespace, size: Size) -> int:
    """`main` in double precision."""
    key, began = jax.random.key(options.seed), time.perf_counter()
    ensemble = build_ensemble(size.n_networks, size.n_units, popsim.key_stream(key, "networks"))
    alone, trials, rows = without_feedback(ensemble), popsim.key_stream(key, "trials"), []
    shown, sizes, untrained = {}, np.zeros(0), {"FORCE": ensemble, "full-FORCE": alone}
    for name, rule in RULES.items():
        networks = learn(untrained[name], rule, size.n_learned, trials)
        rows += error_rows(name, networks)
        for n_learned in FEWER[:2] if options.quick else FEWER:
            fewer = learn(untrained[name], rule, n_learned, trials)
            errors = error_rows(f"{name}, {n_learned} periods", fewer)
            rows += negative_controls(errors) if n_learned < 2 else without_gates(errors)
            if n_learned == 0:
                shown["before"] = fewer[0].outputs
        compared, course = compare(name, networks[0], size.n_learned)
        rows, shown[name] = rows + compared, networks[0].outputs
        sizes = course.sizes if name == "FORCE" else sizes
        for member, network in enumerate(networks):
            for errors in errors_of_other_starts(network, popsim.key_stream(key, f"starts {member}")):
                nearer = ("target", "mirror image")[int(errors.argmin())]
                rows.append(Row(f"{name}, other start, {nearer}", str(member), errors.min(), LARGEST_ERROR))
    slow = rules.FORCE(alpha=SLOW, window=WINDOW)
    for name, (untrained, rule) in {"no feedback": (alone, RULES["FORCE"]), "slow": (ensemble, slow)}.items():
        networks = learn(untrained, rule, size.n_learned, trials)
        rows += negative_controls(error_rows(f"FORCE, {name}", networks))
        shown[name] = networks[0].outputs
    print(f"run in {time.perf_counter() - began:.0f} s")
    print_table(rows, "found", "bound")
    print(*draw_figure(options.out, rows, shown, sizes, size.n_learned), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
