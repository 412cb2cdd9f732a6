"""Communication between two areas: reduced-rank regression and its rank."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int, Key

from popsim._shared.checks import check_non_negative
from popsim.analysis._arrays import AnyArray, check_within, finite_float64, numpy_generator, sign_factors

__all__ = [
    "ReducedRankRegression",
    "reduced_rank_regression",
    "CommunicationSubspace",
    "communication_subspace",
]

Source = Float[AnyArray, "trial *time unit"]
Target = Float[AnyArray, "trial *time other"]


class ReducedRankRegression(NamedTuple):
    """A linear prediction of one area from another by weights of low rank: source @ weights + offset.

    - `weights`: in units of the target's activity per unit of the source's.
    - `offset`: in units of the target's activity.
    - `dimensions`: the predictive dimensions of the source, those that explain most of the target first. They
        span the communication subspace, and are not orthogonal in general. The sign of each makes the sum of
        the cubed projections positive.
    """

    weights: Float[np.ndarray, "unit other"]
    offset: Float[np.ndarray, " other"]
    dimensions: Float[np.ndarray, "unit rank"]

    def predict(self, source: Source) -> Float[np.ndarray, "trial *time other"]:
        """Predict the activity of the target from that of the source."""
        return finite_float64("source", source) @ self.weights + self.offset


def reduced_rank_regression(
    source: Source, target: Target, rank: int, *, ridge: float = 0.0
) -> ReducedRankRegression:
    """Predict the activity of one area from that of another by a matrix of weights of a given rank.

    The weights are B V V', where B is the least-squares or ridge solution for centred activity, and V the
    first principal components of the prediction X B. Without `ridge` these are the weights of that rank with
    the smallest squared error. Semedo, Zandvakili, Machens, Yu & Kohn 2019, Neuron 102:249-259; the equation
    is that of `ReducedRankRegress` in their package communication-subspace.

    **Arguments:**

    - `rank`: rank of the weights, from 0, which predicts the mean, to the smaller number of units.
    - `ridge`: added to the diagonal of the source's sum of squares and products, in squared units of its
        activity. 0 for least squares.
    """
    predictors, responses = _paired(source, target)
    check_within("rank", rank, 0, min(predictors.shape[-1], responses.shape[-1]))
    check_non_negative("ridge", ridge)
    x, y = (values.reshape(-1, values.shape[-1]) for values in (predictors, responses))
    full, patterns = _full_rank(x, y, ridge)
    return _truncate(x, y, full, patterns, rank)


class CommunicationSubspace(NamedTuple):
    """How well weights of each rank predict held-out activity, and those of the chosen rank.

    - `r2`: 1 - |error|^2 / |deviation from the mean|^2 over the units and samples of the held-out trials,
        the mean over folds; at most 1, and negative where the mean predicts better.
    - `standard_error`: of `r2`, over folds. Folds share trials to fit, so it is an approximation.
    - `chosen`: the smallest rank whose `r2` is within one standard error of the best.
    - `regression`: of that rank, fitted to all trials.
    """

    rank: Int[np.ndarray, " number"]
    r2: Float[np.ndarray, " number"]
    standard_error: Float[np.ndarray, " number"]
    chosen: int
    regression: ReducedRankRegression


def communication_subspace(
    source: Source,
    target: Target,
    *,
    max_rank: int | None = None,
    ridge: float = 0.0,
    n_folds: int = 10,
    key: Key[jax.Array, ""],
) -> CommunicationSubspace:
    """Return how many dimensions of one area's activity predict another area, by cross-validation.

    After Semedo, Zandvakili, Machens, Yu & Kohn 2019, Neuron 102:249-259; folds, standard error and choice
    are as in `example.m` and `ModelSelect` of their package communication-subspace. To see what trials share
    beyond the condition, subtract the mean of each condition first.

    **Arguments:**

    - `source`, `target`: activity of the units of two areas in the same trials, such as
        `hidden[0][..., network.unit_groups()["M1"]]`. Trials are held out whole, with all their times.
    - `max_rank`: the largest rank that is tried; by default the smaller number of units.
    - `n_folds`: number of folds, from 2 to half the number of trials.
    """
    predictors, responses = _paired(source, target)
    n_trials = len(predictors)
    smaller = min(predictors.shape[-1], responses.shape[-1])
    largest = smaller if max_rank is None else max_rank
    check_within("max_rank", largest, 1, smaller)
    check_non_negative("ridge", ridge)
    check_within("n_folds", n_folds, 2, n_trials // 2)
    ranks = np.arange(largest + 1)
    order = numpy_generator(key).permutation(n_trials)
    r2 = np.stack(
        [_held_out_r2(predictors, responses, fold, ranks, ridge) for fold in np.array_split(order, n_folds)]
    )
    mean, standard_error = r2.mean(axis=0), r2.std(axis=0, ddof=1) / np.sqrt(n_folds)
    best = int(np.argmax(mean))
    chosen = int(np.argmax(mean >= mean[best] - standard_error[best]))
    regression = reduced_rank_regression(predictors, responses, chosen, ridge=ridge)
    return CommunicationSubspace(ranks, mean, standard_error, chosen, regression)


def _paired(
    source: AnyArray, target: AnyArray
) -> tuple[Float[np.ndarray, "trial *time unit"], Float[np.ndarray, "trial *time other"]]:
    predictors = finite_float64("source", source, "trial ... unit")
    responses = finite_float64("target", target)
    if responses.shape[:-1] != predictors.shape[:-1]:
        raise ValueError(
            f"`target` must have the trials and times of `source`, {predictors.shape[:-1]}, "
            f"and units, got shape {responses.shape}."
        )
    return predictors, responses


def _full_rank(
    x: Float[np.ndarray, "sample unit"], y: Float[np.ndarray, "sample other"], ridge: float
) -> tuple[Float[np.ndarray, "unit other"], Float[np.ndarray, "other component"]]:
    centred, responses = x - x.mean(axis=0), y - y.mean(axis=0)
    if ridge > 0:
        # Rows of the regression instead of a sum of squares, whose condition number is the square.
        centred = np.concatenate([centred, np.sqrt(ridge) * np.eye(x.shape[1])])
        responses = np.concatenate([responses, np.zeros((x.shape[1], y.shape[1]))])
    full = np.linalg.lstsq(centred, responses, rcond=None)[0]
    predicted = centred[: len(x)] @ full
    components = np.linalg.svd(predicted, full_matrices=False)[2].T
    return full, components * sign_factors(predicted @ components, axis=0)


def _truncate(
    x: Float[np.ndarray, "sample unit"],
    y: Float[np.ndarray, "sample other"],
    full: Float[np.ndarray, "unit other"],
    components: Float[np.ndarray, "other component"],
    rank: int,
) -> ReducedRankRegression:
    patterns = components[:, :rank]
    dimensions = full @ patterns
    weights = dimensions @ patterns.T
    return ReducedRankRegression(weights, y.mean(axis=0) - x.mean(axis=0) @ weights, dimensions)


def _held_out_r2(
    predictors: Float[np.ndarray, "trial *time unit"],
    responses: Float[np.ndarray, "trial *time other"],
    held_out: Int[np.ndarray, " fold"],
    ranks: Int[np.ndarray, " number"],
    ridge: float,
) -> Float[np.ndarray, " number"]:
    is_fitted = ~np.isin(np.arange(len(predictors)), held_out)
    (x, x_test), (y, y_test) = (
        [values[rows].reshape(-1, values.shape[-1]) for rows in (is_fitted, held_out)]
        for values in (predictors, responses)
    )
    total = np.sum((y_test - y_test.mean(axis=0)) ** 2)
    if total == 0:
        raise ValueError(
            "`target` must vary over the trials and times of each fold, got one in which it does not."
        )
    full, components = _full_rank(x, y, ridge)
    fits = [_truncate(x, y, full, components, rank) for rank in ranks.tolist()]
    return np.array([1 - np.sum((y_test - fit.predict(x_test)) ** 2) / total for fit in fits])
