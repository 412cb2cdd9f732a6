"""Gradients without back-propagation through time: e-prop and RFLO (Bellec et al. 2020; Murray 2019).

In double precision, real-time recurrent learning has to be back-propagation through time for six networks,
and e-prop where units receive nothing from one another; traces with the total signal have to add up to the
exact gradient, and e-prop and RFLO to be those of `references/eligibility.py`, which shares no code with
popsim. Then four rules learn a memory from the same networks and trials, memory is measured at lengths of
trials up to 10,000 steps, and a mass learns to reach by traces that run through the body.

The nearest wrong models are e-prop in place of back-propagation for networks with recurrence, traces that are
one step late, RFLO with the leak at the wrong place, and for reaching the signal of the step alone. Prints
the numbers, draws the figure, and exits with 1 when a gate fails or a control passes.
"""

import functools
import itertools
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

import popsim
from command_line import parse_options
from figures.eligibility import draw_figure
from gates import Row, exit_code, negative_controls, print_table, upper_bound_row
from popsim import losses, networks, tasks
from popsim.training import (
    AbstractGradient,
    BackpropThroughTime,
    BatchRun,
    TaskTrainer,
    adam,
    select_trainables,
    training_trials,
)
from popsim.training.rules import RFLO, RTRL, EProp
from references import eligibility as reference

DT, TAU, N_SMALL, N_UNITS, N_MEMBERS = 0.02, 0.1, 6, 32, 3
EXACT, DIFFERENT = 1e-12, 0.01  # relative errors: of the same gradient, and at least of another one
BPTT, EPROP, THROUGH_BODY = BackpropThroughTime(), EProp(), EProp(body=lambda state: state.plant)
AT_ONCE = EProp(body=lambda state: ())  # traces run through no part of the body: the signal of the step alone
LENGTHS, MEMORY_UNITS, MEMORY_TRIALS = (100, 1000, 10_000), 128, 16
LEARNERS = {"back-propagation": BPTT, "e-prop": EPROP, "RFLO": RFLO(), "readout alone": BPTT}
REACHERS = {"back-propagation": BPTT, "through the body": THROUGH_BODY, "signal of the step": AT_ONCE}
GAIN, RATE, REACH_RATE = 1.5, 5e-3, 3e-3
LEARNED, WINDOW = 0.3, 20  # loss, and over how many batches it is averaged


class Form(NamedTuple):
    """How much a form of the script does; `n_batches` of the memory, `n_reaches` batches of reaches."""

    n_networks: int
    n_lengths: int
    n_rules: int
    n_batches: int
    n_reaches: int


FULL, QUICK = Form(6, 3, 4, 800, 120), Form(1, 2, 0, 0, 120)


class LeakOutside(networks.AbstractNetwork):
    """The network of Murray: z' = (1 - a) z + a tanh(W z + V u)."""

    recurrent_weights: Float[Array, "units units"]
    input_weights: Float[Array, "units inputs"]
    readout: eqx.nn.Linear
    n_inputs: int = eqx.field(static=True, default=2)
    n_outputs: int = eqx.field(static=True, default=2)

    def init(self, *, key):
        return jnp.full(N_SMALL, 0.1)

    def step(self, inputs, hidden, *, key):
        received = self.recurrent_weights @ hidden + self.input_weights @ inputs
        return (1 - DT / TAU) * hidden + DT / TAU * jnp.tanh(received)

    def read_out(self, hidden):
        return self.readout(hidden)

    def projections(self):
        where = {"recurrent": lambda net: net.recurrent_weights, "readout": lambda net: net.readout.weight}
        return {name: networks.Projection(where=select) for name, select in where.items()}


def leaky(
    n_units: int, n_bits: int, key: Key[Array, ""], tau: Any = TAU, **options: Any
) -> networks.LeakyRNN:
    """A leaky network for the flip-flop."""
    return networks.LeakyRNN(n_bits, n_units, n_bits, tau=tau, dt=DT, key=key, **options)


SIZES, MANY_TAU = (2, N_SMALL, 2), np.linspace(0.04, 0.2, N_SMALL)
BUILDERS: dict[str, Callable[[Key[Array, ""]], networks.AbstractNetwork]] = {
    "LeakyRNN": lambda key: leaky(N_SMALL, 2, key, noise_std=0.05),
    "LSTMNetwork": lambda key: networks.LSTMNetwork(*SIZES, key=key),
    "LeakyRNN, tau per unit": lambda key: leaky(N_SMALL, 2, key, tau=MANY_TAU),
    "VanillaRNN": lambda key: networks.VanillaRNN(*SIZES, noise_std=0.05, key=key),
    "GRUNetwork": lambda key: networks.GRUNetwork(*SIZES, key=key),
    "TrainableStart": lambda key: networks.TrainableStart(leaky(N_SMALL, 2, key), jnp.full(N_SMALL, 0.1)),
}


