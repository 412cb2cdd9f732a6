"""Fits of psychometric curves by maximum likelihood."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from popsim.analysis._arrays import AnyArray, Evidence, finite_float64, standard_errors

__all__ = ["PsychometricFit", "LapsingPsychometricFit", "fit_psychometric", "fit_psychometric_with_lapses"]

Numbers = Float[np.ndarray, "..."]


Design = Float[np.ndarray, "condition column"]
Counts = Float[np.ndarray, " condition"]


def probit_share(eta: Numbers, lapse: Numbers | float) -> Numbers:
    """Return the probability p of choosing right."""
    from scipy.special import ndtr

    return np.asarray(lapse / 2 + (1 - lapse) * ndtr(eta))


def log_shares(eta: Numbers, lapse: float) -> tuple[Numbers, Numbers]:
    """Return ln p and ln (1 - p), accurate also where either is near zero."""
    from scipy.special import log_ndtr

    if lapse == 0:
        return np.asarray(log_ndtr(eta)), np.asarray(log_ndtr(-eta))
    guess = np.log(lapse / 2)
    log_right, log_left = (np.logaddexp(guess, np.log1p(-lapse) + log_ndtr(side)) for side in (eta, -eta))
    return log_right, log_left


def log_share_slopes(eta: Numbers, lapse: float) -> Numbers:
    """Return ln (dp / d eta), accurate also where p is near zero or one."""
    return np.log1p(-lapse) - eta**2 / 2 - np.log(2 * np.pi) / 2


def lapse_slopes(eta: Numbers) -> Numbers:
    """Return dp / d lapse."""
    from scipy.special import ndtr

    return 0.5 - np.asarray(ndtr(eta))


HIGHEST_LAPSE = 0.5
START_LAPSE = 0.02
LARGEST_LOGARITHM = 300.0


def fit_binomial(
    design: Design, n_trials: Counts, n_right: Counts, *, with_lapse: bool
) -> tuple[Float[np.ndarray, " value"], Float[np.ndarray, " value"]]:
    """Return the weights of the columns, then the lapse if there is one, and their standard errors.

    L-BFGS-B maximises the likelihood with its gradient. With lapses there may be two maxima, so the search
    starts from a flat curve and again from the curve without lapses. Standard errors come from the expected
    information, I = sum_i n_i p_i' p_i'^T / (p_i (1 - p_i)). If the estimated lapse is 0 or the upper bound,
    its error is NaN, and the other errors are conditional on that lapse.

    **Arguments:**

    - `design`: the predictors, each scaled to about one.
    - `n_trials`, `n_right`: of each condition, the number of trials and of right choices.
    - `with_lapse`: whether to fit a lapse.
    """
    start = np.zeros(design.shape[1])
    values = _most_likely(design, n_trials, n_right, start)
    if with_lapse:
        starts = [np.append(weights, START_LAPSE) for weights in (start, values)]
        candidates = [_most_likely(design, n_trials, n_right, weights) for weights in starts]
        values = min(candidates, key=lambda candidate: _cost(candidate, design, n_trials, n_right)[0])
    return values, _standard_errors(design, n_trials, values)


def _most_likely(
    design: np.ndarray, n_trials: np.ndarray, n_right: np.ndarray, start: np.ndarray
) -> Float[np.ndarray, " value"]:
    from scipy.optimize import minimize

    n_columns = design.shape[1]
    low = np.array([-np.inf] * n_columns + [0.0] * (start.size - n_columns))
    high = np.array([np.inf] * n_columns + [HIGHEST_LAPSE] * (start.size - n_columns))
    options = {"ftol": 0.0, "gtol": 1e-10, "maxiter": 2000, "maxfun": 20000}
    optimum = minimize(
        _cost,
        start,
        args=(design, n_trials, n_right),
        jac=True,
        method="L-BFGS-B",
        bounds=np.column_stack([low, high]),
        options=options,
    )
    is_held = ((optimum.x <= low) & (optimum.jac > 0)) | ((optimum.x >= high) & (optimum.jac < 0))
    if not np.all(np.abs(np.where(is_held, 0.0, optimum.jac)) < 1e-5):
        raise ValueError(f"`chose_right` must have a most likely curve, none was found: {optimum.message}.")
    return optimum.x


def _lapse_of(values: np.ndarray, design: np.ndarray) -> float:
    return float(values[-1]) if values.size > design.shape[1] else 0.0


def _cost(
    values: np.ndarray, design: np.ndarray, n_trials: np.ndarray, n_right: np.ndarray
) -> tuple[float, Float[np.ndarray, " value"]]:
    """Return minus the mean log likelihood of a trial, and its gradient."""
    lapse, n_left, total = _lapse_of(values, design), n_trials - n_right, n_trials.sum()
    eta = design @ values[: design.shape[1]]
    log_right, log_left = log_shares(eta, lapse)
    log_slope = log_share_slopes(eta, lapse)
    pull = n_right * _exponential(log_slope - log_right) - n_left * _exponential(log_slope - log_left)
    gradient = design.T @ pull
    if values.size > design.shape[1]:
        pull = n_right * _exponential(-log_right) - n_left * _exponential(-log_left)
        gradient = np.append(gradient, pull @ lapse_slopes(eta))
    likelihood = n_right @ log_right + n_left @ log_left
    return -float(likelihood) / total, -gradient / total


def _exponential(logarithm: np.ndarray) -> np.ndarray:
    """Return the exponential, bounded so that its square does not overflow."""
    return np.exp(np.minimum(logarithm, LARGEST_LOGARITHM))


def _standard_errors(
    design: np.ndarray, n_trials: np.ndarray, values: np.ndarray
) -> Float[np.ndarray, " value"]:
    """Return the roots of the diagonal of (R'R)^-1; the rows of R are n^1/2 p' / (p (1 - p))^1/2."""
    lapse, n_columns = _lapse_of(values, design), design.shape[1]
    eta = design @ values[:n_columns]
    log_right, log_left = log_shares(eta, lapse)
    log_spread = (log_right + log_left) / 2
    rows = _exponential(log_share_slopes(eta, lapse) - log_spread)[:, None] * design
    if 0 < lapse < HIGHEST_LAPSE:
        rows = np.column_stack([rows, _exponential(-log_spread) * lapse_slopes(eta)])
    rows = np.sqrt(n_trials)[:, None] * rows
    errors = np.full(values.size, np.nan)
    errors[: rows.shape[1]] = standard_errors(rows)
    return errors


def is_separated(design: Design, n_trials: Counts, n_right: Counts) -> bool:
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
        return probit_share(_probits(self, coherences), 0.0)


class LapsingPsychometricFit(NamedTuple):
    """The curve P(right) = lapse / 2 + (1 - lapse) Phi(bias + sum_j slope_j coherence_j).

    - `curve`: bias and slopes with their errors, see `PsychometricFit`.
    - `lapse`, `lapse_error`: the share of trials in which the choice is a fair guess, from 0 to 1/2. If it is
        estimated at a bound, its error is NaN, and the errors of the curve are conditional on it.
    """

    curve: PsychometricFit
    lapse: Float[np.ndarray, "*axes"]
    lapse_error: Float[np.ndarray, "*axes"]

    def share_right(self, coherences: Evidence) -> Float[np.ndarray, "*axes trial"]:
        """Return P(right) at the given coherences, for each member."""
        return probit_share(_probits(self.curve, coherences), self.lapse[..., None])


def fit_psychometric(coherences: Evidence, chose_right: Bool[AnyArray, "*axes trial"]) -> PsychometricFit:
    """Fit the psychometric curve of each member by maximum likelihood: a probit regression.

    The unit of replication is the trial: errors reflect the uncertainty of a member's curve, not the spread
    over members. If all choices are the same, the curve is flat with infinite bias. If the evidence predicts
    every choice, no finite curve is the most likely: bias and slopes are NaN. Errors are infinite in both
    cases.

    **Arguments:**

    - `coherences`: signed, of each trial and stream of evidence, in any unit; `coherence[:, None]` for one
        stream.
    - `chose_right`: whether the choice for positive coherences was made, with leading axes such as (member).
    """
    fits, axes = _fits(coherences, chose_right, with_lapse=False)
    return _stack_fits(fits, axes)


def fit_psychometric_with_lapses(
    coherences: Evidence, chose_right: Bool[AnyArray, "*axes trial"]
) -> LapsingPsychometricFit:
    """Fit the psychometric curve of each member with a lapse rate from 0 to 1/2, by maximum likelihood.

    Ignoring lapses makes the fitted curve too flat (Wichmann & Hill 2001, Percept Psychophys 63:1293-1313).
    Only trials with strong evidence distinguish lapses from a flat curve. A member that guesses in more than
    half of its trials, such as an untrained one, gets a lapse of 1/2.

    **Arguments:** as for `fit_psychometric`.
    """
    fits, axes = _fits(coherences, chose_right, with_lapse=True)
    without = [(values[:-1], errors[:-1]) for values, errors in fits]
    lapse, error = (np.array([fit[i][-1] for fit in fits]).reshape(axes) for i in (0, 1))
    return LapsingPsychometricFit(_stack_fits(without, axes), lapse, error)


def _probits(curve: PsychometricFit, coherences: Evidence) -> Float[np.ndarray, "*axes trial"]:
    return curve.bias[..., None] + curve.slopes @ finite_float64("coherences", coherences).T


def _fits(
    coherences: AnyArray, chose_right: AnyArray, *, with_lapse: bool
) -> tuple[list[tuple[np.ndarray, np.ndarray]], tuple[int, ...]]:
    """Return the values and errors of each fit, and the leading axes of the choices."""
    signed, choices = finite_float64("coherences", coherences), np.asarray(chose_right)
    if signed.ndim != 2 or choices.ndim < 1:
        raise ValueError(
            "`coherences` must have axes (trial, stream), of one stream coherence[:, None], and "
            f"`chose_right` (..., trial), got shapes {signed.shape} and {choices.shape}."
        )
    if choices.shape[-1] != signed.shape[0]:
        raise ValueError(f"`chose_right` must end with {signed.shape[0]} trials, got shape {choices.shape}.")
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
    return [(values / units, errors / units) for values, errors in fits], choices.shape[:-1]


def _fit_one(
    rows: np.ndarray, row_of_trial: np.ndarray, chose_right: np.ndarray, *, with_lapse: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return bias, slopes and the lapse if it is fitted, and their errors."""
    n_trials = np.bincount(row_of_trial).astype(np.float64)
    n_right = np.bincount(row_of_trial, weights=chose_right)
    n_columns = rows.shape[1]
    if is_separated(rows, n_trials, n_right):
        values = np.full(n_columns + with_lapse, np.nan)
        if (total := n_right.sum()) in (0, n_trials.sum()):
            values[:n_columns] = [np.inf if total else -np.inf, *np.zeros(n_columns - 1)]
        return values, np.full(n_columns + with_lapse, np.inf)
    return fit_binomial(rows, n_trials, n_right, with_lapse=with_lapse)


def _stack_fits(fits: list[tuple[np.ndarray, np.ndarray]], axes: tuple[int, ...]) -> PsychometricFit:
    values, errors = (np.array([fit[i] for fit in fits]) for i in (0, 1))
    values, errors = (numbers.reshape(*axes, numbers.shape[-1]) for numbers in (values, errors))
    return PsychometricFit(values[..., 0], values[..., 1:], errors[..., 0], errors[..., 1:])
