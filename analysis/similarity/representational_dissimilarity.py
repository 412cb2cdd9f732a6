"""Representational similarity: which conditions a member tells apart, and whether another one does so too."""

from typing import Literal

import numpy as np
from jaxtyping import Float, Shaped

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.analysis.choices import check_choice
from popsim.analysis.optional_packages import optional
from popsim.analysis.trial_labels import check_trials, different_labels


def representational_dissimilarities(
    activity: AnyArray,
    condition: Shaped[AnyArray, " trial"],
    *,
    method: Literal["euclidean", "correlation"] = "euclidean",
) -> Float[np.ndarray, "*axes condition condition"]:
    """How differently the units respond in each two conditions, by `rsatoolbox.rdm.calc_rdm`.

    Kriegeskorte, Mur & Bandettini 2008, Front Syst Neurosci 2:4 (cited from memory). The trials of a
    condition are averaged first; noise that is left makes all conditions seem different, so average many
    trials, or run members without noise.

    **Arguments:**

    - `activity`: with axes (*axes, trial, unit), such as the mean over a window of each member; to compare
        time courses, give time steps times units as units.
    - `condition`: a label of each trial; numbers that differ by rounding are one.
    - `method`: "euclidean", the squared distance divided by the number of units, in the squared unit of the
        activity, or "correlation", one minus the correlation over units.

    **Returns:** a symmetric matrix with zeros on the diagonal; conditions are in sorted order.

    **Raises:** `ValueError` if activity and conditions are not of as many trials, there are fewer than
    three conditions, or all units are alike in one of them for the correlation; `ImportError` if
    rsatoolbox is missing.
    """
    check_choice("method", method, ("euclidean", "correlation"))
    values, labels = finite_float64("activity", activity), np.asarray(condition)
    if values.ndim < 2:
        raise ValueError(f"`activity` must have axes (..., trial, unit), got shape {values.shape}.")
    check_trials("condition", labels, values.shape[-2])
    found, places = different_labels(labels)
    if len(found) < 3:
        raise ValueError(f"`condition` must be three conditions or more, got {found.tolist()}.")
    means = np.stack([values[..., places == place, :].mean(axis=-2) for place in range(len(found))], axis=-2)
    if method == "correlation" and np.any(np.ptp(means, axis=-1) <= 1e-12 * np.abs(means).max(axis=-1)):
        raise ValueError(
            "`activity` must differ over units in each condition, or it has no correlation: take "
            'method="euclidean".'
        )
    matrices = [_matrix(of_member, method) for of_member in means.reshape(-1, *means.shape[-2:])]
    return np.reshape(matrices, (*means.shape[:-2], len(found), len(found)))


def compare_dissimilarities(
    first: Float[AnyArray, "condition condition"],
    second: Float[AnyArray, "condition condition"],
    *,
    method: Literal["corr", "cosine", "spearman", "rho-a", "tau-a"] = "corr",
) -> float:
    """How alike two members tell conditions apart, by `rsatoolbox.rdm.compare`; 1 if in the same way.

    A measure for `pairwise`, of members given as `representational_dissimilarities`.

    **Arguments:**

    - `first`, `second`: the dissimilarities of the same conditions; only what is above the diagonal counts.
    - `method`: the correlation ("corr"), the cosine, or a correlation of ranks ("rho-a" and "tau-a" treat
        ties by chance).

    **Raises:** `ValueError` if one is not a symmetric matrix, is not of as many conditions as the other or
    of fewer than three, or all dissimilarities are the same (all zero, for the cosine);
    `ImportError` if rsatoolbox is missing.
    """
    check_choice("method", method, ("corr", "cosine", "spearman", "rho-a", "tau-a"))
    rdm = optional("rsatoolbox.rdm")
    given = []
    for name, matrix in (("first", first), ("second", second)):
        values = finite_float64(name, matrix)
        if values.ndim != 2 or values.shape != values.T.shape or not _symmetric(values):
            raise ValueError(f"`{name}` must be a symmetric matrix, got shape {values.shape}: {values}.")
        above = values[np.triu_indices(len(values), 1)]
        if above.size < 3 or (np.all(above == 0) if method == "cosine" else np.ptp(above) == 0):
            raise ValueError(
                f"`{name}` must be dissimilarities of three conditions or more that differ, got {values}."
            )
        given.append(rdm.RDMs(above[None]))
    if len(first) != len(second):
        raise ValueError(
            f"`second` must be of the {len(first)} conditions of `first`, got shape {second.shape}."
        )
    return float(np.squeeze(rdm.compare(*given, method=method)))


def _symmetric(values: Float[np.ndarray, "condition condition"]) -> bool:
    return bool(np.abs(values - values.T).max() <= 1e-6 * np.abs(values).max())


def _matrix(means: Float[np.ndarray, "condition unit"], method: str) -> np.ndarray:
    dataset = optional("rsatoolbox.data").Dataset(means)
    return optional("rsatoolbox.rdm").calc_rdm(dataset, method=method).get_matrices()[0]