def model_of(network: networks.AbstractNetwork) -> popsim.NetworkModel:
    """A model without a body."""
    return popsim.NetworkModel(network, dt=DT)


def flip_flop(n_bits: int, n_steps: int, pulse_probability: float = 0.06) -> tasks.FlipFlop:
    """The task of remembering the last pulse."""
    return tasks.FlipFlop(n_bits=n_bits, duration=n_steps * DT, dt=DT, pulse_probability=pulse_probability)


def prepare(
    rule: AbstractGradient, model: popsim.NetworkModel, task: popsim.AbstractTask, n_trials: int
) -> tuple[Any, BatchRun, PyTree]:
    """The gradient of the first batch as a compiled function of `arrays`, the batch, and `arrays`."""
    key = jax.random.key(0)
    trials = training_trials(task, n_trials, batch=0, member_id=None, key=key)
    run = BatchRun(model, trials, jax.random.split(key, n_trials), task.loss.at_batch(0), jnp.asarray(0))
    params, _ = select_trainables(model, lambda model: model.network)
    arrays, rest = eqx.partition((run, params, rule.init(params, model, key=key)), eqx.is_array)

    def gradient(arrays: PyTree) -> PyTree:
        run, params, carry = eqx.combine(arrays, rest)
        return rule(run, params, carry, key=key)[0]

    return jax.jit(gradient).lower(arrays).compile(), run, arrays


def gradient_of(rule: AbstractGradient, model: popsim.NetworkModel, n_trials: int = 3) -> PyTree:
    """The gradient of the first batch of a two-bit flip-flop."""
    compiled, _, arrays = prepare(rule, model, flip_flop(2, 15), n_trials)
    return compiled(arrays).network


