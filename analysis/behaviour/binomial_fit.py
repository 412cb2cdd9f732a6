"""The most likely probit curve, with or without lapses, of counts of choices."""

import numpy as np
from jaxtyping import Float

from popsim.analysis.behaviour.probit import lapse_slopes, log_share_slopes, log_shares
from popsim.analysis.standard_errors import standard_errors

HIGHEST_LAPSE = 0.5
START_LAPSE = 0.02
LARGEST_LOGARITHM = 300.0


def fit_binomial(
    design: Float[np.ndarray, "condition column"],
    n_trials: Float[np.ndarray, " condition"],
    n_right: Float[np.ndarray, " condition"],
    *,
    with_lapse: bool,
) -> tuple[Float[np.ndarray, " value"], Float[np.ndarray, " value"]]:
    """The weights of the columns, then the lapse if there is one, and their standard errors.

    The likelihood is maximised by L-BFGS-B with its gradient. Lapses may have two maxima: it is begun from a
    flat curve, and then from the curve without lapses. Errors are of the expected information,
    I = sum_i n_i p_i' p_i'^T / (p_i (1 - p_i)). Where the most likely lapse is 0 or the highest one, its
    error is NaN, and the others are those of curves of this lapse.

    **Arguments:**

    - `design`: the predictors, each with a size of about one.
    - `n_trials`, `n_right`: of each condition, and in how many of them the choice was right.
    - `with_lapse`: whether there may be lapses.

    **Raises:** `ValueError` if the maximum is not found.
    """
    start = np.zeros(design.shape[1])
    values = _most_likely(design, n_trials, n_right, start)
    if with_lapse:
        starts = [np.append(weights, START_LAPSE) for weights in (start, values)]
        found = [_most_likely(design, n_trials, n_right, own) for own in starts]
        values = min(found, key=lambda own: _cost(own, design, n_trials, n_right)[0])
    return values, _standard_errors(design, n_trials, values)


def _most_likely(
    design: np.ndarray, n_trials: np.ndarray, n_right: np.ndarray, start: np.ndarray
) -> Float[np.ndarray, " value"]:
    from scipy.optimize import minimize

    n_columns = design.shape[1]
    low = np.array([-np.inf] * n_columns + [0.0] * (start.size - n_columns))
    high = np.array([np.inf] * n_columns + [HIGHEST_LAPSE] * (start.size - n_columns))
    options = {"ftol": 0.0, "gtol": 1e-10, "maxiter": 2000, "maxfun": 20000}
    found = minimize(
        _cost,
        start,
        args=(design, n_trials, n_right),
        jac=True,
        method="L-BFGS-B",
        bounds=np.column_stack([low, high]),
        options=options,
    )
    is_held = ((found.x <= low) & (found.jac > 0)) | ((found.x >= high) & (found.jac < 0))
    if not np.all(np.abs(np.where(is_held, 0.0, found.jac)) < 1e-5):
        raise ValueError(f"`chose_right` must have a most likely curve, none was found: {found.message}.")
    return found.x


def _lapse_of(values: np.ndarray, design: np.ndarray) -> float:
    return float(values[-1]) if values.size > design.shape[1] else 0.0


def _cost(
    values: np.ndarray, design: np.ndarray, n_trials: np.ndarray, n_right: np.ndarray
) -> tuple[float, Float[np.ndarray, " value"]]:
    """Minus the mean log likelihood of a trial, and its gradient."""
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
    """Of what may be too large to be squared."""
    return np.exp(np.minimum(logarithm, LARGEST_LOGARITHM))


def _standard_errors(
    design: np.ndarray, n_trials: np.ndarray, values: np.ndarray
) -> Float[np.ndarray, " value"]:
    """Roots of the diagonal of the inverse of R'R, the rows of R being n^1/2 p' / (p (1 - p))^1/2."""
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


def is_separated(
    design: Float[np.ndarray, "condition column"],
    n_trials: Float[np.ndarray, " condition"],
    n_right: Float[np.ndarray, " condition"],
) -> bool:
    """Whether some weights foretell every choice, so that no finite ones are the most likely.

    It is so if w exists with s_i w.x_i >= 0 for all choices s_i = +-1, and > 0 for one (Albert & Anderson
    1984, Biometrika 71:1-10, cited from memory): a linear program.
    """
    from scipy.optimize import linprog

    signed = np.concatenate([design[n_right > 0], -design[n_right < n_trials]])
    found = linprog(-signed.sum(axis=0), A_ub=-signed, b_ub=np.zeros(len(signed)), bounds=(-1, 1))
    return bool(found.status == 0 and -found.fun > 1e-7)
