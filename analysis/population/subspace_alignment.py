"""Whether the activity of two epochs takes up the same dimensions."""

import jax
import numpy as np
from jaxtyping import Float, Key

from popsim.analysis.arrays import AnyArray, numpy_generator
from popsim.analysis.population.activity import population_activity
from popsim.analysis.population.principal_components import principal_components
from popsim.analysis.samples import centred_samples_of_members, least_singular_value
from popsim.checks import check_positive_int


def alignment_index(
    first: Float[AnyArray, "member trial time unit"],
    second: Float[AnyArray, "member other_trial other_time unit"],
    *,
    n_components: int = 10,
) -> Float[np.ndarray, " member"]:
    """The variance of one epoch in the subspace of another, as a share of the most that fits in so many.

    A = Tr(D^T C D) / (s_1 + ... + s_d), with D the first d principal components of the first epoch, and C and
    s the covariance and its largest eigenvalues in the second. 0 for epochs in dimensions at right angles, 1
    in the same. Elsayed, Lara, Kaufman, Churchland & Cunningham 2016, Nat Commun 7:13239 (the equation is
    cited from memory), for preparation and movement, each with its mean over conditions subtracted and units
    soft-normalized.

    **Arguments:**

    - `first`: the activity that gives the subspace.
    - `second`: the activity whose variance is looked for in it, of the same units.
    - `n_components`: d, the number of dimensions.

    **Raises:** `ValueError` if the activity has other axes or is not finite, the two have not the same
        members and units, the first varies in fewer than `n_components` dimensions in a member (more than
        by the rounding of single precision), or the second never changes in a member.
    """
    from_first, from_second = _covariances(first, second, n_components)
    directions = principal_components(first, n_components=n_components).components.mT
    captured = _captured(directions, from_second)
    return captured / _most_captured(from_second, n_components)


def random_alignment(
    first: Float[AnyArray, "member trial time unit"],
    second: Float[AnyArray, "member other_trial other_time unit"],
    *,
    n_components: int = 10,
    n_draws: int = 1000,
    key: Key[jax.Array, ""],
) -> Float[np.ndarray, "draw member"]:
    """The `alignment_index` of random subspaces, drawn where both epochs have their activity.

    Each random direction is normal with the covariance of both epochs together, as in Elsayed et al. 2016
    (checked against the authors' code, github.com/gamaleldin/rand_subspaces). An index below nearly all of
    these says that the epochs avoid one another's dimensions.

    **Arguments:**

    - `first`, `second`, `n_components`: as for `alignment_index`.
    - `n_draws`: of random subspaces.
    - `key`: of the draws.

    **Raises:** `ValueError` as `alignment_index`, or if `n_draws` is not positive.
    """
    check_positive_int("n_draws", n_draws)
    from_first, from_second = _covariances(first, second, n_components)
    power, directions = np.linalg.eigh(from_first + from_second)
    root = directions * np.sqrt(np.maximum(power, 0.0))[:, None]
    generator = numpy_generator(key)
    draws = []
    for _ in range(n_draws):
        random = root @ generator.standard_normal((*power.shape, n_components))
        draws.append(_captured(np.linalg.qr(random)[0], from_second))
    return np.stack(draws) / _most_captured(from_second, n_components)


def _covariances(
    first: AnyArray, second: AnyArray, n_components: int
) -> tuple[Float[np.ndarray, "member unit unit"], Float[np.ndarray, "member unit unit"]]:
    epochs = [population_activity("first", first), population_activity("second", second)]
    sizes = [(epoch.shape[0], epoch.shape[-1]) for epoch in epochs]
    if sizes[0] != sizes[1]:
        raise ValueError(f"`second` must have the members and units of `first`, {sizes[0]}, got {sizes[1]}.")
    if not 1 <= n_components <= sizes[0][1]:
        raise ValueError(f"`n_components` must be from 1 to {sizes[0][1]}, the units, got {n_components}.")
    samples = [centred_samples_of_members(epoch) for epoch in epochs]
    of_first, of_second = (sample.mT @ sample / sample.shape[1] for sample in samples)
    if not np.all(np.trace(of_second, axis1=1, axis2=2) > 0):
        raise ValueError("`second` must vary in every member.")
    least = np.array([least_singular_value(own) for own in epochs[0]]) ** 2 / samples[0].shape[1]
    n_varied = np.count_nonzero(np.linalg.eigvalsh(of_first) > least[:, None], axis=1)
    if np.any(n_varied < n_components):
        raise ValueError(
            f"`first` must vary in {n_components} dimensions, `n_components`, or more in every member, "
            f"got {n_varied.tolist()}."
        )
    return of_first, of_second


def _captured(
    directions: Float[np.ndarray, "member unit component"], covariance: Float[np.ndarray, "member unit unit"]
) -> Float[np.ndarray, " member"]:
    return np.sum(directions * (covariance @ directions), axis=(1, 2))


def _most_captured(
    covariance: Float[np.ndarray, "member unit unit"], n_components: int
) -> Float[np.ndarray, " member"]:
    return np.sum(np.linalg.eigvalsh(covariance)[:, -n_components:], axis=1)
