"""Networks learn the Lorenz system from observations by generalised teacher forcing (Hess et al. 2023).

Piecewise-linear networks of three latent states and 50 hidden units learn from orbits of 1.8 Lyapunov times,
which were observed with a little noise. While they learn, their state is moved towards what was observed
before each step, with a strength of 0.1, of 0 or of 1. Then they run freely. Their largest Lyapunov exponent
has to be that of the system, and the states that they visit have to be its states (the divergence of Brenner
et al. 2022). Networks that learned without forcing must not be chaotic, and miss the other gates. Full
forcing is no control: all of the state is observed here, with little noise. Prints the numbers, draws the
figure, and exits with 1 when a gate fails or a control passes.
"""

import dataclasses
import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

import popsim
from command_line import parse_options
from figures.chaotic_dynamics import FreeRuns, draw_figure
from gates import Row, at_least_row, exit_code, negative_controls, print_table, tolerance_row, upper_bound_row
from network_training import train_networks
from popsim import tasks
from popsim.analysis import dynamics
from popsim.ensemble import Members
from popsim.networks import AbstractNetwork, TeacherForced
from popsim.training import adam, cosine_decay
from references import chaotic_dynamics as reference

DT = 0.02  # of the observations, in the time of the system
N_OBSERVED, N_HIDDEN = 3, 50  # all of the latent state is observed
N_ORBITS, ORBIT_STEPS, NOISE = 600, 100, 0.01  # to learn from; steps; in standard deviations of the states
N_BATCHES, BATCH_SIZE = 12_000, 32  # orbits
N_RUNS, N_STEPS, N_SETTLE = 20, 5000, 500  # free runs, and steps of each; those before exponents are taken
LOST = 0.4  # the root mean squared error of a prediction that has failed, in standard deviations
LARGEST_DIVERGENCE, SHORTEST_PREDICTION = 0.5, 1.0  # nats; Lyapunov times
NO_CHAOS = 0.05  # the largest exponent that passes for zero, that of a limit cycle


@dataclasses.dataclass(frozen=True)
class Size:
    """How many networks learn with each strength of forcing."""

    n_networks: int
    strengths: tuple[float, ...]


FULL, QUICK = Size(3, (0.1, 0.0, 1.0)), Size(1, (0.1, 0.0))


class ShallowPLRNN(AbstractNetwork):
    """z' = a z + W_1 relu(W_2 z + h_2) + h_1, of which the first numbers are put out (Hess et al. 2023)."""

    leak: Float[Array, "*members latent"]
    outward: Float[Array, "*members latent hidden"]
    inward: Float[Array, "*members hidden latent"]
    bias: Float[Array, "*members latent"]
    thresholds: Float[Array, "*members hidden"]
    n_inputs: int = eqx.field(static=True)
    n_outputs: int = eqx.field(static=True)

    def __init__(self, n_latent: int, n_hidden: int, n_outputs: int, *, key: Key[Array, ""]):
        outward, inward, thresholds = jax.random.split(key, 3)
        # With larger weights, some networks run away before they have learned, where nothing forces them.
        self.leak, self.bias = jnp.full(n_latent, 0.9), jnp.zeros(n_latent)
        self.outward = 0.1 / n_hidden**0.5 * jax.random.normal(outward, (n_latent, n_hidden))
        self.inward = jax.random.normal(inward, (n_hidden, n_latent)) / n_latent**0.5
        self.thresholds = jax.random.uniform(thresholds, (n_hidden,), minval=-1.0, maxval=1.0)
        self.n_inputs, self.n_outputs = 0, n_outputs

    def init(self, *, key: Key[Array, ""]) -> Array:
        return jnp.zeros_like(self.bias)

    def step(self, inputs: Array, hidden: Array, *, key: Key[Array, ""]) -> Array:
        rates = jax.nn.relu(self.inward @ hidden + self.thresholds)
        return self.leak * hidden + self.outward @ rates + self.bias

    def read_out(self, hidden: Array) -> Array:
        return hidden[: self.n_outputs]


def build(key: Key[Array, ""]) -> popsim.NetworkModel:
    """A network with random weights, whose latent states are all observed."""
    network = ShallowPLRNN(N_OBSERVED, N_HIDDEN, N_OBSERVED, key=key)
    return popsim.NetworkModel(TeacherForced(network, N_OBSERVED), dt=DT)


