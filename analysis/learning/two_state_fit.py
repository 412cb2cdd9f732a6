"""Which two-state model describes how members adapted."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.analysis.learning.two_state_model import TwoStateParameters, simulate_two_states

STARTS = ((0.6, 0.2, 0.99, 0.02), (0.8, 0.1, 0.999, 0.01), (0.3, 0.4, 0.95, 0.05), (0.9, 0.05, 0.98, 0.002))


class TwoStateFit(NamedTuple):
    """The model of least squares of each member.

    All are NaN for a member of which fewer than five numbers were measured.

    - `parameters`: see `TwoStateParameters`.
    - `residual`: the root mean square over trials of what is not fitted, in the unit of the adaptation.
    - `explained`: the share of the variance over trials that is, at most 1; NaN where nothing varies.
    """

    parameters: TwoStateParameters
    residual: Float[np.ndarray, " member"]
    explained: Float[np.ndarray, " member"]


def fit_two_states(
    adaptation: Float[AnyArray, "trial member"],
    perturbation: Float[AnyArray, " trial"],
    is_error_clamp: Bool[AnyArray, " trial"],
) -> TwoStateFit:
    """The two-state model of each member, by `scipy.optimize.least_squares` from four starts.

    The retentions are from 0 to 1, the fast one below the slow one, and the learning shares from 0 to 1,
    the slow one below the fast one. Trials in which nothing was measured may be NaN, such as those that are
    not in a channel. A protocol that never reverses hardly tells two states from one.

    **Arguments:**

    - `adaptation`: of each trial and member, such as the adaptation index, in the unit of `perturbation`.
    - `perturbation`, `is_error_clamp`: the protocol, see `simulate_two_states`.

    **Raises:** `ValueError` if no member has five numbers or more, or the protocol has other trials.
    """
    measured, world = np.asarray(adaptation, np.float64), finite_float64("perturbation", perturbation)
    if len(measured) != world.size:
        raise ValueError(f"`adaptation` must be of {world.size} trials, got shape {measured.shape}.")
    if (most := int(np.isfinite(measured).sum(axis=0).max(initial=0))) < 5:
        raise ValueError(f"`adaptation` must be five numbers of a member or more, got {most}.")
    clamped = np.asarray(is_error_clamp)
    fits = [_fit_one(own, world, clamped) for own in measured.T]
    parameters = TwoStateParameters(*np.array([own for own, _ in fits]).T)
    residual = np.array([left for _, left in fits])
    varied = np.array([own[np.isfinite(own)].var() if np.isfinite(own).any() else 0.0 for own in measured.T])
    return TwoStateFit(parameters, residual, 1 - residual**2 / np.where(varied > 0, varied, np.nan))


def _fit_one(measured: np.ndarray, world: np.ndarray, clamped: np.ndarray) -> tuple[np.ndarray, float]:
    """The parameters in order, and the root mean square of the residuals."""
    from scipy.optimize import least_squares

    known = np.isfinite(measured)
    if known.sum() < 5:
        return np.full(4, np.nan), np.nan

    def residuals(free: np.ndarray) -> np.ndarray:
        course = simulate_two_states(_ordered(free), world, clamped).adaptation[:-1]
        return (course - measured)[known]

    def jacobian(free: np.ndarray) -> np.ndarray:
        """Forward differences, all in one simulation."""
        steps = 1e-7 * np.where(free > 0.5, -1.0, 1.0)
        moved = _ordered(free[:, None] + np.column_stack([np.zeros(4), np.diag(steps)]))
        courses = simulate_two_states(moved, world, clamped).adaptation[:-1][known]
        return (courses[:, 1:] - courses[:, :1]) / steps

    starts = [_free(np.array(start)) for start in STARTS]
    fits = [
        least_squares(
            residuals,
            start,
            jacobian,  # pyright: ignore[reportArgumentType]  # scipy's annotation knows names only
            bounds=(0.0, 1.0),
            xtol=1e-10,
        )
        for start in starts
    ]
    best = min(fits, key=lambda fit: fit.cost)
    return np.array(_ordered(best.x)), float(np.sqrt(2 * best.cost / known.sum()))


def _ordered(free: np.ndarray) -> TwoStateParameters:
    """From numbers between 0 and 1: the slow retention, the share of it that is the fast one, the fast
    learning, the share of it that is the slow one."""
    slow_retention, retained, fast_learning, learned = free
    return TwoStateParameters(
        slow_retention * retained, fast_learning, slow_retention, fast_learning * learned
    )


def _free(start: np.ndarray) -> np.ndarray:
    """Undoes `_ordered`."""
    fast_retention, fast_learning, slow_retention, slow_learning = start
    return np.array(
        [slow_retention, fast_retention / slow_retention, fast_learning, slow_learning / fast_learning]
    )
