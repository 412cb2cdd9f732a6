"""Principal and demixed components, dimensionality and alignment of subspaces."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int, Key

from popsim._shared.checks import check_non_negative
from popsim.analysis import _arrays
from popsim.analysis._arrays import Activity, AnyArray, Labels
from popsim.analysis.neural_activity.preprocessing import average_by_factors, marginalize

__all__ = [
    "PrincipalComponents",
    "principal_components",
    "participation_ratio",
    "n_components_for",
    "alignment_index",
    "random_alignment",
    "DemixedComponents",
    "demixed_components",
]


Covariances = Float[np.ndarray, "member unit unit"]
Components = Float[np.ndarray, "member component unit"]


class PrincipalComponents(NamedTuple):
    """The principal components of each member's activity, in order of decreasing variance.

    - `components`: unit vectors, each with the sign that makes the sum of its cubed projections positive.
    - `variance`: variance of each projection over trials and times, in squared units of the activity.
    - `explained`: share of the total variance; NaN without variance.
    - `projections`: activity minus its mean, projected on each component.
    """

    mean: Float[np.ndarray, "member unit"]
    components: Components
    variance: Float[np.ndarray, "member component"]
    explained: Float[np.ndarray, "member component"]
    projections: Float[np.ndarray, "member trial time component"]

    def project(self, activity: Activity) -> Float[np.ndarray, "member trial time component"]:
        """Project other activity of the same units, such as another epoch, on these components."""
        values = _arrays.as_activity("activity", activity) - self.mean[:, None, None]
        return np.einsum("mrtu,mcu->mrtc", values, self.components)


def principal_components(activity: Activity, *, n_components: int | None = None) -> PrincipalComponents:
    """Compute the principal components of each member's activity; trials and times are the samples.

    **Arguments:**

    - `n_components`: number of components kept. The default is the number of units, or of samples if fewer.
    """
    values = _arrays.as_activity("activity", activity)
    samples = _arrays.centred_samples_of_members(values)
    most = min(samples.shape[1:])
    n_kept = most if n_components is None else n_components
    _arrays.check_within("n_components", n_kept, 1, most)
    _, singular, components = np.linalg.svd(samples, full_matrices=False)
    variance = singular**2 / samples.shape[1]
    total = variance.sum(axis=1, keepdims=True)
    explained = variance / np.where(total > 0, total, np.nan)
    components = components[:, :n_kept]
    projections = samples @ components.mT
    factors = _arrays.sign_factors(projections, axis=1)
    components, projections = components * factors.mT, projections * factors
    return PrincipalComponents(
        values.mean(axis=(1, 2)),
        components,
        variance[:, :n_kept],
        explained[:, :n_kept],
        projections.reshape(*values.shape[:3], n_kept),
    )


def participation_ratio(activity: Activity) -> Float[np.ndarray, " member"]:
    """Return the dimension of the activity, (sum of v)^2 / (sum of v^2) over the principal variances v.

    It ranges from 1 to the number of units, and is NaN without variance. Few samples bias it downward. After
    Gao, Trautmann, Yu, Santhanam, Ryu, Shenoy & Ganguli 2017, bioRxiv 214262; the equation is as in the
    documentation of the package EffDim.
    """
    explained = principal_components(activity).explained
    return 1 / np.sum(explained**2, axis=1)


def n_components_for(activity: Activity, fraction: float) -> Int[np.ndarray, " member"]:
    """Return the number of principal components that together explain at least a share of the variance."""
    _arrays.check_between_0_and_1("fraction", fraction)
    explained = principal_components(activity).explained
    if n_still := int(np.count_nonzero(np.isnan(explained[:, 0]))):
        raise ValueError(f"`activity` must vary in every member, got {n_still} in which it does not.")
    return 1 + np.sum(np.cumsum(explained, axis=1) < fraction - 1e-12, axis=1)


def alignment_index(
    first: Activity, second: Float[AnyArray, "member other_trial other_time unit"], *, n_components: int = 10
) -> Float[np.ndarray, " member"]:
    """Return the variance of one epoch in the subspace of another, as a share of the maximum possible.

    A = Tr(D^T C D) / (s_1 + ... + s_d), with D the first d = `n_components` principal components of the first
    epoch, and C and s the covariance of the second and its largest eigenvalues. 0 for orthogonal subspaces, 1
    for the same subspace. Elsayed, Lara, Kaufman, Churchland & Cunningham 2016, Nat Commun 7:13239, who
    subtract the mean over conditions from each epoch and soft-normalize the units; the equation is as in
    Bachschmid-Romano et al., "Interplay between external inputs and recurrent dynamics during movement
    preparation ...", eLife.
    """
    from_first, from_second = _covariances(first, second, n_components)
    directions = principal_components(first, n_components=n_components).components.mT
    captured = _captured_variance(directions, from_second)
    return captured / _most_captured(from_second, n_components)


def random_alignment(
    first: Activity,
    second: Float[AnyArray, "member other_trial other_time unit"],
    *,
    n_components: int = 10,
    n_draws: int = 1000,
    key: Key[jax.Array, ""],
) -> Float[np.ndarray, "draw member"]:
    """Return the `alignment_index` of random subspaces drawn from the space of both epochs.

    Each random direction is normal with the covariance of both epochs together, as in Elsayed et al. 2016
    (checked against the authors' code, github.com/gamaleldin/rand_subspaces).
    """
    from_first, from_second = _covariances(first, second, n_components)
    power, directions = np.linalg.eigh(from_first + from_second)
    root = directions * np.sqrt(np.maximum(power, 0.0))[:, None]
    generator = _arrays.numpy_generator(key)
    draws = []
    for _ in range(n_draws):
        random = root @ generator.standard_normal((*power.shape, n_components))
        draws.append(_captured_variance(np.linalg.qr(random)[0], from_second))
    return np.stack(draws) / _most_captured(from_second, n_components)


def _covariances(first: AnyArray, second: AnyArray, n_components: int) -> tuple[Covariances, Covariances]:
    epochs = [_arrays.as_activity("first", first), _arrays.as_activity("second", second)]
    sizes = [(epoch.shape[0], epoch.shape[-1]) for epoch in epochs]
    if sizes[0] != sizes[1]:
        raise ValueError(f"`second` must have the members and units of `first`, {sizes[0]}, got {sizes[1]}.")
    _arrays.check_within("n_components", n_components, 1, sizes[0][1])
    samples = [_arrays.centred_samples_of_members(epoch) for epoch in epochs]
    first_covariance, second_covariance = (sample.mT @ sample / sample.shape[1] for sample in samples)
    if not np.all(np.trace(second_covariance, axis1=1, axis2=2) > 0):
        raise ValueError("`second` must vary in every member.")
    least = (
        np.array([_arrays.least_singular_value(activity) for activity in epochs[0]]) ** 2
        / samples[0].shape[1]
    )
    n_varied = np.count_nonzero(np.linalg.eigvalsh(first_covariance) > least[:, None], axis=1)
    if np.any(n_varied < n_components):
        raise ValueError(
            f"`first` must vary in {n_components} dimensions, `n_components`, or more in every member, "
            f"got {n_varied.tolist()}."
        )
    return first_covariance, second_covariance


def _captured_variance(
    directions: Float[np.ndarray, "member unit component"], covariance: Covariances
) -> Float[np.ndarray, " member"]:
    return np.sum(directions * (covariance @ directions), axis=(1, 2))


def _most_captured(covariance: Covariances, n_components: int) -> Float[np.ndarray, " member"]:
    return np.sum(np.linalg.eigvalsh(covariance)[:, -n_components:], axis=1)


class DemixedComponents(NamedTuple):
    """The demixed components of one part of the activity, such as the part that depends on direction.

    - `encoder`: unit vector of each component's contribution; the sum of cubed projections is positive.
    - `decoder`: weights that read each component from the units.
    - `projections`: mean activity, minus the mean of each unit, read by each decoder.
    - `explained`: share of the total variance that each component explains.
    - `explained_by_part`: that share split over all parts of the activity.
    - `fraction`: share of the part in the total variance.
    """

    encoder: Components
    decoder: Components
    projections: Float[np.ndarray, "member *levels time component"]
    explained: Float[np.ndarray, "member component"]
    explained_by_part: dict[str, Float[np.ndarray, "member component"]]
    fraction: Float[np.ndarray, " member"]


def demixed_components(
    activity: Activity, factors: Mapping[str, Labels], *, n_components: int = 3, regularization: float = 1e-3
) -> dict[str, DemixedComponents]:
    """Compute demixed principal components of each member's mean activity.

    For each part X_p of the activity X (see `marginalize`), the encoder F and decoder D, of rank
    `n_components`, minimise |X_p - F D X|^2 + (regularization |X|)^2 |F D|^2: a reduced-rank regression of
    the part on the whole. Kobak, Brendel, Constantinidis, Feierstein, Kepecs, Mainen, Qi, Romo, Uchida &
    Machens 2016, eLife 5:e10989 (tested against their dPCA 1.0.5, with `regularization` / |X|).

    **Arguments:**

    - `activity`: activity of the units; trials with the same levels of all factors are averaged.
    - `factors`: level of each trial per factor.

    **Returns:** the components of each part: "time", which all conditions share, each factor, and
        interactions such as "direction x distance".
    """
    check_non_negative("regularization", regularization)
    mean = average_by_factors(activity, factors)
    n_units = mean.shape[-1]
    _arrays.check_within("n_components", n_components, 1, n_units)
    parts = {
        name: part.reshape(len(mean), -1, n_units) for name, part in marginalize(mean, tuple(factors)).items()
    }
    total = np.sum(list(parts.values()), axis=0)
    power = np.sum(total**2, axis=(1, 2))
    if n_still := int(np.count_nonzero(power == 0)):
        raise ValueError(f"`activity` must vary in every member, got {n_still} in which it does not.")
    penalty = np.sqrt(power)[:, None, None] * regularization * np.eye(n_units)
    augmented = np.concatenate([total, penalty], axis=1)
    inverse = np.linalg.pinv(augmented)
    demixed = {}
    for name, part in parts.items():
        regression = inverse[..., : total.shape[1]] @ part
        _, _, directions = np.linalg.svd(augmented @ regression, full_matrices=False)
        encoder = directions[:, :n_components]
        decoder = encoder @ regression.mT
        read = total @ decoder.mT
        signs = _arrays.sign_factors(read, axis=1)
        encoder, decoder = (weights * signs.mT for weights in (encoder, decoder))
        projections = (read * signs).reshape(*mean.shape[:-1], n_components)
        by_part = {}
        for other, values in parts.items():
            # (|X_p|^2 - |X_p - f d X_p|^2) / |X|^2, with f of length 1
            read, along = values @ decoder.mT, values @ encoder.mT
            by_part[other] = np.sum(2 * read * along - read**2, axis=1) / power[:, None]
        explained = np.sum(list(by_part.values()), axis=0)
        fraction = np.sum(part**2, axis=(1, 2)) / power
        demixed[name] = DemixedComponents(encoder, decoder, projections, explained, by_part, fraction)
    return demixed