def flat(tree: PyTree) -> np.ndarray:
    """All numbers of a tree."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def relative_error(found: PyTree, expected: PyTree) -> float:
    """The largest difference, relative to the largest number."""
    return float(np.abs(flat(found) - flat(expected)).max() / np.abs(flat(expected)).max())


def cosine(one: PyTree, other: PyTree) -> float:
    """The cosine of the angle between two gradients."""
    return float(flat(one) @ flat(other) / np.linalg.norm(flat(one)) / np.linalg.norm(flat(other)))


def identity_rows(key: Key[Array, ""], n_networks: int) -> tuple[list[Row], list[Row]]:
    """Where rules are back-propagation, and where not: rows and controls."""
    rows, controls = [], []
    for number, (name, build) in enumerate(list(BUILDERS.items())[:n_networks]):
        model = model_of(build(jax.random.fold_in(key, number)))
        exact, traced = gradient_of(BPTT, model), gradient_of(EPROP, model)
        where = model.network.projections()["recurrent"].where
        cut = model_of(eqx.tree_at(where, model.network, replace_fn=jnp.zeros_like))
        forward = relative_error(gradient_of(RTRL(), model), exact)
        without = relative_error(gradient_of(EPROP, cut), gradient_of(BPTT, cut))
        rows.append(upper_bound_row(f"RTRL, {name}", "", forward, EXACT))
        rows.append(upper_bound_row(f"e-prop at W = 0, {name}", "", without, EXACT))
        differs = relative_error(where(traced), where(exact))
        controls.append(upper_bound_row(f"e-prop, {name}", "", differs, DIFFERENT))
        rows.append(Row(f"e-prop, {name}, cosine", "", cosine(traced, exact), 1.0))
    return rows, controls


def paper_rows(key: Key[Array, ""]) -> tuple[list[Row], list[Row]]:
    """Sums of traces in NumPy beside the gradients of popsim, of one trial: rows and controls."""
    keys = jax.random.split(key, 5)
    net = leaky(N_SMALL, 2, keys[0], tau=MANY_TAU)
    W, V = (jax.random.normal(k, (N_SMALL, n)) for k, n in zip(keys[1:3], (N_SMALL, 2), strict=True))
    readout = eqx.nn.Linear(N_SMALL, 2, key=keys[3])
    murray = LeakOutside(recurrent_weights=W, input_weights=V, readout=readout)
    feedback = np.asarray(jax.random.normal(keys[4], (2, N_SMALL)))
    _, run, _ = prepare(BPTT, model_of(net), flip_flop(2, 15), 1)
    (pulses,), target = jax.tree.leaves(run.trials.inputs), run.trials.targets
    trial = reference.Trial(*(np.asarray(leaf[0]) for leaf in (pulses, target.values, target.counts)))
    trial = reference.Trial(trial.inputs, trial.targets, trial.weights / trial.weights.sum())

    def weights(net: Any, bias: Array, tau: Array) -> reference.Weights:
        arrays = (net.recurrent_weights, net.input_weights, bias, net.readout.weight, net.readout.bias)
        return reference.Weights(*map(np.asarray, arrays), rate=DT / np.broadcast_to(tau, N_SMALL))

    sums = functools.partial(reference.leaky_gradient, weights(net, net.bias, net.tau), trial)
    in_murray = functools.partial(
        reference.murray_gradient, weights(murray, jnp.zeros(N_SMALL), jnp.asarray(TAU)), trial
    )
    start = np.full(N_SMALL, 0.1)

    def gradient(network: Any, rule: AbstractGradient) -> list[Array]:
        found = gradient_of(rule, model_of(network), 1)
        return [
            found.recurrent_weights,
            found.input_weights,
            *([found.bias] if hasattr(found, "bias") else []),
        ]

    random = RFLO(feedback=jnp.asarray(feedback))
    exact, traced, aligned = (gradient(net, rule) for rule in (BPTT, EPROP, random))
    outside, at_step = gradient(murray, random), sums(signal="instantaneous")
    same = {
        "total signal, back-propagation": (exact, sums(signal="total")),
        "signal of the step, e-prop": (traced, at_step),
        "random signal, RFLO": (aligned, sums(signal="instantaneous", feedback=feedback)),
        "Murray's network, RFLO": (outside, in_murray(start, feedback)),
    }
    other = {
        "signal of the step, back-propagation": (exact, at_step),
        "total signal, late traces": (exact, sums(signal="total", late=True)),
        "signal of the step, RFLO": (aligned, at_step),
        "Murray's network, leak inside": (outside, in_murray(start, feedback, inside=True)),
    }

    def rows(pairs: dict[str, Any], bound: float) -> list[Row]:
        errors = {name: relative_error(*pair) for name, pair in pairs.items()}
        return [upper_bound_row(name, "", error, bound) for name, error in errors.items()]

    return rows(same, EXACT), rows(other, DIFFERENT)


def train(
    rule: AbstractGradient, task: popsim.AbstractTask, ensemble: Any, n_batches: int, *settings: Any
) -> tuple[Any, np.ndarray]:
    """The trained ensemble, and its losses [member, batch]; `settings`: rate, trials, trained part, key."""
    rate, n_trials, where, key = settings
    trained, history = TaskTrainer(adam(rate), gradient=rule)(
        task,
        ensemble,
        n_batches,
        n_trials,
        where_train=where,
        ensembled=True,
        log_step=n_batches,
        disable_tqdm=not sys.stderr.isatty(),
        key=key,
    )
    return trained, np.asarray(history.loss.total).T


def learn(n_rules: int, n_batches: int, key: Key[Array, ""]) -> dict[str, np.ndarray]:
    """Losses of the first rules [member, batch], from the same networks and trials."""
    build = lambda key: model_of(leaky(N_UNITS, 1, key, gain=GAIN))  # noqa: E731
    ensemble = popsim.make_ensemble(build, N_MEMBERS, key=popsim.key_stream(key, "networks"))
    curves, trials = {}, popsim.key_stream(key, "training")
    for name, rule in list(LEARNERS.items())[:n_rules]:
        part = (
            (lambda model: model.network.readout) if name == "readout alone" else lambda model: model.network
        )
        task = flip_flop(1, 100, 0.03)
        curves[name] = train(rule, task, ensemble, n_batches, RATE, 32, part, trials)[1]
    return curves


def batches_until_learned(curve: Float[np.ndarray, " batch"]) -> float:
    """The number of batches until the mean loss of `WINDOW` batches is below `LEARNED`; infinite if never."""
    below = np.convolve(curve, np.full(WINDOW, 1 / WINDOW), "valid") < LEARNED
    return float(np.argmax(below) + WINDOW) if below.any() else np.inf


def learning_rows(curves: dict[str, np.ndarray]) -> list[Row]:
    """How many batches each rule takes, beside the next faster one; at least all where that is never."""
    rows, names = [], list(curves)
    for better, worse in zip(names[:-1], names[1:], strict=True):
        for member in range(N_MEMBERS):
            slow, fast = (batches_until_learned(curves[name][member]) for name in (worse, better))
            slow = min(slow, curves[worse].shape[1])
            rows.append(Row(f"batches, {worse} / {better}", str(member), slow, fast, gate=(1.1, np.inf)))
    return rows


def measure(lengths: Sequence[int]) -> tuple[dict[str, dict[int, float]], list[Row]]:
    """Temporary memory (MiB) of a gradient by rule and length of trials, and rows of it and of time."""
    model = model_of(leaky(MEMORY_UNITS, 1, jax.random.key(0)))
    memory: dict[str, dict[int, float]] = {"back-propagation": {}, "e-prop": {}}
    shortest: dict[str, tuple[Any, PyTree]] = {}
    for rule, (name, found) in zip((BPTT, EPROP), memory.items(), strict=True):
        for length in lengths:
            compiled, _, arrays = prepare(rule, model, flip_flop(1, length), MEMORY_TRIALS)
            found[length] = compiled.memory_analysis().temp_size_in_bytes / 2**20
            shortest.setdefault(name, (compiled, arrays))
    times: dict[str, list[float]] = {name: [] for name in memory}
    for _ in range(15):  # in turn, so that other work on the machine slows both
        for name, (compiled, arrays) in shortest.items():
            began = time.perf_counter()
            jax.block_until_ready(compiled(arrays))
            times[name].append(time.perf_counter() - began)
    rows = []
    for short, long in itertools.pairwise(lengths):
        for name, found in memory.items():
            gate = (8.0, 12.0) if name == "back-propagation" else (0.0, 2.0)
            rows.append(Row(f"memory, {name}, {long:,} steps", "", found[long], found[short], gate=gate))
    exact, traced = (float(np.median(found)) for found in times.values())
    return memory, [*rows, Row("time, e-prop / back-propagation", "", traced, exact)]


def reach(n_batches: int, key: Key[Array, ""]) -> dict[str, np.ndarray]:
    """End errors (m) [member] by rule."""
    plant = popsim.plants.PointMass()
    loss = 1.0 * losses.PositionError() + 1e-5 * losses.Effort()
    task = tasks.CenterOutReaches(plant.workspace, duration=0.6, dt=DT, loss=loss)
    channels = {"vision": popsim.SensoryChannel(popsim.vision, delay=0.04)}
    n_inputs = popsim.n_network_inputs(task.validation_trials(), plant, channels)

    def build(key: Key[Array, ""]) -> popsim.SensorimotorLoop:
        network = networks.LeakyRNN(n_inputs, N_UNITS, plant.n_commands, tau=TAU, dt=DT, key=key)
        return popsim.SensorimotorLoop(network, plant, channels, dt=DT)

    ensemble = popsim.make_ensemble(build, N_MEMBERS, key=popsim.key_stream(key, "reaching networks"))
    settings = (REACH_RATE, 16, lambda model: model.network, popsim.key_stream(key, "reaches"))
    trained = {name: train(rule, task, ensemble, n_batches, *settings)[0] for name, rule in REACHERS.items()}
    targets = np.asarray(task.validation_trials().targets.position)[:, -1]
    errors = {}
    for name, models in ({"untrained": ensemble} | trained).items():
        states = popsim.evaluate_ensemble(models, task, key=jax.random.key(0)).states
        ends = np.asarray(states.hand.position)[:, :, -1]
        errors[name] = np.linalg.norm(ends - targets, axis=-1).mean(axis=1)
    return errors


def reach_rows(errors: dict[str, np.ndarray], kind: str) -> list[Row]:
    """The end errors (m) of a rule beside those of back-propagation."""
    pairs = zip(errors[kind], errors["back-propagation"], strict=True)
    return [
        Row(f"end error, {kind}", str(member), float(found), float(exact), gate=(0.0, 1.5))
        for member, (found, exact) in enumerate(pairs)
    ]


def main() -> int:
    """Check identities, measure rules, let them learn, print the table, draw the figure."""
    options = parse_options(__file__, __doc__ or "", short_form="fewer networks and lengths, no memory task")
    key, form = jax.random.key(options.seed), QUICK if options.quick else FULL
    with jax.enable_x64(True):
        rows, controls = identity_rows(popsim.key_stream(key, "identities"), form.n_networks)
        more, others = paper_rows(popsim.key_stream(key, "papers"))
    memory, measured = measure(LENGTHS[: form.n_lengths])
    print(f"identities and memory: {time.process_time():.0f} s of CPU", flush=True)
    curves = learn(form.n_rules, form.n_batches, key)
    print(f"with learning: {time.process_time():.0f} s", flush=True)
    errors = reach(form.n_reaches, key)
    print(f"with reaching: {time.process_time():.0f} s", flush=True)
    rows += more + learning_rows(curves) + measured + reach_rows(errors, "through the body")
    controls += others + reach_rows(errors, "signal of the step") + reach_rows(errors, "untrained")
    rows += negative_controls(controls)
    print_table(rows, "found", "reference")
    print(*draw_figure(options.out, rows, curves, LEARNED, memory, errors), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
