"""Fits of psychometric curves by maximum likelihood."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from popsim.analysis._arrays import AnyArray, Evidence, check_axes, finite_float64, standard_errors

__all__ = ["PsychometricFit", "LapsingPsychometricFit", "fit_psychometric", "fit_psychometric_with_lapses"]

Design = Float[np.ndarray, "condition column"]
Counts = Float[np.ndarray, " condition"]
Values = Float[np.ndarray, " value"]

HIGHEST_LAPSE = 0.5
START_LAPSE = 0.02
LARGEST_LOGARITHM = 300.0  # of numbers whose squares do not overflow


class _Logarithms(NamedTuple):
    """ln p, ln (1 - p) and ln (dp / d eta) of the share p of right choices, and dp / d lapse."""

    right: np.ndarray
    left: np.ndarray
    slope: np.ndarray
    lapse_slope: np.ndarray


def _logarithms(eta: np.ndarray, lapse: np.ndarray | float) -> _Logarithms:
    """Return what follows from the probit and the lapse, accurate also where p is near zero or one."""
    from scipy.special import log_ndtr, ndtr

    with np.errstate(divide="ignore"):  # without lapses the guesses have a logarithm of -inf
        guess, attends = np.log(np.divide(lapse, 2)), np.log1p(-np.asarray(lapse))
    right, left = (np.logaddexp(guess, attends + log_ndtr(side)) for side in (eta, -eta))
    return _Logarithms(right, left, attends - eta**2 / 2 - np.log(2 * np.pi) / 2, 0.5 - ndtr(eta))


def _exponential(logarithm: np.ndarray) -> np.ndarray:
    return np.exp(np.minimum(logarithm, LARGEST_LOGARITHM))


def _fit_binomial(
    design: Design, n_trials: Counts, n_right: Counts, *, with_lapse: bool
) -> tuple[Values, Values]:
    """Return the weights of the columns, then the lapse if there is one, and their standard errors.

    With lapses there may be two maxima, so the search starts from a flat curve and again from the curve
    without lapses. Errors are from the expected information, sum_i n_i p_i' p_i'^T / (p_i (1 - p_i)).
    """
    start = np.zeros(design.shape[1])
    values = _most_likely(design, n_trials, n_right, start)
    if with_lapse:
        starts = [np.append(weights, START_LAPSE) for weights in (start, values)]
        candidates = [_most_likely(design, n_trials, n_right, weights) for weights in starts]
        values = min(candidates, key=lambda candidate: _cost(candidate, design, n_trials, n_right)[0])
    return values, _standard_errors(design, n_trials, values)


def _most_likely(design: Design, n_trials: Counts, n_right: Counts, start: Values) -> Values:
    from scipy.optimize import minimize

    bounds = [(-np.inf, np.inf)] * design.shape[1] + [(0.0, HIGHEST_LAPSE)]
    low, high = np.array(bounds[: start.size]).T
    optimum = minimize(
        _cost,
        start,
        args=(design, n_trials, n_right),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds[: start.size],
        options={"ftol": 0.0, "gtol": 1e-10, "maxiter": 2000, "maxfun": 20000},
    )
    is_held = ((optimum.x <= low) & (optimum.jac > 0)) | ((optimum.x >= high) & (optimum.jac < 0))
    if not np.all(np.abs(np.where(is_held, 0.0, optimum.jac)) < 1e-5):
        raise ValueError(f"`chose_right` must have a most likely curve, none was found: {optimum.message}.")
    return optimum.x


def _lapse_of(values: Values, design: Design) -> float:
    return float(values[-1]) if values.size > design.shape[1] else 0.0


def _cost(values: Values, design: Design, n_trials: Counts, n_right: Counts) -> tuple[float, Values]:
    n_columns, n_left, total = design.shape[1], n_trials - n_right, n_trials.sum()
    logs = _logarithms(design @ values[:n_columns], _lapse_of(values, design))
    pull = n_right * _exponential(logs.slope - logs.right) - n_left * _exponential(logs.slope - logs.left)
    gradient = design.T @ pull
    if values.size > n_columns:
        pull = n_right * _exponential(-logs.right) - n_left * _exponential(-logs.left)
        gradient = np.append(gradient, pull @ logs.lapse_slope)
    return -float(n_right @ logs.right + n_left @ logs.left) / total, -gradient / total


def _standard_errors(design: Design, n_trials: Counts, values: Values) -> Values:
    """Return the roots of the diagonal of (R'R)^-1; the rows of R are n^1/2 p' / (p (1 - p))^1/2."""
    lapse, n_columns = _lapse_of(values, design), design.shape[1]
    logs = _logarithms(design @ values[:n_columns], lapse)
    log_spread = (logs.right + logs.left) / 2
    rows = _exponential(logs.slope - log_spread)[:, None] * design
    if 0 < lapse < HIGHEST_LAPSE:
        rows = np.column_stack([rows, _exponential(-log_spread) * logs.lapse_slope])
    errors = np.full(values.size, np.nan)
    errors[: rows.shape[1]] = standard_errors(np.sqrt(n_trials)[:, None] * rows)
    return errors


def _is_separated(design: Design, n_trials: Counts, n_right: Counts) -> bool:
    """Return whether some weights contradict no choice, so that no finite weights are the most likely.

    The choices s_i = +-1 are separated if w exists with s_i w.x_i >= 0 for all i and > 0 for one (Albert &
    Anderson 1984, Biometrika 71:1-10, as in the SURVEYLOGISTIC documentation of SAS/STAT): a linear program.
    """
    from scipy.optimize import linprog

    signed = np.concatenate([design[n_right > 0], -design[n_right < n_trials]])
    program = linprog(-signed.sum(axis=0), A_ub=-signed, b_ub=np.zeros(len(signed)), bounds=(-1, 1))
    return bool(program.status == 0 and -program.fun > 1e-7)


class PsychometricFit(NamedTuple):
    """The curve P(right) = Phi(bias + sum_j slope_j coherence_j), Phi the standard normal distribution.

    The errors are standard errors over trials, from the expected Fisher information of the fitted curve.

    - `bias`, `bias_error`: the probit of P(right) without evidence.
    - `slopes`, `slope_errors`: per unit of coherence, in the inverse of the unit of the fitted coherences,
        such as a share from -1 to 1, or per cent.
    """

    bias: Float[np.ndarray, "*axes"]
    slopes: Float[np.ndarray, "*axes stream"]
    bias_error: Float[np.ndarray, "*axes"]
    slope_errors: Float[np.ndarray, "*axes stream"]

    def share_right(self, coherences: Evidence) -> Float[np.ndarray, "*axes trial"]:
        """Return P(right) at the given coherences, for each member."""
        return np.exp(_logarithms(_probits(self, coherences), 0.0).right)


class LapsingPsychometricFit(NamedTuple):
    """The curve P(right) = lapse / 2 + (1 - lapse) Phi(bias + sum_j slope_j coherence_j).

    - `lapse`, `lapse_error`: the share of trials in which the choice is a fair guess, from 0 to 1/2. If it is
        estimated at a bound, its error is NaN, and the errors of the curve are conditional on it.
    """

    curve: PsychometricFit
    lapse: Float[np.ndarray, "*axes"]
    lapse_error: Float[np.ndarray, "*axes"]

    def share_right(self, coherences: Evidence) -> Float[np.ndarray, "*axes trial"]:
        """Return P(right) at the given coherences, for each member."""
        return np.exp(_logarithms(_probits(self.curve, coherences), self.lapse[..., None]).right)


def fit_psychometric(coherences: Evidence, chose_right: Bool[AnyArray, "*axes trial"]) -> PsychometricFit:
    """Fit the psychometric curve of each member by maximum likelihood: a probit regression.

    The unit of replication is the trial. If all choices are the same, the curve is flat with infinite bias;
    if the evidence predicts every choice, bias and slopes are NaN. Errors are infinite in both cases.

    **Arguments:**

    - `coherences`: signed, of each trial and stream of evidence, in any unit; `[:, None]` for one stream.
    - `chose_right`: whether the choice for positive coherences was made, with leading axes such as (member).
    """
    return _curve(*_fits(coherences, chose_right, with_lapse=False))


def fit_psychometric_with_lapses(
    coherences: Evidence, chose_right: Bool[AnyArray, "*axes trial"]
) -> LapsingPsychometricFit:
    """Fit the psychometric curve of each member with a lapse rate from 0 to 1/2, by maximum likelihood.

    Ignoring lapses makes the fitted curve too flat (Wichmann & Hill 2001, Percept Psychophys 63:1293-1313).
    Only trials with strong evidence distinguish lapses from a flat curve.

    **Arguments:** as for `fit_psychometric`.
    """
    values, errors = _fits(coherences, chose_right, with_lapse=True)
    return LapsingPsychometricFit(
        _curve(values[..., :-1], errors[..., :-1]), values[..., -1], errors[..., -1]
    )


def _curve(values: np.ndarray, errors: np.ndarray) -> PsychometricFit:
    return PsychometricFit(values[..., 0], values[..., 1:], errors[..., 0], errors[..., 1:])


def _probits(curve: PsychometricFit, coherences: Evidence) -> Float[np.ndarray, "*axes trial"]:
    return curve.bias[..., None] + curve.slopes @ finite_float64("coherences", coherences).T


def _fits(
    coherences: AnyArray, chose_right: AnyArray, *, with_lapse: bool
) -> tuple[Float[np.ndarray, "*axes value"], Float[np.ndarray, "*axes value"]]:
    signed, choices = finite_float64("coherences", coherences, "trial stream"), np.asarray(chose_right)
    check_axes("chose_right", choices, f"... trial={len(signed)}")
    # the fit must not depend on the unit of the coherences
    largest = np.abs(signed).max(axis=0)
    largest = np.where(largest > 0, largest, 1.0)
    design = np.column_stack([np.ones(signed.shape[0]), signed / largest])
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise ValueError("`coherences` must differ between trials, and streams not go with each other.")
    units = np.array([1.0, *largest] + [1.0] * with_lapse)
    rows, row_of_trial = np.unique(design, axis=0, return_inverse=True)
    fits = [
        _fit_one(rows, row_of_trial.ravel(), made_choices, with_lapse=with_lapse)
        for made_choices in choices.reshape(-1, choices.shape[-1])
    ]
    values, errors = np.stack(fits, axis=1) / units
    return values.reshape(*choices.shape[:-1], -1), errors.reshape(*choices.shape[:-1], -1)


def _fit_one(
    rows: np.ndarray, row_of_trial: np.ndarray, chose_right: np.ndarray, *, with_lapse: bool
) -> tuple[np.ndarray, np.ndarray]:
    n_trials = np.bincount(row_of_trial).astype(np.float64)
    n_right = np.bincount(row_of_trial, weights=chose_right)
    n_columns = rows.shape[1]
    if _is_separated(rows, n_trials, n_right):
        values = np.full(n_columns + with_lapse, np.nan)
        if (total := n_right.sum()) in (0, n_trials.sum()):
            values[:n_columns] = [np.inf if total else -np.inf, *np.zeros(n_columns - 1)]
        return values, np.full(n_columns + with_lapse, np.inf)
    return _fit_binomial(rows, n_trials, n_right, with_lapse=with_lapse)
