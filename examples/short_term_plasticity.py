"""Networks whose synapses hold a memory that activity hardly shows (Masse et al. 2019).

A direction is shown, and after a delay of a second another one: networks tell whether they match. They have
rectified units, synapses that facilitate or depress, and pay for activity (Nat Neurosci 22:1159-1167). At the
end of the delay the sample has to be decoded better from the efficacies of the synapses than from the
activity, and the choices have to suffer more when efficacies are exchanged between trials at that time than
when activity is. Networks without plasticity, which pay nothing for activity, must miss both: there
only activity can hold the sample. Synapses of untrained networks hold the sample as well, since the stimulus
drives the units; what the choices need of them must miss the gate. Prints the numbers, draws the figure, and
exits with 1 when a gate fails or a control passes.
"""

import dataclasses
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

import popsim
from command_line import parse_options
from figures.short_term_plasticity import Memories, draw_figure
from gates import Row, at_least_row, exit_code, negative_controls, print_table
from popsim.analysis.neural_activity import decode_condition
from popsim.losses import CrossEntropy
from popsim.networks import AbstractNetwork, LeakyRNN, LeakyState, ShortTermPlasticity
from popsim.tasks import DelayedMatchToSample
from popsim.training import TaskTrainer, adam
from popsim.trial import choice_accuracy

N_DIRECTIONS, STIMULUS_NOISE = 4, 0.02  # s^0.5
FIXATION, SHOWN, DELAY, DURATION, DT = 0.1, 0.3, 1.0, 1.9, 0.05  # s; of sample and of test
N_UNITS, TAU, NOISE = 50, 0.1, 0.1
SPIKES = 10.0  # 1/s, of a unit whose rate is one
GAINS = {"plastic": 3.0, "plain": 1.2}  # synapses of the first kind release less than half at first
# At a cost, networks that can only hold the sample by activity stay silent; without, some of them learn.
ACTIVITY_COSTS = {"plastic": 0.1, "plain": 0.0}
BATCH_SIZE, LEARNING_RATE = 64, 3e-3
N_TESTED = 1000  # trials
LOWEST_ACCURACY = 0.9
LEAST_DIFFERENCE = 0.2  # in accuracy of decoding, by which synapses have to exceed activity


@dataclasses.dataclass(frozen=True)
class Size:
    """How many networks of each kind are trained, and for how many batches."""

    n_members: int
    n_batches: int


FULL, QUICK = Size(3, 1000), Size(1, 1000)


def unit_rates(hidden: PyTree[Array]) -> Float[Array, "*axes unit"]:
    """The rates of units in hidden states with any leading axes."""
    return jax.nn.relu(hidden.activation if isinstance(hidden, LeakyState) else hidden)


def mean_squared_rate(states, trial, model):
    return jnp.mean(unit_rates(states.network.hidden) ** 2)


def build_task(kind: str) -> DelayedMatchToSample:
    """The task, whose loss has a cost on activity that depends on the kind of network."""
    return DelayedMatchToSample(
        n_directions=N_DIRECTIONS,
        noise=STIMULUS_NOISE,
        fixation=FIXATION,
        sample=SHOWN,
        delay=DELAY,
        test=SHOWN,
        duration=DURATION,
        dt=DT,
        loss=CrossEntropy() + ACTIVITY_COSTS[kind] * popsim.FunctionTerm("activity", mean_squared_rate),
    )


def build_ensemble(kind: str, n_members: int, key: Key[Array, ""]) -> popsim.NetworkModel:
    """Untrained networks, "plastic" or "plain"."""
    plasticity = ShortTermPlasticity.alternating(N_UNITS, rate_scale=SPIKES) if kind == "plastic" else None

    def build(key):
        network = LeakyRNN(
            1 + N_DIRECTIONS,
            N_UNITS,
            2,
            tau=TAU,
            dt=DT,
            nonlinearity=jax.nn.relu,
            noise_std=NOISE,
            gain=GAINS[kind],
            plasticity=plasticity,
            key=key,
        )
        return popsim.NetworkModel(network, dt=DT)

    return popsim.make_ensemble(build, n_members, key=key)


