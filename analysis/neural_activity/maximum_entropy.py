"""Test of rotations against random activity of maximum entropy."""

import dataclasses
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Key

from popsim.analysis._arrays import Activity, as_activity, numpy_generator, sign_factors
from popsim.analysis.neural_activity.rotational_dynamics import rotations

__all__ = ["MaximumEntropyActivity", "maximum_entropy_activity", "RotationTest", "rotation_test"]

Variances = Float[np.ndarray, "first second third"]


_SMALLEST = 1e-8
"""Variance, relative to the mean over directions, below which a direction counts as empty."""
_TOLERANCE = 1e-6
"""Relative error allowed for each variance to be matched."""
_MOST_STEPS = 300


@dataclasses.dataclass(frozen=True)
class MaximumEntropyActivity:
    """The maximum-entropy distribution of activity with given means and covariances.

    - `mean`: mean activity; its means over trials, times and units are those of the data.
    - `directions`: eigenvectors of the covariances over trials, times and units.
    - `deviation`: standard deviation along each combination of them.
    """

    mean: Float[np.ndarray, "member trial time unit"]
    directions: tuple[Float[np.ndarray, "member _ _"], ...]
    deviation: Float[np.ndarray, "member trial time unit"]

    def sample(self, *, key: Key[jax.Array, ""]) -> Float[np.ndarray, "member trial time unit"]:
        """Draw one random set of activity for each member."""
        return self.draw(numpy_generator(key))

    def draw(self, generator: np.random.Generator) -> Float[np.ndarray, "member trial time unit"]:
        """Draw as `sample` does, with a NumPy generator that advances with each draw."""
        independent = self.deviation * generator.standard_normal(self.deviation.shape)
        return self.mean + np.einsum("mabc,mra,mtb,muc->mrtu", independent, *self.directions, optimize=True)


def maximum_entropy_activity(activity: Activity) -> MaximumEntropyActivity:
    """Return the distribution with the means and covariances of the data over trials, times and units.

    Tensor maximum entropy: Elsayed & Cunningham 2017, Nat Neurosci 20:1310 (checked against the authors'
    code, github.com/gamaleldin/TME). The distribution is normal; its covariance has the eigenvalues
    1 / (a_i + b_j + c_k) along the products of the eigenvectors of the three covariances, with a, b and c
    such that their sums are the eigenvalues of the data. They minimise the convex function
    sum_i a_i A_i + sum_j b_j B_j + sum_k c_k C_k - sum_ijk log(a_i + b_j + c_k), here by Newton's method.

    **Raises:** `RuntimeError` if the covariances are not matched.
    """
    values = as_activity("activity", activity)
    residual = values
    for averaged_axes in ((1, 3), (1, 2), (2, 3)):  # order of the authors' code: times, units, trials
        residual = residual - residual.mean(axis=averaged_axes, keepdims=True)
    mean = values - residual
    fits = [_fit(residual) for residual in values - mean]
    directions = tuple(np.stack([fit[0][axis] for fit in fits]) for axis in range(3))
    return MaximumEntropyActivity(mean, directions, np.sqrt(np.stack([fit[1] for fit in fits])))


def _fit(
    residual: Float[np.ndarray, "trial time unit"],
) -> tuple[list[Float[np.ndarray, "_ _"]], Float[np.ndarray, "trial time unit"]]:
    """Return the eigenvectors of the three covariances and the variance along each combination of them."""
    total = np.sum(residual**2)
    directions, targets = [], []
    for axis in range(3):
        rows = np.moveaxis(residual, axis, 0).reshape(residual.shape[axis], -1)
        eigenvalues, eigenvectors = np.linalg.eigh(rows @ rows.T)
        # In units of the mean over directions, so that `_SMALLEST` does not depend on the scale of the
        # activity.
        fraction = eigenvalues[::-1] * residual.shape[axis] / max(total, np.finfo(float).tiny)
        spectrum = fraction[fraction > _SMALLEST]
        if spectrum.size == 0:
            raise ValueError("`activity` must vary over trials, times and units in every member.")
        directions.append(eigenvectors[:, ::-1] * sign_factors(eigenvectors[:, ::-1], axis=0))
        targets.append(spectrum / spectrum.sum())
    variance = np.zeros(residual.shape)
    variance[tuple(slice(target.size) for target in targets)] = total * _solve(targets)
    return directions, variance


