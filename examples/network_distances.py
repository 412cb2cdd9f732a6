"""How far apart networks of two kinds are in the same trials (Maheswaranathan et al. 2019, Fig. 1d).

The distance of two networks is 1 - mean canonical correlation (SVCCA) of the principal components of their
hidden activity that hold 99 % of the variance, over all steps of the same trials, the mean over steps and
trials removed. Networks of different kinds have to be farther apart than networks of one kind, and beyond
what relabelling networks gives; mixed groups, with members of both kinds in each, must fail. Untrained
networks are reported: they are apart as well, so that the distances tell kinds, and not what was learned.
"""

import dataclasses
from collections.abc import Mapping

import jax
import numpy as np

import popsim
from flip_flop import FlipFlop
from gates import Row, negative_controls, upper_bound_row
from popsim.analysis.similarity import (
    MemberMap,
    cca_distance,
    group_permutation_test,
    member_map,
    pairwise,
    principal_patterns,
)
from popsim.analysis.statistics import PermutationTest

N_TRIALS = 128
LARGEST_P = 0.05


@dataclasses.dataclass(frozen=True)
class NetworkDistances:
    """Distances of networks, those of one kind after those of the other.

    - `distances` [network, network]: from 0 to 1.
    - `cells` [network]: the kind of each.
    - `chart`: where they lie on a map.
    - `test`: of the distances between kinds less those within them, under all ways to relabel networks.
    """

    distances: np.ndarray
    cells: np.ndarray
    chart: MemberMap
    test: PermutationTest


def network_distances(
    ensembles: Mapping[str, popsim.NetworkModel], task: FlipFlop, seed: int
) -> NetworkDistances:
    """The distances of all networks of all kinds in the same trials."""
    key = popsim.key_stream(jax.random.key(seed), "common trials")
    trials = popsim.sample_trials(task, N_TRIALS, batch=0, key=key)
    members, cells = [], []
    for cell, ensemble in ensembles.items():
        states = popsim.evaluate_ensemble(ensemble, task, trials=trials, key=key).states
        members += [principal_patterns(hidden) for hidden in np.asarray(states.network.hidden)]
        cells += [cell] * (len(members) - len(cells))
    distances = pairwise(members, cca_distance)  # SVCCA, with 99 % of the variance
    test = group_permutation_test(distances, cells, key=key)
    return NetworkDistances(distances, np.array(cells), member_map(distances), test)


def distance_rows(name: str, measured: NetworkDistances, seed: int) -> list[Row]:
    """The distance between kinds relative to that within them, its p, and the same of mixed groups.

    They have a gate where so many networks can be relabelled in so many ways that p can pass.
    """
    mixed = np.arange(len(measured.cells)) % 2
    key = popsim.key_stream(jax.random.key(seed), "mixed groups")
    rows = [
        *_separation_rows(name, measured.distances, measured.cells, measured.test),
        *negative_controls(
            _separation_rows(
                f"{name}, mixed",
                measured.distances,
                mixed,
                group_permutation_test(measured.distances, mixed, key=key),
            )
        ),
    ]
    smallest = np.mean(measured.test.null >= measured.test.null.max() - 1e-12)
    return rows if smallest <= LARGEST_P else [without_gate(row) for row in rows]


def without_gate(row: Row) -> Row:
    """The row as one that is only reported."""
    return dataclasses.replace(row, gate=None, must_fail=False)


def _separation_rows(
    name: str, distances: np.ndarray, groups: np.ndarray, test: PermutationTest
) -> list[Row]:
    pairs = np.triu_indices(len(distances), 1)
    same = (groups[:, None] == groups)[pairs]
    of_pairs = distances[pairs]
    between, within = float(of_pairs[~same].mean()), float(of_pairs[same].mean())
    return [
        Row(f"{name}, distance", "all", between, within, gate=(1.0, float("inf"))),
        upper_bound_row(f"{name}, distance p", "all", test.p, LARGEST_P),
    ]