def train(
    kind: str, untrained: popsim.NetworkModel, n_batches: int, key: Key[Array, ""]
) -> popsim.NetworkModel:
    """The trained ensemble of a kind."""
    return TaskTrainer(adam(LEARNING_RATE, clip_norm=1.0))(
        build_task(kind),
        untrained,
        n_batches,
        BATCH_SIZE,
        where_train=lambda model: model.network,
        ensembled=True,
        log_step=n_batches,
        disable_tqdm=not sys.stderr.isatty(),
        key=key,
    )[0]


def efficacies(hidden: PyTree[Array]) -> Float[Array, "*axes unit"]:
    """The fraction of their weight with which synapses of each unit act; 1 without plasticity."""
    if not isinstance(hidden, LeakyState):
        return jnp.ones_like(hidden)
    return hidden.synapses["available"] * hidden.synapses["released"]


def exchange(hidden: PyTree[Array], order: np.ndarray, part: str) -> PyTree[Array]:
    """Hidden states [trial, ...] of which a part, "activity" or "synapses", is that of other trials."""
    other = jax.tree.map(lambda leaf: leaf[order], hidden)
    if not isinstance(hidden, LeakyState):
        return other if part == "activity" else hidden
    if part == "activity":
        return LeakyState(other.activation, hidden.synapses)
    return LeakyState(hidden.activation, other.synapses)


def run_from(
    network: AbstractNetwork, hidden: PyTree[Array], trials: popsim.Trial, start: int, key: Key[Array, ""]
) -> Float[Array, "trial time output"]:
    """The outputs from the step `start` to the end of trials that begin there with given hidden states."""

    def run_trial(hidden, inputs, key):
        def step(hidden, input_and_key):
            hidden = network.step(input_and_key[0], hidden, key=input_and_key[1])
            return hidden, network.read_out(hidden)

        return jax.lax.scan(step, hidden, (inputs, jax.random.split(key, len(inputs))))[1]

    channels = [trials.inputs[name][:, start:] for name in sorted(trials.inputs)]  # as models take them
    inputs = jnp.concatenate(channels, axis=-1)
    return jax.jit(jax.vmap(run_trial))(hidden, inputs, jax.random.split(key, len(inputs)))


def exchanged_accuracies(
    ensemble: popsim.NetworkModel, hidden: PyTree[Array], trials: popsim.Trial, start: int, seed: int
) -> dict[str, Float[np.ndarray, " member"]]:
    """The accuracies when nothing, activity or synapses are exchanged between trials before a step.

    **Arguments:**

    - `hidden`: of all members, trials and steps.
    - `start`: the step.
    """
    orders = {part: np.random.default_rng(seed).permutation(N_TESTED) for part in ("activity", "synapses")}
    target = jax.tree.map(lambda leaf: leaf[:, start:], trials.targets)
    accuracies: dict[str, Any] = {part: [] for part in ("nothing", *orders)}
    for i in range(popsim.n_members(ensemble)):
        before = jax.tree.map(lambda leaf, i=i: leaf[i, :, start - 1], hidden)
        states = {part: exchange(before, order, part) for part, order in orders.items()}
        for part, state in {"nothing": before, **states}.items():
            network = popsim.member(ensemble, i).network
            outputs = run_from(network, state, trials, start, jax.random.key(seed))
            accuracies[part].append(float(choice_accuracy(outputs, target)))
    return {part: np.array(values) for part, values in accuracies.items()}