def _solve(targets: list[Float[np.ndarray, " _"]]) -> Variances:
    """Return variances 1 / (a_i + b_j + c_k) whose sums over two axes are the targets, which sum to 1."""
    sizes = [target.size for target in targets]
    target_sums = np.concatenate(targets)
    multipliers = np.concatenate(
        # What each multiplier would be if the other two were zero. All are positive, so every sum is one of
        # which the logarithm exists.
        [np.prod(sizes) / size / target for size, target in zip(sizes, targets, strict=True)]
    )
    for _ in range(_MOST_STEPS):
        a, b, c = np.split(multipliers, np.cumsum(sizes)[:-1])
        variance = 1 / (a[:, None, None] + b[:, None] + c)
        gradient = target_sums - _marginals(variance)
        if np.max(np.abs(gradient) / target_sums) < _TOLERANCE:
            return variance
        step = _newton_step(gradient, variance**2, sizes)
        decrement = np.sqrt(max(gradient @ step, 0.0))
        # The function is self-concordant: a step of this length decreases it and leaves no sum negative. A
        # full one does so too once the decrement is small, and then converges quadratically.
        multipliers = multipliers - step / (1 + decrement if decrement > 0.25 else 1)
    raise RuntimeError(f"the covariances were not matched after {_MOST_STEPS} steps of Newton's method.")


def _marginals(variance: Variances) -> Float[np.ndarray, " _"]:
    return np.concatenate([variance.sum(axis=(1, 2)), variance.sum(axis=(0, 2)), variance.sum(axis=(0, 1))])


def _newton_step(
    gradient: Float[np.ndarray, " total"], squares: Variances, sizes: list[int]
) -> Float[np.ndarray, " total"]:
    first, second, third = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    diagonal = _marginals(squares)
    curvature = np.diag(diagonal)
    for rows, columns, axis in ((first, second, 2), (first, third, 1), (second, third, 0)):
        block = squares.sum(axis=axis)
        curvature[np.ix_(rows, columns)] = block
        curvature[np.ix_(columns, rows)] = block.T
    # Each multiplier is scaled by its own curvature, as these differ by many orders of magnitude.
    unit = 1 / np.sqrt(diagonal)
    curvature *= unit[:, None] * unit
    # A constant moved from one set of multipliers to another has no effect, so these directions are fixed.
    for indices, other_indices in ((first, second), (first, third)):
        shift = np.zeros(sum(sizes))
        shift[indices], shift[other_indices] = 1 / unit[indices], -1 / unit[other_indices]
        curvature += np.outer(shift, shift) / (shift @ shift)
    return unit * np.linalg.solve(curvature, unit * gradient)


class RotationTest(NamedTuple):
    """The fit of rotations to each member's activity, and to random activity with the same covariances.

    - `r2_skew`, `r2_full`: of the activity, see `Rotations`.
    - `random_r2_skew`, `random_r2_full`: of each set of random activity.
    - `p_skew`, `p_full`: share of random sets, including the data, with at least the r2 of the data.
    - `p_ratio`: the same for r2_skew / r2_full.
    """

    r2_skew: Float[np.ndarray, " member"]
    r2_full: Float[np.ndarray, " member"]
    random_r2_skew: Float[np.ndarray, "draw member"]
    random_r2_full: Float[np.ndarray, "draw member"]
    p_skew: Float[np.ndarray, " member"]
    p_full: Float[np.ndarray, " member"]
    p_ratio: Float[np.ndarray, " member"]


def rotation_test(
    activity: Activity, *, dt: float, n_components: int = 6, n_draws: int = 200, key: Key[jax.Array, ""]
) -> RotationTest:
    """Compare `rotations` of the activity with those of random activity of the same covariances.

    The random activity keeps only the means and covariances over times, units and trials (see
    `maximum_entropy_activity`). `p_ratio` is of the statistic of Michaels, Dann & Scherberger 2016, PLoS
    Comput Biol 12:e1005175. A p value is about one network: members are the unit of replication.

    **Arguments:**

    - `activity`, `dt`, `n_components`: as for `rotations`.
    - `n_draws`: number of random sets; the smallest p value is 1 / (n_draws + 1).
    """
    values = as_activity("activity", activity)
    fit = rotations(values, dt=dt, n_components=n_components)
    distribution, generator = maximum_entropy_activity(values), numpy_generator(key)
    skew, full = np.empty((2, n_draws, values.shape[0]))
    for draw in range(n_draws):
        random = rotations(distribution.draw(generator), dt=dt, n_components=n_components)
        skew[draw], full[draw] = random.r2_skew, random.r2_full
    return RotationTest(
        r2_skew=fit.r2_skew,
        r2_full=fit.r2_full,
        random_r2_skew=skew,
        random_r2_full=full,
        p_skew=_share_as_high(fit.r2_skew, skew),
        p_full=_share_as_high(fit.r2_full, full),
        p_ratio=_share_as_high(fit.r2_skew / fit.r2_full, skew / full),
    )


def _share_as_high(
    observed: Float[np.ndarray, " member"], random: Float[np.ndarray, "draw member"]
) -> Float[np.ndarray, " member"]:
    return (1 + np.sum(random >= observed, axis=0)) / (1 + len(random))
