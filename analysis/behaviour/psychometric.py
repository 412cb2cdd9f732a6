"""How steeply choices depend on the evidence: psychometric curves fitted to them."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.analysis.behaviour.binomial_fit import fit_binomial, is_separated
from popsim.analysis.behaviour.probit import probit_share


class PsychometricFit(NamedTuple):
    """P(right) = Phi(bias + sum_j slope_j coherence_j), Phi the cumulative standard normal distribution.

    The errors are standard errors over trials, of the expected Fisher information of the fitted curve.

    - `bias`, `bias_error`: the probit of P(right) without evidence.
    - `slopes`, `slope_errors`: per unit of coherence, 1 / unit: the unit is that of the coherences that were
        fitted, such as a share from -1 to 1, or per cent.
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
    - `lapse`, `lapse_error`: the share of trials in which the choice is a fair guess, from 0 to 1/2. Where
        it is found at one of both bounds its error is NaN, and those of the curve are for this lapse.
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

    - `coherences`: signed, of each trial and each stream of evidence, in any unit; `coherence[:, None]` of
        one stream.
    - `chose_right`: whether the choice for positive coherences was made, with leading axes such as (member).

    **Raises:** `ValueError` if `coherences` is not finite, there are not as many choices, or no member
    could tell slopes from the bias, as all coherences are alike.
    """
    fits, axes = _fits(coherences, chose_right, with_lapse=False)
    return _stacked(fits, axes)


def fit_psychometric_with_lapses(
    coherences: Float[AnyArray, "trial stream"], chose_right: Bool[AnyArray, "*axes trial"]
) -> LapsingPsychometricFit:
    """The most likely psychometric curve with a share of lapses, from 0 to 1/2, of each member.

    Lapses that are not allowed for make a curve too flat (Wichmann & Hill 2001, Percept Psychophys
    63:1293-1313); they are told from a flat curve only by trials of strong evidence. A member that guesses in
    more than half of its trials, such as one that was not trained, gets a lapse of 1/2.

    **Arguments:** as for `fit_psychometric`.

    **Raises:** as `fit_psychometric`.
    """
    fits, axes = _fits(coherences, chose_right, with_lapse=True)
    without = [(values[:-1], errors[:-1]) for values, errors in fits]
    lapse, error = (np.array([fit[i][-1] for fit in fits]).reshape(axes) for i in (0, 1))
    return LapsingPsychometricFit(_stacked(without, axes), lapse, error)


def _probits(
    curve: PsychometricFit, coherences: Float[AnyArray, "trial stream"]
) -> Float[np.ndarray, "*axes trial"]:
    return curve.bias[..., None] + curve.slopes @ finite_float64("coherences", coherences).T


def _fits(
    coherences: AnyArray, chose_right: AnyArray, *, with_lapse: bool
) -> tuple[list[tuple[np.ndarray, np.ndarray]], tuple[int, ...]]:
    """The values and errors of each fit, and the leading axes of the choices.

    Fitted are coherences in their largest ones, whatever their unit is.
    """
    signed, choices = finite_float64("coherences", coherences), np.asarray(chose_right)
    if choices.shape[-1] != signed.shape[0]:
        raise ValueError(f"`chose_right` must end with {signed.shape[0]} trials, got shape {choices.shape}.")
    largest = np.abs(signed).max(axis=0)
    largest = np.where(largest > 0, largest, 1.0)
    design = np.column_stack([np.ones(signed.shape[0]), signed / largest])
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise ValueError("`coherences` must differ between trials, and streams not go with each other.")
    units = np.array([1.0, *largest] + [1.0] * with_lapse)
    rows, which = np.unique(design, axis=0, return_inverse=True)
    fits = [
        _fit_one(rows, which.ravel(), own, with_lapse=with_lapse)
        for own in choices.reshape(-1, choices.shape[-1])
    ]
    return [(values / units, errors / units) for values, errors in fits], choices.shape[:-1]


def _fit_one(
    rows: np.ndarray, which: np.ndarray, chose_right: np.ndarray, *, with_lapse: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Bias, slopes and perhaps the lapse, and their errors."""
    n_trials = np.bincount(which).astype(np.float64)
    n_right = np.bincount(which, weights=chose_right)
    n_columns = rows.shape[1]
    if is_separated(rows, n_trials, n_right):
        values = np.full(n_columns + with_lapse, np.nan)
        if (total := n_right.sum()) in (0, n_trials.sum()):
            values[:n_columns] = [np.inf if total else -np.inf, *np.zeros(n_columns - 1)]
        return values, np.full(n_columns + with_lapse, np.inf)
    return fit_binomial(rows, n_trials, n_right, with_lapse=with_lapse)


def _stacked(fits: list[tuple[np.ndarray, np.ndarray]], axes: tuple[int, ...]) -> PsychometricFit:
    values, errors = (np.array([fit[i] for fit in fits]) for i in (0, 1))
    values, errors = (own.reshape(*axes, own.shape[-1]) for own in (values, errors))
    return PsychometricFit(values[..., 0], values[..., 1:], errors[..., 0], errors[..., 1:])
