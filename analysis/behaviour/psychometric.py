"""How steeply choices depend on the evidence: psychometric curves fitted to them."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.analysis.behaviour.binomial_fit import fit_binomial, is_separated
from popsim.analysis.behaviour.probit import probit_share


class PsychometricFit(NamedTuple):
    """P(right) = Phi(bias + sum_j slope_j coherence_j), Phi the cumulative standard normal distribution.

    The errors are standard errors over trials, of the expected Fisher information of the fitted curve.

    - `bias`, `bias_error`: the probit of P(right) without evidence.
    - `slopes`, `slope_errors`: per unit of coherence.
    """

    bias: Float[np.ndarray, "*axes"]
    slopes: Float[np.ndarray, "*axes stream"]
    bias_error: Float[np.ndarray, "*axes"]
    slope_errors: Float[np.ndarray, "*axes stream"]

    def share_right(self, coherences: Float[AnyArray, "trial stream"]) -> Float[np.ndarray, "*axes trial"]:
        """P(right) at coherences, of the curve of each member."""
        return probit_share(_probits(self, coherences), 0.0)


class LapsingPsychometricFit(NamedTuple):
    """P(right) = lapse / 2 + (1 - lapse) Phi(bias + sum_j slope_j coherence_j).

    - `curve`: bias and slopes with their errors, see `PsychometricFit`.
    - `lapse`, `lapse_error`: the share of trials in which the choice is a fair guess. The error is that of
        an estimate within its bounds: at 0 it means little.
    """

    curve: PsychometricFit
    lapse: Float[np.ndarray, "*axes"]
    lapse_error: Float[np.ndarray, "*axes"]

    def share_right(self, coherences: Float[AnyArray, "trial stream"]) -> Float[np.ndarray, "*axes trial"]:
        """P(right) at coherences, of the curve of each member."""
        return probit_share(_probits(self.curve, coherences), self.lapse[..., None])


def fit_psychometric(
    coherences: Float[AnyArray, "trial stream"], chose_right: Bool[AnyArray, "*axes trial"]
) -> PsychometricFit:
    """The most likely psychometric curve of each member: a probit regression.

    The unit of replication is the trial: errors say how sure the curve of a member is, not how much members
    differ. Choices that are all the same have a flat curve of infinite bias. Where evidence foretells every
    choice no finite curve is the most likely: bias and slopes are NaN. Errors are infinite in both cases.

    **Arguments:**

    - `coherences`: signed, of each trial and each stream of evidence; `coherence[:, None]` of one stream.
    - `chose_right`: whether the choice for positive coherences was made, with leading axes such as (member).

    **Raises:** `ValueError` if `coherences` is not finite, there are not as many choices, or no member
    could tell slopes from the bias, as all coherences are alike.
    """
    design, choices = _checked(coherences, chose_right)
    fits = [_fit_one(design, own, with_lapse=False) for own in choices.reshape(-1, choices.shape[-1])]
    return _stacked(fits, choices.shape[:-1], design.shape[1])


def fit_psychometric_with_lapses(
    coherences: Float[AnyArray, "trial stream"], chose_right: Bool[AnyArray, "*axes trial"]
) -> LapsingPsychometricFit:
    """The most likely psychometric curve with a share of lapses, from 0 to 1/2, of each member.

    Lapses that are not allowed for make a curve too flat (Wichmann & Hill 2001, Percept Psychophys
    63:1293-1313); they are told from a flat curve only by trials of strong evidence.

    **Arguments:** as for `fit_psychometric`.

    **Raises:** as `fit_psychometric`.
    """
    design, choices = _checked(coherences, chose_right)
    fits = [_fit_one(design, own, with_lapse=True) for own in choices.reshape(-1, choices.shape[-1])]
    without = [(values[:-1], errors[:-1]) for values, errors in fits]
    lapse, error = (np.array([fit[i][-1] for fit in fits]).reshape(choices.shape[:-1]) for i in (0, 1))
    return LapsingPsychometricFit(_stacked(without, choices.shape[:-1], design.shape[1]), lapse, error)


def _probits(
    curve: PsychometricFit, coherences: Float[AnyArray, "trial stream"]
) -> Float[np.ndarray, "*axes trial"]:
    return curve.bias[..., None] + curve.slopes @ finite_float64("coherences", coherences).T


def _checked(coherences: AnyArray, chose_right: AnyArray) -> tuple[np.ndarray, np.ndarray]:
    """The predictors [trial, 1 + stream] and the choices [*axes, trial]."""
    signed, choices = finite_float64("coherences", coherences), np.asarray(chose_right)
    if choices.shape[-1] != signed.shape[0]:
        raise ValueError(f"`chose_right` must end with {signed.shape[0]} trials, got shape {choices.shape}.")
    design = np.column_stack([np.ones(signed.shape[0]), signed])
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise ValueError("`coherences` must differ between trials, and streams not go with each other.")
    return design, choices


def _fit_one(design: np.ndarray, chose_right: np.ndarray, *, with_lapse: bool) -> tuple[Any, Any]:
    """Bias, slopes and perhaps the lapse, and their errors."""
    rows, which = np.unique(design, axis=0, return_inverse=True)
    n_trials = np.bincount(which.ravel()).astype(np.float64)
    n_right = np.bincount(which.ravel(), weights=chose_right)
    n_values = design.shape[1] + with_lapse
    if is_separated(rows, n_trials, n_right):
        values = np.full(n_values, np.nan)
        if (total := n_right.sum()) in (0, n_trials.sum()):
            values[: design.shape[1]] = [np.inf if total else -np.inf, *np.zeros(design.shape[1] - 1)]
        return values, np.full(n_values, np.inf)
    return fit_binomial(rows, n_trials, n_right, with_lapse=with_lapse)


def _stacked(fits: list[tuple[Any, Any]], axes: tuple[int, ...], n_columns: int) -> PsychometricFit:
    values, errors = (np.array([fit[i] for fit in fits]).reshape(*axes, n_columns) for i in (0, 1))
    return PsychometricFit(values[..., 0], values[..., 1:], errors[..., 0], errors[..., 1:])
