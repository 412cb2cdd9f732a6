"""The directions in which the activity of a population varies most."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray
from popsim.analysis.population.activity import population_activity
from popsim.analysis.samples import centred_samples_of_members


class PrincipalComponents(NamedTuple):
    """The principal components of each member's activity, those of the most variance first.

    - `mean`: of each unit over trials and times.
    - `components`: directions of length 1, the largest weight of each positive.
    - `variance`: of each projection over trials and times, in the unit of the activity squared.
    - `explained`: share of the whole variance; NaN where nothing varies.
    - `projections`: the activity minus its mean along each component.
    """

    mean: Float[np.ndarray, "member unit"]
    components: Float[np.ndarray, "member component unit"]
    variance: Float[np.ndarray, "member component"]
    explained: Float[np.ndarray, "member component"]
    projections: Float[np.ndarray, "member trial time component"]

    def project(
        self, activity: Float[AnyArray, "member trial time unit"]
    ) -> Float[np.ndarray, "member trial time component"]:
        """Other activity of the same units, such as that of another epoch, along these components."""
        values = population_activity("activity", activity) - self.mean[:, None, None]
        return np.einsum("mrtu,mcu->mrtc", values, self.components)


def principal_components(
    activity: Float[AnyArray, "member trial time unit"], *, n_components: int | None = None
) -> PrincipalComponents:
    """Principal component analysis of each member's activity; trials and times are the samples.

    **Arguments:**

    - `activity`: of the units.
    - `n_components`: how many are kept; by default as many as there are units, or samples if they are fewer.

    **Raises:** `ValueError` if the activity has other axes or is not finite, or there are not so many.
    """
    values = population_activity("activity", activity)
    samples = centred_samples_of_members(values)
    most = min(samples.shape[1:])
    n_kept = most if n_components is None else n_components
    if not 1 <= n_kept <= most:
        raise ValueError(f"`n_components` must be from 1 to {most}, got {n_components}.")
    _, singular, components = np.linalg.svd(samples, full_matrices=False)
    variance = singular**2 / samples.shape[1]
    total = variance.sum(axis=1, keepdims=True)
    explained = variance / np.where(total > 0, total, np.nan)
    components = _largest_weight_positive(components[:, :n_kept])
    projections = samples @ components.mT
    return PrincipalComponents(
        values.mean(axis=(1, 2)),
        components,
        variance[:, :n_kept],
        explained[:, :n_kept],
        projections.reshape(*values.shape[:3], n_kept),
    )


def _largest_weight_positive(
    components: Float[np.ndarray, "member component unit"],
) -> Float[np.ndarray, "member component unit"]:
    largest = np.argmax(np.abs(components), axis=-1, keepdims=True)
    return components * np.sign(np.take_along_axis(components, largest, axis=-1))
