"""How fast each member learned, and to where: an exponential fitted to its loss."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from popsim.analysis.arrays import AnyArray, finite_float64


class ExponentialFit(NamedTuple):
    """y = asymptote + amplitude exp(-batch / tau), for each member.

    - `asymptote`, `amplitude`: in the unit of what was fitted; the amplitude is that at batch 0.
    - `tau`: in batches; the learning rate is 1 / tau.
    - `residual`: the root mean square of what is not fitted, in the unit of what was fitted.
    - `tau_error`: the standard error of tau over batches, as if residuals were independent.
    """

    asymptote: Float[np.ndarray, " member"]
    amplitude: Float[np.ndarray, " member"]
    tau: Float[np.ndarray, " member"]
    residual: Float[np.ndarray, " member"]
    tau_error: Float[np.ndarray, " member"]

    def at(self, batch: Int[AnyArray, " batch"]) -> Float[np.ndarray, "batch member"]:
        """The fitted courses at training batches."""
        return self.asymptote + self.amplitude * np.exp(-np.asarray(batch)[:, None] / self.tau)


def fit_exponential(
    values: Float[AnyArray, "batch member"], batch: Int[AnyArray, " batch"]
) -> ExponentialFit:
    """The exponential of least squares of each member.

    For a given tau, asymptote and amplitude are linear; the best of a grid of taus, from the shortest way
    between batches to ten times the whole course, is refined by `scipy.optimize.least_squares`. A tau at the
    end of that range says that the course has no exponential. The loss as it is and not its logarithm is
    fitted: early batches count the most.

    **Arguments:**

    - `values`: the loss of each member, a deviation or an adaptation index, in any unit.
    - `batch`: the training batch of each row, ascending.

    **Raises:** `ValueError` if `values` is not finite, or there are fewer than four rows or not as many,
    ascending batches.
    """
    courses, batches = finite_float64("values", values), finite_float64("batch", batch)
    if len(courses) < 4 or batches.shape != courses.shape[:1] or np.any(np.diff(batches) <= 0):
        raise ValueError(
            f"`batch` must be four ascending numbers or more, one for each of {len(courses)} rows, "
            f"got shape {batches.shape}."
        )
    fits = np.array([_fit_one(batches, course) for course in courses.T]).T
    return ExponentialFit(*fits)


def _fit_one(batch: np.ndarray, course: np.ndarray) -> tuple[float, float, float, float, float]:
    from scipy.optimize import least_squares

    span, scale = batch[-1] - batch[0], max(float(np.ptp(course)), 1e-300)
    bounds = (np.log(np.diff(batch).min() / 4), np.log(10 * span))

    def residuals(log_tau: np.ndarray) -> np.ndarray:
        asymptote, amplitude = _linear_part(batch, course, np.exp(log_tau[0]))
        return (asymptote + amplitude * _decay(batch, np.exp(log_tau[0])) - course) / scale

    grid = np.linspace(*bounds, 40)
    best = grid[np.argmin([np.sum(residuals(np.array([x])) ** 2) for x in grid])]
    step = grid[1] - grid[0]
    near = (max(best - step, bounds[0]), min(best + step, bounds[1]))
    found = least_squares(residuals, [np.mean(near)], bounds=near, xtol=1e-12, ftol=1e-14, gtol=1e-14)
    tau = float(np.exp(found.x[0]))
    asymptote, amplitude = _linear_part(batch, course, tau)
    left = asymptote + amplitude * _decay(batch, tau) - course
    at_zero = amplitude * np.exp(min(batch[0] / tau, 700.0))
    return asymptote, at_zero, tau, float(np.sqrt(np.mean(left**2))), _tau_error(batch, amplitude, tau, left)


def _decay(batch: np.ndarray, tau: float) -> np.ndarray:
    """One at the first row."""
    return np.exp(-(batch - batch[0]) / tau)


def _linear_part(batch: np.ndarray, course: np.ndarray, tau: float) -> tuple[float, float]:
    """Asymptote, and amplitude at the first row, of least squares for this tau."""
    design = np.column_stack([np.ones(len(batch)), _decay(batch, tau)])
    asymptote, amplitude = np.linalg.lstsq(design, course, rcond=None)[0]
    return float(asymptote), float(amplitude)


def _tau_error(batch: np.ndarray, amplitude: float, tau: float, left: np.ndarray) -> float:
    """From the curvature of the sum of squares: sqrt((J'J)^-1 s²), s² of the rows less three."""
    decay = _decay(batch, tau)
    slopes = np.column_stack([np.ones(len(batch)), decay, amplitude * decay * (batch - batch[0]) / tau**2])
    information = slopes.T @ slopes
    if np.linalg.matrix_rank(information) < 3:
        return float("inf")
    variance = np.sum(left**2) / max(len(batch) - 3, 1)
    return float(np.sqrt(np.linalg.inv(information)[2, 2] * variance))
