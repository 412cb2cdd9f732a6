"""The two-state model of motor adaptation."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from popsim.analysis._arrays import AnyArray, as_float64, finite_float64

__all__ = ["TwoStateParameters", "TwoStateTimeCourse", "simulate_two_states", "TwoStateFit", "fit_two_states"]


class TwoStateParameters(NamedTuple):
    """The parameters of the two processes, for each member or for one.

    - `fast_retention`, `slow_retention`: A, the share of a state retained from trial to trial.
    - `fast_learning`, `slow_learning`: B, the share of the error learned in a trial.
    """

    fast_retention: Float[np.ndarray, "*member"]
    fast_learning: Float[np.ndarray, "*member"]
    slow_retention: Float[np.ndarray, "*member"]
    slow_learning: Float[np.ndarray, "*member"]


class TwoStateTimeCourse(NamedTuple):
    """The states in each trial, before learning from it, in the unit of the perturbation.

    Row n is the state in trial n, counted from 0; one more row holds the state after the last trial.

    - `fast`, `slow`: the states of the two processes.
    - `adaptation`: their sum, which is observed.
    """

    fast: Float[np.ndarray, "state ..."]
    slow: Float[np.ndarray, "state ..."]
    adaptation: Float[np.ndarray, "state ..."]


def simulate_two_states(
    parameters: TwoStateParameters,
    perturbation: Float[AnyArray, " trial"],
    is_error_clamp: Bool[AnyArray, " trial"],
) -> TwoStateTimeCourse:
    """Simulate the adaptation of the two processes to a protocol, starting from zero.

        e(n) = f(n) - x(n), 0 in an error clamp;  x(n) = x_f(n) + x_s(n)
        x_f(n + 1) = A_f x_f(n) + B_f e(n);       x_s(n + 1) = A_s x_s(n) + B_s e(n)

    The model is that of Smith, Ghazizadeh & Shadmehr 2006, PLoS Biol 4:e179, as in `twoRateModel` of the R
    package SMCL, with estimates of A_f = 0.59, B_f = 0.21, A_s = 0.992, B_s = 0.02 (figure 1 of PMC2585408).

    **Arguments:**

    - `perturbation`: f of each trial, such as 1 in a field, -1 in the reversed field, 0 without a field.
    - `is_error_clamp`: whether each trial is without error, as in a force channel.
    """
    world, clamped = finite_float64("perturbation", perturbation, "trial"), np.asarray(is_error_clamp)
    keep_fast, learn_fast, keep_slow, learn_slow = (
        np.asarray(rates, np.float64) for rates in np.broadcast_arrays(*parameters)
    )
    fast, slow = [np.zeros(keep_fast.shape)], [np.zeros(keep_fast.shape)]
    for force, is_clamp in zip(world.tolist(), clamped.tolist(), strict=True):
        error = 0.0 if is_clamp else force - fast[-1] - slow[-1]
        fast.append(keep_fast * fast[-1] + learn_fast * error)
        slow.append(keep_slow * slow[-1] + learn_slow * error)
    return TwoStateTimeCourse(np.array(fast), np.array(slow), np.array(fast) + np.array(slow))


STARTS = ((0.6, 0.2, 0.99, 0.02), (0.8, 0.1, 0.999, 0.01), (0.3, 0.4, 0.95, 0.05), (0.9, 0.05, 0.98, 0.002))


class TwoStateFit(NamedTuple):
    """The least-squares fit of the model to each member.

    All values are NaN for a member with fewer than five measurements.

    - `residual`: the root mean square residual over trials, in the unit of the adaptation.
    - `explained`: the share of the variance over trials explained, at most 1; NaN where nothing varies.
    """

    parameters: TwoStateParameters
    residual: Float[np.ndarray, " member"]
    explained: Float[np.ndarray, " member"]


def fit_two_states(
    adaptation: Float[AnyArray, "trial member"],
    perturbation: Float[AnyArray, " trial"],
    is_error_clamp: Bool[AnyArray, " trial"],
) -> TwoStateFit:
    """Fit the two-state model to each member, by `scipy.optimize.least_squares` from four starts.

    All are from 0 to 1, the fast retention below the slow one, and the slow learning below the fast one.
    Trials without a measurement may be NaN. Without reversal, two states are hardly told from one.

    **Arguments:**

    - `adaptation`: of each trial and member, such as the adaptation index, in the unit of `perturbation`.
    - `perturbation`, `is_error_clamp`: the protocol, see `simulate_two_states`.
    """
    world = finite_float64("perturbation", perturbation, "trial")
    measured = as_float64("adaptation", adaptation, f"trial={world.size} member")
    clamped = np.asarray(is_error_clamp)
    fits = [_fit_one(course, world, clamped) for course in measured.T]
    parameters = TwoStateParameters(*np.array([values for values, _ in fits]).T)
    residual = np.array([error for _, error in fits])
    varied = np.array(
        [course[np.isfinite(course)].var() if np.isfinite(course).any() else 0.0 for course in measured.T]
    )
    return TwoStateFit(parameters, residual, 1 - residual**2 / np.where(varied > 0, varied, np.nan))


def _fit_one(measured: np.ndarray, world: np.ndarray, clamped: np.ndarray) -> tuple[np.ndarray, float]:
    from scipy.optimize import least_squares

    is_measured = np.isfinite(measured)
    if is_measured.sum() < 5:
        return np.full(4, np.nan), np.nan

    def residuals(free: np.ndarray) -> np.ndarray:
        course = simulate_two_states(_ordered_parameters(free), world, clamped).adaptation[:-1]
        return (course - measured)[is_measured]

    def jacobian(free: np.ndarray) -> np.ndarray:
        """Return forward differences, from one simulation."""
        steps = 1e-7 * np.where(free > 0.5, -1.0, 1.0)
        moved = _ordered_parameters(free[:, None] + np.column_stack([np.zeros(4), np.diag(steps)]))
        courses = simulate_two_states(moved, world, clamped).adaptation[:-1][is_measured]
        return (courses[:, 1:] - courses[:, :1]) / steps

    starts = [_free(np.array(start)) for start in STARTS]
    fits = [
        least_squares(
            residuals,
            start,
            jacobian,  # pyright: ignore[reportArgumentType]  # scipy annotates only names
            bounds=(0.0, 1.0),
            xtol=1e-10,
        )
        for start in starts
    ]
    best = min(fits, key=lambda fit: fit.cost)
    return np.array(_ordered_parameters(best.x)), float(np.sqrt(2 * best.cost / is_measured.sum()))


def _ordered_parameters(free: np.ndarray) -> TwoStateParameters:
    """Map (slow retention, fast / slow retention, fast learning, slow / fast learning) to the parameters."""
    slow_retention, retained, fast_learning, learned = free
    return TwoStateParameters(
        slow_retention * retained, fast_learning, slow_retention, fast_learning * learned
    )


def _free(start: np.ndarray) -> np.ndarray:
    fast_retention, fast_learning, slow_retention, slow_learning = start
    return np.array(
        [slow_retention, fast_retention / slow_retention, fast_learning, slow_learning / fast_learning]
    )
