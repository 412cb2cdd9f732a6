"""Networks of low rank have few latent variables, which tell what they do (Mastrogiuseppe & Ostojic 2018).

A network of rank one rests where its latent variable kappa solves one equation, exactly without a random
part, and with one as the mean-field theory of `references/low_rank_dynamics.py` says for many units. Below an
overlap of one between its two vectors it is silent. Networks of rank two learn a perceptual decision. Their
exact reduction to two latent variables and the filtered input has to predict every choice. Vectors whose
entries are shuffled must miss all of this, and untrained networks the accuracy. Prints the numbers, draws the
figure, and exits with 1 when a gate fails or a negative control passes.
"""

import dataclasses
import sys
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import popsim
from command_line import parse_options
from figures.low_rank_dynamics import Decisions, RestingNetworks, chose_right, draw_figure
from gates import Row, exit_code, negative_controls, print_table, tolerance_row, upper_bound_row
from popsim.analysis import dynamics
from popsim.tasks import PerceptualDecision
from popsim.training import TaskTrainer, adam
from references import ideal_observer
from references import low_rank_dynamics as reference

N_EXACT, EXACT_OVERLAPS = 500, (1.2, 1.5, 2.0, 3.0)
N_RANDOM, RANDOM_GAIN, RANDOM_OVERLAPS = 2000, 0.5, (0.8, 1.2, 1.5, 2.0, 3.0)
LOWEST_GATED = 1.5  # overlap from which the theory has to hold within 10 percent
OWN_TOLERANCE = 0.04  # of kappa beside that by the network's own variance; without random part it is 7 % off
NEAR_TOLERANCE = 0.5  # of the theory below, where networks of one size differ more: they have to be ordered
OTHER_OVERLAPS = {1.5: 2.0, 2.0: 1.5, 3.0: 2.0}  # whose theory must be missed
STEP, N_SETTLING = 0.2, 600  # of time, in time constants, and how many of them
LARGEST_KAPPA_ERROR = 1e-5  # relative, without a random part
LARGEST_SILENCE = 1e-6  # standard deviation of units that started with 1
N_UNITS, TAU, DT = 128, 0.1, 0.05  # of the networks that learn, s
STIMULUS, NOISE = 0.5, 0.05  # s, and s^0.5, of each of the two streams
BATCH_SIZE, LEARNING_RATE, N_TESTED = 128, 3e-3, 4000  # trials
LOWEST_ACCURACY = 0.95  # relative to the ideal observer
LARGEST_ERROR = 1e-5  # of an output, which networks compute in single precision


@dataclasses.dataclass(frozen=True)
class Size:
    """How many networks rest and learn, and for how many batches."""

    n_resting: int
    n_members: int
    n_batches: int


FULL, QUICK = Size(6, 5, 1000), Size(2, 2, 400)


def rank_one_networks(
    overlap: float, n_units: int, gain: float, size: Size, seed: int
) -> popsim.networks.LowRankRNN:
    """Networks whose vectors have exactly the overlap n'm / N, with |m|^2 = N; the same for all overlaps.

    Vectors that are drawn freely have it up to 1 / sqrt(N), which near an overlap of one changes much.
    """
    key = popsim.key_stream(jax.random.key(seed), f"{n_units} units")
    networks = popsim.make_ensemble(
        lambda key: popsim.networks.LowRankRNN(
            1, n_units, 1, rank=1, random_gain=gain, tau=1.0, dt=STEP, key=key
        ),
        size.n_resting,
        key=key,
    )
    left, other = (np.asarray(vectors[..., 0], float) for vectors in (networks.left, networks.right))
    left *= (n_units / np.sum(left**2, axis=1, keepdims=True)) ** 0.5
    orthogonal = other - np.sum(other * left, axis=1, keepdims=True) / n_units * left
    vectors = (left, overlap * left + orthogonal)
    return eqx.tree_at(
        lambda networks: (networks.left, networks.right),
        networks,
        tuple(jnp.asarray(vector[..., None], jnp.float32) for vector in vectors),
    )


def with_shuffled_right(networks: popsim.networks.LowRankRNN, seed: int) -> popsim.networks.LowRankRNN:
    """The same networks, the units of n in another order."""
    order = np.random.default_rng(seed).permutation(networks.right.shape[1])
    return eqx.tree_at(lambda networks: networks.right, networks, networks.right[:, order])


def rest(networks: popsim.networks.LowRankRNN) -> tuple[np.ndarray, np.ndarray]:
    """Kappa [network] where networks rest that start at kappa = 1, and the variance of their units there."""
    left, right = (np.asarray(vectors[..., 0], float) for vectors in (networks.left, networks.right))
    states = dynamics.rollout(networks, left[:, None], N_SETTLING)[:, 0, -1]
    return np.mean(right * np.tanh(states), axis=1), np.mean(states**2, axis=1)


