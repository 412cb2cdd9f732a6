"""Components of the activity that each speak of one factor of a task."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from popsim.analysis.arrays import AnyArray
from popsim.analysis.population.marginalization import average_by_factors, marginalize
from popsim.checks import check_non_negative, check_positive_int


class DemixedComponents(NamedTuple):
    """The demixed components of one part of the activity, such as that which depends on direction.

    - `encoder`: how each component adds to the units, of length 1.
    - `decoder`: how it is read from them.
    - `projections`: the mean activity, minus the mean of each unit, read by each decoder.
    - `explained`: the share of the whole variance that each component explains.
    - `explained_by_part`: that share divided by the part of the activity, of any name, that it belongs to;
        they sum up to `explained`. A well demixed component has nearly all in its own part.
    - `share`: of the part itself in the whole variance.
    """

    encoder: Float[np.ndarray, "member component unit"]
    decoder: Float[np.ndarray, "member component unit"]
    projections: Float[np.ndarray, "member *levels time component"]
    explained: Float[np.ndarray, "member component"]
    explained_by_part: dict[str, Float[np.ndarray, "member component"]]
    share: Float[np.ndarray, " member"]


def demixed_components(
    activity: Float[AnyArray, "member trial time unit"],
    factors: Mapping[str, Shaped[AnyArray, " trial"]],
    *,
    n_components: int = 3,
    regularization: float = 1e-3,
) -> dict[str, DemixedComponents]:
    """Demixed principal component analysis of each member's mean activity.

    For each part X_p of the activity X (see `marginalize`) the encoder F and decoder D, of rank
    `n_components`, that make |X_p - F D X|^2 + (regularization |X|)^2 |F D|^2 smallest: a reduced-rank
    regression of the part on the whole. Kobak, Brendel, Constantinidis, Feierstein, Kepecs, Mainen, Qi, Romo,
    Uchida & Machens 2016, eLife 5:e10989 (cited from memory; tested against their package dPCA 1.0.5, whose
    `regularizer` is `regularization` / |X|).

    **Arguments:**

    - `activity`: of the units; trials with the same levels of all factors are averaged.
    - `factors`: by name, the level of each trial.
    - `n_components`: how many for each part; at most as many as there are units.
    - `regularization`: zero or more, without unit. Kobak et al. choose it by cross-validation over trials.

    **Returns:** by the name of the part: "time", which all conditions share, each factor, and their
        interactions such as "direction x distance".

    **Raises:** `ValueError` if the activity or the factors do not fit (see `average_by_factors`), a
        member's activity never changes, or there are not so many components.
    """
    check_positive_int("n_components", n_components)
    check_non_negative("regularization", regularization)
    mean = average_by_factors(activity, factors)
    n_units = mean.shape[-1]
    if n_components > n_units:
        raise ValueError(
            f"`n_components` must be at most the number of units, {n_units}, got {n_components}."
        )
    parts = {
        name: part.reshape(len(mean), -1, n_units) for name, part in marginalize(mean, tuple(factors)).items()
    }
    whole = np.sum(list(parts.values()), axis=0)
    power = np.sum(whole**2, axis=(1, 2))
    if n_still := int(np.count_nonzero(power == 0)):
        raise ValueError(f"`activity` must vary in every member, got {n_still} in which it does not.")
    penalty = np.sqrt(power)[:, None, None] * regularization * np.eye(n_units)
    augmented = np.concatenate([whole, penalty], axis=1)
    inverse = np.linalg.pinv(augmented)
    found = {}
    for name, part in parts.items():
        regression = inverse[..., : whole.shape[1]] @ part
        _, _, directions = np.linalg.svd(augmented @ regression, full_matrices=False)
        encoder = directions[:, :n_components]
        decoder = encoder @ regression.mT
        projections = (whole @ decoder.mT).reshape(*mean.shape[:-1], n_components)
        by_part = {other: _explained(values, encoder, decoder, power) for other, values in parts.items()}
        explained = np.sum(list(by_part.values()), axis=0)
        share = np.sum(part**2, axis=(1, 2)) / power
        found[name] = DemixedComponents(encoder, decoder, projections, explained, by_part, share)
    return found


def _explained(
    part: Float[np.ndarray, "member sample unit"],
    encoder: Float[np.ndarray, "member component unit"],
    decoder: Float[np.ndarray, "member component unit"],
    power: Float[np.ndarray, " member"],
) -> Float[np.ndarray, "member component"]:
    """(|X_p|^2 - |X_p - f d X_p|^2) / |X|^2 for each component, in which f has length 1."""
    read, along = part @ decoder.mT, part @ encoder.mT
    return np.sum(2 * read * along - read**2, axis=1) / power[:, None]
