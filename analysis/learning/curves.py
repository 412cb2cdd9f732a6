"""Learning curves: rates, times to a criterion and savings."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Key

from popsim._shared.checks import check_finite, warn_caller
from popsim.analysis import _arrays
from popsim.analysis._arrays import AnyArray, Batches, MemberCourses
from popsim.analysis.statistics.intervals import PairedComparison, geometric_mean_interval, paired_comparison

__all__ = [
    "finite_members",
    "LearningCurve",
    "learning_curve",
    "moving_average",
    "time_to_criterion",
    "ExponentialFit",
    "fit_exponential",
    "Savings",
    "savings_in_rate",
    "savings_in_time",
]


def ascending_batches(batch: AnyArray, n_rows: int, *, fewest: int = 1) -> Float[np.ndarray, " batch"]:
    """Return the batch numbers in float64."""
    batches = _arrays.finite_float64("batch", batch)
    if batches.shape != (n_rows,) or n_rows < fewest or np.any(np.diff(batches) <= 0):
        raise ValueError(
            f"`batch` must be {fewest} ascending numbers or more, one for each of {n_rows} rows, "
            f"got shape {batches.shape}."
        )
    return batches


def finite_members(loss: MemberCourses) -> Float[np.ndarray, "batch finite_member"]:
    """Return the losses of the members whose losses are finite in all batches.

    **Arguments:**

    - `loss`: the total loss of each member, above zero, such as `run.history.total_loss.values`.
    """
    values = _arrays.as_float64("loss", loss)
    dims = getattr(loss, "dims", ("batch", "member"))
    if values.ndim != 2 or dims[-1] != "member":
        raise ValueError(f"`loss` must have axes (batch, member), got shape {values.shape}, axes {dims}.")
    finite = values[:, np.isfinite(values).all(axis=0)]
    if finite.size == 0:
        raise ValueError(f"`loss` must be finite in a member, got {values.shape[1]} that are not.")
    if not np.all(finite > 0):
        raise ValueError(f"`loss` must be above zero, got {finite.min()}.")
    return finite


class LearningCurve(NamedTuple):
    """The geometric mean over members of a loss, with its confidence interval.

    - `mean`: exp of the mean of ln loss over members, in the unit of the loss.
    - `n_members`: how many members have a finite loss at every batch; the others are left out.
    """

    mean: Float[np.ndarray, " batch"]
    low: Float[np.ndarray, " batch"]
    high: Float[np.ndarray, " batch"]
    n_members: int


def learning_curve(loss: MemberCourses, *, confidence: float = 0.95) -> LearningCurve:
    """Return the mean learning curve of a population with its confidence interval, batch by batch.

    The unit of replication is the member, see `popsim.analysis.statistics.geometric_mean_interval`. The
    interval holds for each batch separately, not for the whole curve.

    **Arguments:**

    - `loss`: of each member, such as `run.history.total_loss.values`; above zero.
    """
    finite = finite_members(loss)
    return LearningCurve(*geometric_mean_interval(finite.T, confidence=confidence), finite.shape[1])


def moving_average(values: MemberCourses, n_rows: int) -> Float[np.ndarray, "batch member"]:
    """Return the moving average of each row and the rows before it, at most `n_rows` together.

    The first rows average over the rows available. Rows are batches only if every batch was saved.
    """
    courses = _arrays.as_float64("values", values, "batch member")
    _arrays.check_within("n_rows", n_rows, 1, len(courses))
    ends = range(1, len(courses) + 1)
    return np.stack([courses[max(end - n_rows, 0) : end].mean(axis=0) for end in ends])


def time_to_criterion(
    loss: MemberCourses, batch: Batches, criterion: float, *, smoothed_over: int = 1
) -> Float[np.ndarray, " member"]:
    """Return the first batch from which the smoothed loss of each member stays at or below a criterion.

    NaN where the loss is above the criterion, or not finite, in the last row.

    **Arguments:**

    - `loss`: of each member, or the size of a deviation.
    - `smoothed_over`: the number of rows to average over, each with those before it.
    """
    check_finite("criterion", criterion)
    course = moving_average(_arrays.as_float64("loss", loss), smoothed_over)
    batches = ascending_batches(batch, len(course))
    is_good = course <= criterion
    stays_good = np.flip(np.logical_and.accumulate(np.flip(is_good, axis=0), axis=0), axis=0)
    first = np.argmax(stays_good, axis=0)
    return np.where(stays_good[-1], batches[first], np.nan)


class ExponentialFit(NamedTuple):
    """The fit y = asymptote + amplitude exp(-(batch - first_batch) / tau) of each member.

    All values are NaN for a member with a value that is not finite.

    - `asymptote`, `amplitude`: in the unit of the fitted values; the amplitude is that at the first batch.
    - `tau`: in batches; the learning rate is 1 / tau. NaN for constant values.
    - `residual`: the root mean square residual, in the unit of the fitted values.
    - `tau_error`: the standard error of tau over batches; infinite where the values do not determine tau.
    """

    asymptote: Float[np.ndarray, " member"]
    amplitude: Float[np.ndarray, " member"]
    tau: Float[np.ndarray, " member"]
    residual: Float[np.ndarray, " member"]
    tau_error: Float[np.ndarray, " member"]
    first_batch: float

    def at(self, batch: Batches) -> Float[np.ndarray, "batch member"]:
        """Return the fitted values at training batches."""
        since = np.asarray(batch)[:, None] - self.first_batch
        tau = np.where(np.isnan(self.tau), np.inf, self.tau)
        return self.asymptote + self.amplitude * np.exp(-since / tau)


def fit_exponential(values: MemberCourses, batch: Batches) -> ExponentialFit:
    """Fit an exponential to the values of each member by least squares.

    `scipy.optimize.least_squares` refines the best tau of a grid, from a quarter of the shortest step between
    batches to ten times the whole range; a tau at a bound means that the values are not exponential.
    """
    courses = _arrays.as_float64("values", values)
    batches = ascending_batches(batch, len(courses), fewest=4)
    fits = np.array([_fit_one(batches, course) for course in courses.T]).reshape(-1, 5).T
    return ExponentialFit(*fits, first_batch=float(batches[0]))


def _fit_one(batch: np.ndarray, course: np.ndarray) -> tuple[float, float, float, float, float]:
    from scipy.optimize import least_squares

    if not np.isfinite(course).all():
        return np.nan, np.nan, np.nan, np.nan, np.nan
    if (scale := float(np.ptp(course))) == 0:
        return float(course[0]), 0.0, np.nan, 0.0, np.inf
    since = batch - batch[0]
    bounds = (np.log(np.diff(batch).min() / 4), np.log(10 * since[-1]))

    def linear_part(tau: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the design, and the least-squares asymptote and amplitude for this tau."""
        design = np.column_stack([np.ones(len(batch)), np.exp(-since / tau)])
        return design, np.linalg.lstsq(design, course, rcond=None)[0]

    def residuals(log_tau: np.ndarray) -> np.ndarray:
        design, linear = linear_part(np.exp(log_tau[0]))
        return (design @ linear - course) / scale

    grid = np.linspace(*bounds, 40)
    best = grid[np.argmin([np.sum(residuals(np.array([x])) ** 2) for x in grid])]
    step = grid[1] - grid[0]
    near = (max(best - step, bounds[0]), min(best + step, bounds[1]))
    optimum = least_squares(residuals, [np.mean(near)], bounds=near, xtol=1e-12, ftol=1e-14, gtol=1e-14)
    tau = float(np.exp(optimum.x[0]))
    design, (asymptote, amplitude) = linear_part(tau)
    squares = float(np.sum((scale * residuals(optimum.x)) ** 2))
    # The error is sqrt((J'J)^-1 s^2), with the residual variance s^2 of as many rows less three.
    slopes = np.column_stack([design, amplitude * design[:, 1] * since / tau**2])
    error = float(_arrays.standard_errors(slopes)[2] * np.sqrt(squares / (len(batch) - 3)))
    return float(asymptote), float(amplitude), tau, float(np.sqrt(squares / len(batch))), error