def remember(ensemble: popsim.NetworkModel, seed: int) -> Memories:
    """What activity and synapses of networks hold of the sample, and what the choices need of them."""
    task, key = build_task("plain"), popsim.key_stream(jax.random.key(seed), "test")
    trials = jax.vmap(lambda key: task.trial(batch=0, key=key))(jax.random.split(key, N_TESTED))
    states = popsim.evaluate_ensemble(ensemble, task, trials=trials, key=key).states.network
    rates = unit_rates(states.hidden)
    sample = np.asarray(trials.conditions["sample"])
    decoded = {
        name: decode_condition(np.asarray(values[:, :, 1::2]), sample, key=key)
        for name, values in (("activity", rates), ("synapses", efficacies(states.hidden)))
    }
    test_on = int(trials.timeline.epochs["delay"][0, 1])
    return Memories(
        times=DT * np.arange(2, trials.timeline.n_steps + 1, 2),
        decoded=decoded,
        end=test_on // 2 - 1,
        accuracies=exchanged_accuracies(ensemble, states.hidden, trials, test_on, seed),
    )


def accuracy_rows(kind: str, memories: Memories) -> list[Row]:
    """How often each member is right."""
    return [
        at_least_row(f"{kind}, accuracy", i, value, LOWEST_ACCURACY)
        for i, value in enumerate(memories.accuracies["nothing"])
    ]


def decoding_rows(kind: str, memories: Memories) -> list[Row]:
    """By how much more of the sample is decoded from synapses than from activity, at the end of the delay.

    Of members it is only reported; their mean has a gate.
    """
    decoded = {name: values[:, memories.end] for name, values in memories.decoded.items()}
    differences, name = decoded["synapses"] - decoded["activity"], f"{kind}, decoded"
    rows = [Row(name, str(i), x, LEAST_DIFFERENCE) for i, x in enumerate(differences)]
    return [*rows, at_least_row(name, "mean", float(differences.mean()), LEAST_DIFFERENCE)]


def exchange_rows(kind: str, memories: Memories) -> list[Row]:
    """By how much more accuracy each member loses by an exchange of synapses than of activity."""
    differences, name = memories.accuracies["activity"] - memories.accuracies["synapses"], f"{kind}, lost"
    return [at_least_row(name, i, x, LEAST_DIFFERENCE) for i, x in enumerate(differences)]


def reported_rows(kind: str, memories: Memories) -> list[Row]:
    """What the differences are made of, without gates."""
    parts = {f"{name} decodes": values[:, memories.end] for name, values in memories.decoded.items()}
    parts |= {f"{name} exchanged": values for name, values in memories.accuracies.items()}
    return [
        Row(f"{kind}, {name}", str(i), value, 1.0)
        for name, values in parts.items()
        for i, value in enumerate(values)
    ]


def main() -> int:
    """Train networks of both kinds, print the table, draw the figure."""
    short = f"train {QUICK.n_members} member of each kind"
    options = parse_options(__file__, __doc__ or "", short_form=short)
    size, key = QUICK if options.quick else FULL, jax.random.key(options.seed)
    memories = {}
    for kind in GAINS:
        began = time.perf_counter()
        untrained = build_ensemble(kind, size.n_members, popsim.key_stream(key, f"{kind} networks"))
        trained = train(kind, untrained, size.n_batches, popsim.key_stream(key, f"{kind} training"))
        memories[kind] = remember(trained, options.seed)
        if kind == "plastic":
            memories["untrained"] = remember(untrained, options.seed)
        seconds = time.perf_counter() - began
        print(f"{kind}: {size.n_members} members, {size.n_batches} batches, {seconds:.0f} s", flush=True)
    rows = []
    for rows_of in (accuracy_rows, decoding_rows, exchange_rows):
        rows += rows_of("plastic", memories["plastic"])
    for kind, of_kind in memories.items():
        rows += reported_rows(kind, of_kind)
    controls = decoding_rows("plain", memories["plain"]) + exchange_rows("plain", memories["plain"])
    for rows_of in (accuracy_rows, exchange_rows):
        controls += rows_of("untrained", memories["untrained"])
    rows += negative_controls(controls)
    print_table(rows, "found", "least")
    print(*draw_figure(options.out, memories, (FIXATION, SHOWN, DELAY), N_DIRECTIONS), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
