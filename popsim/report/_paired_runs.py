"""The paired comparison of runs, over the seeds that they share."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from popsim.analysis.statistics import paired_comparison
from popsim.experiments import Column, ResultTable, Row
from popsim.experiments.experiment import AbstractExperiment
from popsim.randomness import key_of_seed

FEWEST = 2  # pairs
CAPTION = (
    "Changes from the first run to the others, paired over members that began with the same seed: the ratio "
    "of geometric means where all values are above zero, else the difference of means, with a 95 % interval "
    "(t) and the p of a two-sided sign-flip test, which of n pairs is at least 2 / 2^n"
)


def shared_members(
    first: AbstractExperiment, second: AbstractExperiment
) -> tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]:
    """Return the members of two experiments that have the same seed, in pairs.

    Such members drew the same initial weights, trials and noise as far as their settings are the same. If
    both experiments have members of different settings, the settings that both have must be the same, too.
    Members that fit several others are in no pair.
    """
    common = dict(first.grid).keys() & dict(second.grid).keys()
    members = [_identities(experiment, sorted(common)) for experiment in (first, second)]
    pairs = [
        (members[0].index(identity), members[1].index(identity))
        for identity in dict.fromkeys(members[0])
        if members[0].count(identity) == members[1].count(identity) == 1
    ]
    places = np.array(pairs, int).reshape(-1, 2)
    return places[:, 0], places[:, 1]


def _identities(experiment: AbstractExperiment, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return the seed of the experiment and of each member, with its values of some settings."""
    members = experiment.members
    settings = [list(map(str, members.settings[name].tolist())) for name in names]
    return [
        (experiment.seed, int(seed), *values)
        for seed, *values in zip(members.ids.tolist(), *settings, strict=True)
    ]


def paired_table(
    names: Sequence[str],
    experiments: Sequence[AbstractExperiment],
    values: Mapping[str, Sequence[Float[np.ndarray, " _"]]],
) -> ResultTable | None:
    """Return the changes from the first run to each other, or None where runs share fewer than two members.

    `values` are, by quantity, those of the members of each run; none where a run has none.
    """
    rows = []
    for quantity, of_runs in values.items():
        for name, experiment, others in zip(names[1:], experiments[1:], of_runs[1:], strict=True):
            places = shared_members(experiments[0], experiment)
            if of_runs[0].size and others.size:
                pairs = np.stack([of_runs[0][places[0]], others[places[1]]])
                pairs = pairs[:, np.isfinite(pairs).all(axis=0)]
                if pairs.shape[1] >= FEWEST:
                    rows.append(Row(quantity, [f"{names[0]} to {name}", *_change(*pairs)]))
    columns = [Column("runs"), Column("pairs"), Column("change and 95 % interval"), Column("p")]
    return ResultTable(columns, rows, CAPTION) if rows else None


def _change(before: Float[np.ndarray, " pair"], after: Float[np.ndarray, " pair"]) -> list[str]:
    """Return the number of pairs, the change with its interval, and p, as text."""
    is_positive = min(before.min(), after.min()) > 0
    values = (np.log(before), np.log(after)) if is_positive else (before, after)
    comparison = paired_comparison(*values, key=key_of_seed(0, "report"))
    ends = np.array([comparison.difference, comparison.low, comparison.high])
    if is_positive:
        change = "× {:.3g} ({:.3g} to {:.3g})".format(*np.exp(ends))
    else:
        change = "{:+.3g} ({:+.3g} to {:+.3g})".format(*ends)
    return [str(before.size), change, f"{comparison.test.p:.2g}"]
