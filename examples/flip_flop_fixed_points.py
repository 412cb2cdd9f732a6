"""Eight memories and what lies between them: the fixed points of networks that remember three bits.

Networks that `flip_flop.py` trained are searched for points where they rest without pulses (Sussillo & Barak
2013, Neural Comput 25:626; Maheswaranathan et al. 2019, NeurIPS 32:15629, figure 1). If each bit were kept by
itself, between two stable points and an unstable one, there would be 3^3 = 27 points: 8 stable ones, and
12, 6 and 1 with one, two and three unstable directions. All members have to have the 8 stable points, put
out the eight triples of bits there, and stay; four in five have to have all 27 and no other. Whatever their
number, the indices of the points of each member have to add up to 1, or some were not found. Untrained
networks must fail. Activity in the same trials has to be less alike between the two kinds of network than
within them (figure 1d there; see `network_distances.py`). Networks are trained unless the folder has those of
the same size and seed.
"""

import argparse
import dataclasses
import sys

import equinox as eqx
import jax
import numpy as np
from matplotlib.axes import Axes

import popsim
from command_line import parse_options, run_on_saved
from figures.flip_flop_fixed_points import Portrait, draw_figure
from figures.network_distances import draw_network_map
from flip_flop import (
    FULL,
    N_BITS,
    NETWORK_KINDS,
    QUICK,
    FlipFlop,
    Size,
    build_ensemble,
    train,
    trained_networks,
)
from gates import Row, exit_code, negative_controls, print_table, tolerance_row, upper_bound_row
from network_distances import distance_rows, network_distances, without_gate
from popsim.analysis import dynamics

IDEAL = (8, 12, 6, 1)  # C(3, k) 2^(3 - k) points with k unstable directions
LEAST_SHARE = 0.8  # of the members, that have all of these and no other
N_TRIALS, N_STARTS, N_DRAWN = 128, 2048, 24
N_HELD, LARGEST_DRIFT = 500, 0.05


@dataclasses.dataclass(frozen=True)
class Rest:
    """Where the members of an ensemble rest.

    - `points`: their fixed points.
    - `outputs` [point, bit]: what they put out there.
    - `hidden` [member, trial, time, unit]: the states that they visited.
    """

    points: dynamics.FixedPoints
    outputs: np.ndarray
    hidden: np.ndarray


def find(ensemble: popsim.NetworkModel, seed: int) -> Rest:
    """The fixed points of all members, from mixtures of the states that they visit in trials."""
    task, key = FlipFlop(), popsim.key_stream(jax.random.key(seed), "visited")
    trials = popsim.sample_trials(task, N_TRIALS, batch=0, key=key)
    states = popsim.evaluate_ensemble(ensemble, task, trials=trials, key=jax.random.key(seed)).states
    hidden = np.asarray(states.network.hidden)
    starts = dynamics.mixtures_of_states(
        hidden, N_STARTS, key=popsim.key_stream(jax.random.key(seed), "starts")
    )
    search = dynamics.find_fixed_points(ensemble, starts)
    n_slow = np.bincount(search.slow.member, minlength=search.slow.n_members)
    print(f"slow points: {n_slow.tolist()}, searches that ended elsewhere: {search.n_lost.tolist()}")
    points = search.fixed
    outputs = read_out(ensemble, points.state[:, None].astype(hidden.dtype), points.member)
    return Rest(points, outputs[:, 0], hidden)


def read_out(ensemble: popsim.NetworkModel, hidden: np.ndarray, member: np.ndarray) -> np.ndarray:
    """What networks put out at states [point, time, unit], those of a point by the member named for it."""
    networks = jax.tree.map(lambda leaf: leaf[member], ensemble.network)
    outputs = eqx.filter_vmap(lambda network, states: jax.vmap(network.read_out)(states))(networks, hidden)
    return np.asarray(outputs, float)


def largest_drifts(ensemble: popsim.NetworkModel, resting: Rest) -> np.ndarray:
    """By how much an output moves at most in steps without a pulse from the stable points [member]."""
    drifts = np.full(resting.points.n_members, np.nan)
    for i in range(resting.points.n_members):
        points = resting.points.select_member(i)
        points = points.where(points.is_stable)
        if len(points):
            alone = jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], ensemble)
            followed = dynamics.rollout(alone, points.state[None], N_HELD)[0]
            outputs = read_out(ensemble, followed.astype(resting.hidden.dtype), points.member)
            outputs_at_rest = resting.outputs[(resting.points.member == i) & resting.points.is_stable]
            drifts[i] = np.abs(outputs - outputs_at_rest[:, None]).max()
    return drifts


def n_corners(resting: Rest, member: int) -> int:
    """How many triples of bits a member puts out at its stable points."""
    is_own = (resting.points.member == member) & resting.points.is_stable
    return len({tuple(signs) for signs in np.sign(resting.outputs[is_own]).astype(int).tolist()})