class Savings(NamedTuple):
    """The difference between two exposures, paired over members.

    - `first`, `second`: the measure in each exposure, per member.
    - `saved`: how much faster the second exposure is, per member; negative where it is slower.
    - `n_members`: the number of members with a finite value in both exposures; only these are compared.
    """

    first: Float[np.ndarray, " member"]
    second: Float[np.ndarray, " member"]
    saved: Float[np.ndarray, " member"]
    n_members: int
    comparison: PairedComparison

    def __repr__(self) -> str:
        return f"Savings(n_members={self.n_members} of {len(self.saved)}, saved: {self.comparison!r})"


def savings_in_rate(
    first: MemberCourses,
    second: MemberCourses,
    batch: Batches,
    *,
    confidence: float = 0.95,
    key: Key[jax.Array, ""],
) -> Savings:
    """Compare the learning rates 1 / tau of two exposures; `saved` is the increase, per batch.

    The unit of replication is the member; `fit_exponential` gives the rate of each. Only members with a tau
    in both exposures are compared.

    **Arguments:**

    - `first`, `second`: the loss or the error in each exposure, with equal numbers of batches.
    - `batch`: of each row, since the exposure began.
    """
    rates = [
        1 / fit_exponential(_arrays.as_float64(name, course), batch).tau
        for name, course in (("first", first), ("second", second))
    ]
    return _compare(rates[0], rates[1], rates[1] - rates[0], confidence=confidence, key=key)