def exact_rows(size: Size, seed: int) -> list[Row]:
    """Kappa of networks without a random part beside that of the equation for the same vectors."""
    rows = []
    for overlap in EXACT_OVERLAPS:
        networks = rank_one_networks(overlap, N_EXACT, 0.0, size, seed)
        vectors = (np.asarray(v[..., 0], float) for v in (networks.left, networks.right))
        exact = np.array([reference.exact_kappa(m, n) for m, n in zip(*vectors, strict=True)])
        name, shuffled = f"exact, overlap {overlap:g}", with_shuffled_right(networks, seed)
        rows.append(kappa_error_row(name, networks, exact))
        rows += negative_controls([kappa_error_row(f"{name}, n shuffled", shuffled, exact)])
    return rows


def kappa_error_row(name: str, networks: popsim.networks.LowRankRNN, exact: np.ndarray) -> Row:
    """The largest relative error of kappa, of networks at rest."""
    errors = np.abs(rest(networks)[0] / exact - 1)
    return upper_bound_row(f"{name}, error of kappa", "worst", float(errors.max()), LARGEST_KAPPA_ERROR)


def random_rows(size: Size, seed: int) -> tuple[list[Row], RestingNetworks]:
    """Kappa and variance of networks with a random part beside the mean-field theory."""
    kappas, variances, rows = [], [], []
    for overlap in RANDOM_OVERLAPS:
        networks = rank_one_networks(overlap, N_RANDOM, RANDOM_GAIN, size, seed)
        kappa, variance = rest(networks)
        kappas.append(kappa)
        variances.append(variance)
        rows += resting_rows(f"overlap {overlap:g}", overlap, kappa, variance)
        if overlap >= LOWEST_GATED:
            rows.append(own_variance_row(f"overlap {overlap:g}", kappa, variance, RANDOM_GAIN))
        controls = []
        if overlap in OTHER_OVERLAPS:
            other = OTHER_OVERLAPS[overlap]
            controls += resting_rows(f"overlap {overlap:g}, theory of {other:g}", other, kappa, variance)
        if overlap == LOWEST_GATED:
            shuffled = rest(with_shuffled_right(networks, seed))
            controls += resting_rows(f"overlap {overlap:g}, n shuffled", overlap, *shuffled)
            controls.append(own_variance_row(f"overlap {overlap:g}, no random part", kappa, variance, 0.0))
        rows += negative_controls(controls)
    return rows, RestingNetworks(
        np.array(RANDOM_OVERLAPS), np.array(kappas), np.array(variances), RANDOM_GAIN
    )


def own_variance_row(name: str, kappa: np.ndarray, variance: np.ndarray, gain: float) -> Row:
    """The mean kappa of networks beside that which the theory has for the variance of each of them."""
    random = np.array([reference.normal_mean(lambda x: np.tanh(x) ** 2, value) for value in variance])
    own = float(np.mean(np.sqrt(variance - gain**2 * random)))
    return tolerance_row(f"{name}, kappa by variance", "mean", float(kappa.mean()), own, OWN_TOLERANCE)


def resting_rows(name: str, overlap: float, kappa: np.ndarray, variance: np.ndarray) -> list[Row]:
    """The mean kappa and variance of networks beside the theory of an overlap; or how silent they are."""
    if overlap <= 1:
        deviation = float(np.max(variance**0.5))
        return [upper_bound_row(f"{name}, deviation of units", "worst", deviation, LARGEST_SILENCE)]
    tolerance = 0.1 if overlap >= LOWEST_GATED else NEAR_TOLERANCE
    theories = {
        "kappa": (kappa, reference.kappa_at_rest(overlap, RANDOM_GAIN)),
        "variance": (variance, reference.variance_at_rest(overlap)),
    }
    rows = []
    for quantity, (values, theory) in theories.items():
        error = float(values.std(ddof=1) / len(values) ** 0.5 / theory)
        row = tolerance_row(f"{name}, {quantity}", "mean", float(values.mean()), theory, tolerance)
        rows.append(dataclasses.replace(row, error=error))
    return rows


def build_task() -> PerceptualDecision:
    """Tell which of two noisy streams is the stronger."""
    return PerceptualDecision(stimulus=STIMULUS, noise=NOISE, dt=DT)


def build_learners(n_members: int, seed: int) -> popsim.NetworkModel:
    """Untrained networks of rank two for the decision."""

    def build(key):
        network = popsim.networks.LowRankRNN(3, N_UNITS, 2, rank=2, tau=TAU, dt=DT, key=key)
        return popsim.NetworkModel(network, dt=DT)

    return popsim.make_ensemble(build, n_members, key=popsim.key_stream(jax.random.key(seed), "learners"))


def train(untrained: popsim.NetworkModel, size: Size, seed: int) -> popsim.NetworkModel:
    """The networks after training on the decision."""
    return TaskTrainer(adam(LEARNING_RATE))(
        build_task(),
        untrained,
        size.n_batches,
        BATCH_SIZE,
        where_train=lambda model: model.network,
        ensembled=True,
        log_step=size.n_batches,
        disable_tqdm=not sys.stderr.isatty(),
        key=popsim.key_stream(jax.random.key(seed), "training"),
    )[0]