def learn(observed: np.ndarray, size: Size, seed: int) -> tuple[Members, popsim.NetworkModel]:
    """Networks that learned to predict the next observation, with each strength from the same weights."""
    members = popsim.member_grid(size.n_networks, strength=size.strengths)
    weights, trials = jax.random.split(jax.random.key(seed))
    task = tasks.StoredTrials({"observed": observed[:, :-1]}, observed[:, 1:], dt=DT, validation=0.1)
    trained = train_networks(
        tasks.WithTeacherForcing(task, members.per_member("strength")),
        popsim.build_members(build, members, settings=[], key=weights),
        adam(cosine_decay(0.01, N_BATCHES), clip_norm=1.0),
        N_BATCHES,
        BATCH_SIZE,
        members=members,
        key=trials,
    )
    return members, trained


def run_freely(members: Members, trained: popsim.NetworkModel, true: np.ndarray) -> list[FreeRuns]:
    """What each network does from the starts of true orbits [run, time, 3]."""
    starts = np.broadcast_to(true[:, 0], (members.n_members, N_RUNS, N_OBSERVED))
    spectrum = dynamics.lyapunov_spectrum(
        trained, starts, N_STEPS, dt=DT, n_transient=N_SETTLE, n_exponents=1
    )
    runs = dynamics.rollout(trained, starts, N_STEPS - 1)
    return [
        FreeRuns(
            strength=float(members.settings["strength"][member]),
            seed=int(members.ids[member]),
            runs=of_member,
            exponent=float(spectrum.exponent[member].mean()),
            divergence=reference.state_space_divergence(true, of_member[:, N_SETTLE:]),
            prediction=predicted_time(of_member, true[:, 1:]),
        )
        for member, of_member in enumerate(runs)
    ]


def predicted_time(runs: np.ndarray, true: np.ndarray) -> float:
    """How long runs [run, time, 3] follow true ones from the same starts: the median, in Lyapunov times."""
    with np.errstate(over="ignore", invalid="ignore"):  # of runs without bounds
        is_lost = ~(np.sqrt(np.mean((runs - true) ** 2, axis=-1)) <= LOST)
    n_steps = np.where(is_lost.any(axis=1), is_lost.argmax(axis=1), runs.shape[1])
    return float(np.median(n_steps)) * DT * reference.LARGEST_EXPONENT


def rows_of(found: FreeRuns) -> list[Row]:
    """The numbers of one network: with gates, as a control, or only reported."""
    name, member = f"forcing {found.strength:g}", str(found.seed)
    rows = [
        tolerance_row(f"{name}, exponent", member, found.exponent, reference.LARGEST_EXPONENT, 0.15),
        upper_bound_row(f"{name}, divergence", member, found.divergence, LARGEST_DIVERGENCE),
        at_least_row(f"{name}, prediction", member, found.prediction, SHORTEST_PREDICTION),
    ]
    if found.strength == 0:
        no_chaos = Row(f"{name}, no chaos", member, found.exponent, NO_CHAOS, gate=(-np.inf, 1.0))
        return [no_chaos, *negative_controls(rows)]
    return rows if found.strength < 1 else [dataclasses.replace(row, gate=None) for row in rows]


def main() -> int:
    """Learn, run freely, print the table, draw the figure."""
    short = f"{QUICK.n_networks} network for each of the strengths {QUICK.strengths}"
    options = parse_options(__file__, __doc__ or "", short_form=short)
    size, began, seed = QUICK if options.quick else FULL, time.perf_counter(), 10 * options.seed
    sizes = ((N_RUNS, N_STEPS), (N_RUNS, N_STEPS), (N_ORBITS, ORBIT_STEPS + 1))
    orbits = [reference.orbits(*numbers, DT, seed + index) for index, numbers in enumerate(sizes)]
    mean, std = orbits[0].mean(axis=(0, 1)), orbits[0].std(axis=(0, 1))
    true, again, observed = ((states - mean) / std for states in orbits)
    observed += NOISE * np.random.default_rng(seed + 3).normal(size=observed.shape)
    found = run_freely(*learn(observed, size, options.seed), true)
    itself = reference.state_space_divergence(true, again[:, N_SETTLE:])
    rows = [row for network in found for row in rows_of(network)]
    rows.append(Row("system, divergence from itself", "", itself, LARGEST_DIVERGENCE))
    print(f"run in {time.perf_counter() - began:.0f} s")
    print_table(rows, "found", "reference")
    print(*draw_figure(options.out, found, true, itself, reference.LARGEST_EXPONENT, DT), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