def memory_rows(name: str, resting: Rest) -> list[Row]:
    """The stable points of each member, and the triples of bits that it puts out there."""
    rows = []
    for i in range(resting.points.n_members):
        n_stable = np.count_nonzero(resting.points.select_member(i).is_stable)
        rows.append(tolerance_row(f"{name}, stable points", str(i), float(n_stable), 2.0**N_BITS, 0.0))
        rows.append(
            tolerance_row(f"{name}, triples of bits", str(i), float(n_corners(resting, i)), 2.0**N_BITS, 0.0)
        )
    return rows


def topology_rows(name: str, resting: Rest) -> list[Row]:
    """All points of each member, which are only reported, and the share of members that have the ideal 27."""
    counts = resting.points.counts()
    counts = np.pad(counts, ((0, 0), (0, max(0, len(IDEAL) - counts.shape[1]))))
    ideal = np.pad(IDEAL, (0, counts.shape[1] - len(IDEAL)))
    for i, numbers in enumerate(counts):
        print(f"{name}, member {i}: {numbers.tolist()} points with 0, 1, 2, ... unstable directions")
    fraction = float(np.mean((counts == ideal).all(axis=1)))
    return [Row(f"{name}, share with {IDEAL}", "all", fraction, LEAST_SHARE, gate=(1.0, 1 / LEAST_SHARE))]


def index_rows(name: str, resting: Rest) -> list[Row]:
    """The sum of the indices of the points of each member."""
    sums = [float(resting.points.select_member(i).index.sum()) for i in range(resting.points.n_members)]
    return [tolerance_row(f"{name}, sum of indices", str(i), total, 1.0, 0.0) for i, total in enumerate(sums)]


def error_rows(name: str, ensemble: popsim.NetworkModel, size: Size, seed: int) -> list[Row]:
    """The mean squared error of each member in trials with pulses."""
    task, key = FlipFlop(), popsim.key_stream(jax.random.key(seed), "test")
    trials = popsim.sample_trials(task, N_TRIALS, batch=0, key=key)
    losses = popsim.evaluate_ensemble(ensemble, task, trials=trials, key=jax.random.key(seed)).losses
    errors = np.asarray(losses.total, float).mean(axis=1)
    return [
        upper_bound_row(f"{name}, MSE", str(i), error, size.largest_error) for i, error in enumerate(errors)
    ]


def kind_rows(
    cell: str, trained: popsim.NetworkModel, untrained: popsim.NetworkModel, size: Size, seed: int
) -> tuple[list[Row], Rest]:
    """The rows of one kind of network, and where its trained members rest."""
    resting, before = find(trained, seed), find(untrained, seed)
    drifts = largest_drifts(trained, resting)
    rows = error_rows(cell, trained, size, seed) + index_rows(cell, resting) + memory_rows(cell, resting)
    rows += topology_rows(cell, resting)
    rows += [
        upper_bound_row(f"{cell}, drift", str(i), drift, LARGEST_DRIFT) for i, drift in enumerate(drifts)
    ]
    controls = memory_rows(f"{cell}, untrained", before) + topology_rows(f"{cell}, untrained", before)
    return rows + index_rows(f"{cell}, untrained", before) + negative_controls(controls), resting


def analyse(options: argparse.Namespace, size: Size) -> int:
    """Open what was saved, find the points, print the table, draw the figure."""
    trained = {cell: trained_networks(options.out, cell, size, options.seed) for cell in NETWORK_KINDS}
    untrained = {cell: build_ensemble(cell, size.n_members, options.seed) for cell in NETWORK_KINDS}
    rows: list[Row] = []
    portraits = {}
    for cell in NETWORK_KINDS:
        new_rows, resting = kind_rows(cell, trained[cell], untrained[cell], size, options.seed)
        rows += new_rows
        first = resting.points.select_member(0)
        portraits[cell] = Portrait(
            resting.hidden[0, :N_DRAWN],
            first.state,
            first.n_unstable,
            first.eigenvalues,
            resting.points.counts(),
        )
    distances = network_distances(trained, FlipFlop(), options.seed)
    before = network_distances(untrained, FlipFlop(), options.seed)
    rows += distance_rows("trained", distances, options.seed)
    rows += [without_gate(row) for row in distance_rows("untrained", before, options.seed)]
    print_table(rows, "found", "expected")

    def draw_map(ax: Axes) -> None:
        chart, test = distances.chart, distances.test
        draw_network_map(ax, chart.positions, distances.cells, chart.fraction, test.statistic, test.p)

    print(*draw_figure(options.out, portraits, IDEAL, draw_map), sep="\n")
    return exit_code(rows)


def main() -> int:
    """Train and save unless that was done; then, in a fresh process, search and draw."""
    short = f"train {QUICK.n_members} members for {QUICK.n_batches} batches"
    options = parse_options(__file__, __doc__ or "", in_fresh_process=True, short_form=short)
    size = QUICK if options.quick else FULL
    if options.saved:
        return analyse(options, size)
    for cell in NETWORK_KINDS:
        try:
            trained_networks(options.out, cell, size, options.seed)
        except (ValueError, FileNotFoundError):
            train(options.out, cell, size, options.seed)
    return run_on_saved(__file__, options)


if __name__ == "__main__":
    sys.exit(main())