def reduce_network(network: Any) -> reference.LowRankNetwork:
    """The arrays of a `LowRankRNN`, for its reduction."""
    return reference.LowRankNetwork(
        left=np.asarray(network.left, float),
        right=np.asarray(network.right, float),
        input_weights=np.asarray(network.input_weights, float),
        bias=np.asarray(network.bias, float),
        readout=np.asarray(network.readout.weight, float),
        output_bias=np.asarray(network.readout.bias, float),
        leak=float(network.dt / network.tau),
    )


def decide(ensemble: popsim.NetworkModel, seed: int) -> Decisions:
    """What networks put out in drawn trials, and what their reductions do, with n as it is and shuffled."""
    task = build_task()
    trials = popsim.sample_trials(
        task, N_TESTED, batch=0, key=popsim.key_stream(jax.random.key(seed), "test")
    )
    states = popsim.evaluate_ensemble(ensemble, task, trials=trials, key=jax.random.key(seed)).states
    inputs = np.concatenate(
        [np.asarray(trials.inputs[name], float) for name in sorted(trials.inputs)], axis=-1
    )
    networks = [reduce_network(popsim.member(ensemble.network, i)) for i in range(popsim.n_members(ensemble))]
    order = np.random.default_rng(seed).permutation(N_UNITS)
    shuffled = [dataclasses.replace(network, right=network.right[order]) for network in networks]
    courses = [network.latent_course(inputs) for network in networks]
    return Decisions(
        coherences=np.asarray(trials.conditions["coherence"], float),
        outputs=np.asarray(states.network.output, float),
        reduced=np.stack([outputs for _, outputs in courses]),
        shuffled=np.stack([network.latent_course(inputs)[1] for network in shuffled]),
        kappas=np.stack([kappa for kappa, _ in courses]),
    )


def accuracy_rows(name: str, decisions: Decisions, outputs: np.ndarray) -> list[Row]:
    """How often each member is right, beside the ideal observer of the difference between the streams."""
    noise = NOISE * (2 / DT) ** 0.5  # of the difference in a time step
    ideal = ideal_observer.Evidence(round(STIMULUS / DT), noise).accuracy(decisions.coherences)
    error = (ideal * (1 - ideal) / len(decisions.coherences)) ** 0.5 / ideal
    correct = np.mean(chose_right(outputs) == (decisions.coherences > 0), axis=1)
    gate = (LOWEST_ACCURACY, 1 + 3 * error)
    return [Row(f"{name}, accuracy", str(i), value, ideal, error, gate) for i, value in enumerate(correct)]


def reduction_rows(name: str, decisions: Decisions, reduced: np.ndarray) -> list[Row]:
    """How many choices of each member a reduction predicts, and its largest error of an output."""
    predicted = np.mean(chose_right(reduced) == chose_right(decisions.outputs), axis=1)
    errors = np.abs(reduced - decisions.outputs).max(axis=(1, 2, 3))
    rows = []
    for i, (fraction, error) in enumerate(zip(predicted, errors, strict=True)):
        rows.append(tolerance_row(f"{name}, choices predicted", str(i), fraction, 1.0, 0.0))
        rows.append(upper_bound_row(f"{name}, error of output", str(i), error, LARGEST_ERROR))
    return rows


def decision_rows(size: Size, seed: int) -> tuple[list[Row], Decisions]:
    """Train networks on the decision, and compare them with the ideal observer and with their reductions."""
    untrained = build_learners(size.n_members, seed)
    before, decisions = decide(untrained, seed), decide(train(untrained, size, seed), seed)
    rows = accuracy_rows("trained", decisions, decisions.outputs)
    rows += reduction_rows("reduction", decisions, decisions.reduced)
    controls = accuracy_rows("untrained", before, before.outputs)
    controls += accuracy_rows("n shuffled", decisions, decisions.shuffled)
    controls += reduction_rows("n shuffled", decisions, decisions.shuffled)
    return rows + negative_controls(controls), decisions


def main() -> int:
    """Let networks rest and learn, print the table, draw the figure."""
    short = (
        f"{QUICK.n_resting} networks at rest, and {QUICK.n_members} that learn for {QUICK.n_batches} batches"
    )
    options = parse_options(__file__, __doc__ or "", short_form=short)
    size, began = QUICK if options.quick else FULL, time.perf_counter()
    rows = exact_rows(size, options.seed)
    mean_field_rows, resting = random_rows(size, options.seed)
    learner_rows, decisions = decision_rows(size, options.seed)
    rows += mean_field_rows + learner_rows
    print(f"run in {time.perf_counter() - began:.0f} s")
    print_table(rows, "found", "reference")
    print(*draw_figure(options.out, resting, decisions), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
