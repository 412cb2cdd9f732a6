"""How fast each member learned, and to where: an exponential fitted to its loss."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from popsim.analysis.arrays import AnyArray
from popsim.analysis.learning.training_batches import ascending_batches
from popsim.analysis.standard_errors import standard_errors


class ExponentialFit(NamedTuple):
    """y = asymptote + amplitude exp(-(batch - first_batch) / tau), for each member.

    All are NaN for a member that has no course, as a number of it is not finite.

    - `asymptote`, `amplitude`: in the unit of what was fitted; the amplitude is that at the first batch.
    - `tau`: in batches; the learning rate is 1 / tau. NaN of a course that never changes.
    - `residual`: the root mean square of what is not fitted, in the unit of what was fitted.
    - `tau_error`: the standard error of tau over batches, as if residuals were independent; infinite where
        the course does not tell tau.
    - `first_batch`: the number of the first batch that was fitted, for all members.
    """

    asymptote: Float[np.ndarray, " member"]
    amplitude: Float[np.ndarray, " member"]
    tau: Float[np.ndarray, " member"]
    residual: Float[np.ndarray, " member"]
    tau_error: Float[np.ndarray, " member"]
    first_batch: float

    def at(self, batch: Int[AnyArray, " batch"]) -> Float[np.ndarray, "batch member"]:
        """The fitted courses at training batches."""
        since = np.asarray(batch)[:, None] - self.first_batch
        tau = np.where(np.isnan(self.tau), np.inf, self.tau)
        return self.asymptote + self.amplitude * np.exp(-since / tau)


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

    **Raises:** `ValueError` if there are fewer than four rows, or not as many finite, ascending batches.
    """
    courses = np.asarray(values, np.float64)
    batches = ascending_batches(batch, len(courses), fewest=4)
    fits = np.array([_fit_one(batches, course) for course in courses.T]).reshape(-1, 5).T
    return ExponentialFit(*fits, first_batch=float(batches[0]))


def _fit_one(batch: np.ndarray, course: np.ndarray) -> tuple[float, float, float, float, float]:
    from scipy.optimize import least_squares

    if not np.isfinite(course).all():
        return np.nan, np.nan, np.nan, np.nan, np.nan
    if (scale := float(np.ptp(course))) == 0:
        return float(course[0]), 0.0, np.nan, 0.0, np.inf
    span = batch[-1] - batch[0]
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
    root_mean_square = float(np.sqrt(np.mean(left**2)))
    return asymptote, amplitude, tau, root_mean_square, _tau_error(batch, amplitude, tau, left)


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
    error = standard_errors(slopes)[2]
    return float(error * np.sqrt(np.sum(left**2) / (len(batch) - 3)))
