"""The most likely probit curve, with or without lapses, of counts of choices."""

import numpy as np
from jaxtyping import Float

from popsim.analysis.behaviour.probit import log_shares, probit_share, share_slopes

HIGHEST_LAPSE = 0.5
START_LAPSE = 0.02


def fit_binomial(
    design: Float[np.ndarray, "condition column"],
    n_trials: Float[np.ndarray, " condition"],
    n_right: Float[np.ndarray, " condition"],
    *,
    with_lapse: bool,
) -> tuple[Float[np.ndarray, " value"], Float[np.ndarray, " value"]]:
    """The weights of the columns, then the lapse if there is one, and their standard errors.

    The likelihood is maximised by L-BFGS-B with its gradient; errors are of the expected information,
    I = sum_i n_i p_i' p_i'^T / (p_i (1 - p_i)).

    **Raises:** `ValueError` if the maximum is not found.
    """
    from scipy.optimize import minimize

    n_columns, total = design.shape[1], n_trials.sum()

    def cost(values: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the mean log likelihood of a trial, and its gradient."""
        lapse = float(values[n_columns]) if with_lapse else 0.0
        eta = design @ values[:n_columns]
        log_right, log_left = log_shares(eta, lapse)
        by_eta, by_lapse = share_slopes(eta, lapse)
        pull = n_right / np.exp(log_right) - (n_trials - n_right) / np.exp(log_left)
        gradient = [*(design.T @ (pull * by_eta)), *([np.sum(pull * by_lapse)] if with_lapse else [])]
        likelihood = n_right @ log_right + (n_trials - n_right) @ log_left
        return -float(likelihood) / total, -np.array(gradient) / total

    start = np.array([0.0] * n_columns + [START_LAPSE] * with_lapse)
    bounds = [(None, None)] * n_columns + [(0.0, HIGHEST_LAPSE)] * with_lapse
    options = {"ftol": 0.0, "gtol": 1e-10, "maxiter": 2000, "maxfun": 20000}
    found = minimize(cost, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    slope = np.where((found.x == [low if low is not None else np.nan for low, _ in bounds]), 0.0, found.jac)
    if not np.all(np.abs(slope) < 1e-5):
        raise ValueError(f"`chose_right` must have a most likely curve, none was found: {found.message}.")
    return found.x, _standard_errors(design, n_trials, found.x, with_lapse=with_lapse)


def _standard_errors(
    design: np.ndarray, n_trials: np.ndarray, values: np.ndarray, *, with_lapse: bool
) -> Float[np.ndarray, " value"]:
    lapse = float(values[design.shape[1]]) if with_lapse else 0.0
    eta = design @ values[: design.shape[1]]
    by_eta, by_lapse = share_slopes(eta, lapse)
    share = probit_share(eta, lapse)
    slopes = by_eta[:, None] * design
    slopes = np.column_stack([slopes, by_lapse]) if with_lapse else slopes
    weights = n_trials / np.maximum(share * (1 - share), 1e-300)
    information = slopes.T @ (weights[:, None] * slopes)
    return np.sqrt(np.diag(np.linalg.inv(information)))


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