def savings_in_time(
    first: MemberCourses,
    second: MemberCourses,
    batch: Batches,
    criterion: float,
    *,
    smoothed_over: int = 1,
    confidence: float = 0.95,
    key: Key[jax.Array, ""],
) -> Savings:
    """Compare the times to a criterion in two exposures; `saved` is the decrease, in batches.

    The unit of replication is the member; only members that meet the criterion both times are compared. A
    time is that from which a member stays at the criterion; there is a warning if the times until members
    first meet it differ in the other direction.

    **Arguments:**

    - `first`, `second`: the loss or the error in each exposure, with equal numbers of batches.
    - `batch`: of each row, since the exposure began.
    - `criterion`, `smoothed_over`: as for `time_to_criterion`.
    """
    courses = {
        name: moving_average(_arrays.as_float64(name, course), smoothed_over)
        for name, course in (("first", first), ("second", second))
    }
    times = [time_to_criterion(course, batch, criterion) for course in courses.values()]
    saved = times[0] - times[1]
    savings = _compare(times[0], times[1], saved, confidence=confidence, key=key)
    is_good = {name: course <= criterion for name, course in courses.items()}
    _warn_of_crossing_back(is_good, np.asarray(batch), saved)
    return savings


def _warn_of_crossing_back(
    is_good: Mapping[str, Bool[np.ndarray, "batch member"]],
    batch: Batches,
    saved: Float[np.ndarray, " member"],
) -> None:
    times = [batch[np.argmax(course, axis=0)] for course in is_good.values()]
    is_compared = np.isfinite(saved)
    at_first, for_good = (values[is_compared].mean() for values in (times[0] - times[1], saved))
    if at_first * for_good >= 0:
        return
    counts = {
        name: (course[:-1] & ~course[1:])[:, is_compared].any(axis=0).sum()
        for name, course in is_good.items()
    }
    warn_caller(
        f"the courses of {counts['first']} members in `first` and of {counts['second']} in `second`, of "
        f"{is_compared.sum()}, cross the criterion back: they stay at it {for_good:+.3g} batches sooner in "
        f"`second`, but first meet it {at_first:+.3g} batches sooner. Choose another criterion, or more rows "
        "in `smoothed_over`."
    )


def _compare(
    first: np.ndarray, second: np.ndarray, saved: np.ndarray, *, confidence: float, key: Key[jax.Array, ""]
) -> Savings:
    finite = saved[np.isfinite(saved)]
    comparison = paired_comparison(np.zeros(finite.size), finite, confidence=confidence, key=key)
    return Savings(first, second, saved, finite.size, comparison)
