"""The restricted likelihood of linear mixed models, its maximum, and degrees of freedom.

y = X b + Z u + e in each group, with u of covariance G and e of variance s. As in lme4 (Bates, Maechler,
Bolker & Walker 2015, J Stat Softw 67(1)), the likelihood is a function of the lower triangle of Lambda alone,
with G = s Lambda Lambda'; b and s follow. It exists at the bound, where a variance is 0. (There, statsmodels
0.15 takes the inverse of G for 0, not infinite.)
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

__all__: list[str] = []

Triangle = Float[np.ndarray, " entry"]


class Rows(NamedTuple):
    """The rows of a mixed model, reduced in each group to the triangular factor of [Z, X, y]."""

    factors: Float[np.ndarray, "group column column"]
    n_rows: int
    n_random: int


class Estimate(NamedTuple):
    """The estimates at the maximum of the restricted likelihood: b, G and s.

    Degrees of freedom are NaN if variances cannot be told from one another. At the bound G is singular.
    """

    fixed: Float[np.ndarray, " effect"]
    covariance: Float[np.ndarray, "effect effect"]
    degrees_of_freedom: Float[np.ndarray, " effect"]
    random: Float[np.ndarray, "random random"]
    residual: float
    is_at_bound: bool


def reduce_rows(
    random: Float[np.ndarray, "row random"],
    fixed: Float[np.ndarray, "row effect"],
    response: Float[np.ndarray, " row"],
    groups: list[np.ndarray],
) -> Rows:
    """Return Z, X and y reduced by group; where one has fewer rows than columns, there are rows of zeros."""
    table = np.column_stack([random, fixed, response])
    factors = np.zeros((len(groups), table.shape[1], table.shape[1]))
    for factor, rows in zip(factors, groups, strict=True):
        triangle = _triangular(table[rows])
        factor[: len(triangle)] = triangle
    return Rows(factors, len(table), random.shape[1])


def _triangular(matrices: Float[np.ndarray, "*axes row column"]) -> Float[np.ndarray, "*axes entry column"]:
    return np.asarray(np.linalg.qr(matrices, mode="r"))


def maximize_likelihood(rows: Rows) -> Estimate | None:
    """Return the estimates of largest restricted likelihood; None if no optimizer agrees with another."""
    triangle = _best_triangle(rows)
    if triangle is None:
        return None
    relative = _lower(triangle, rows.n_random)
    _, upper = _profile_likelihood(relative, rows)
    n_effects = len(upper) - 1
    residual = float(upper[-1, -1] ** 2 / (rows.n_rows - n_effects))
    root = np.linalg.inv(upper[:n_effects, :n_effects])
    covariance = root @ root.T
    return Estimate(
        root @ upper[:n_effects, -1],
        residual * covariance,
        _satterthwaite(relative, covariance, rows),
        residual * relative @ relative.T,
        residual,
        bool(np.linalg.svd(relative, compute_uv=False)[-1] < _AT_BOUND),
    )


_AT_BOUND = 1e-4  # of Lambda, as `isSingular` of lme4; columns of Z have a root mean square of 1
_SCALES = np.geomspace(1e-3, 1e7, 41)


def _lower(triangle: Triangle, n_random: int) -> Float[np.ndarray, "random random"]:
    matrix = np.zeros((n_random, n_random))
    matrix[np.tril_indices(n_random)] = triangle
    return matrix


def _profile_likelihood(
    relative: Float[np.ndarray, "random random"], rows: Rows
) -> tuple[float, Float[np.ndarray, "column column"]]:
    """Return minus twice the restricted log-likelihood, and the triangular factor of whitened [X, y].

    By orthogonal transformations alone: differences of sums of squares would lose the variance between groups
    where it is far above the residual variance.
    """
    n_random, n_columns = rows.n_random, rows.factors.shape[-1]
    scaled = np.concatenate([rows.factors[..., :n_random] @ relative, rows.factors[..., n_random:]], axis=-1)
    prior = np.broadcast_to(np.eye(n_random, n_columns), (len(scaled), n_random, n_columns))
    within = _triangular(np.concatenate([scaled, prior], axis=1))
    pivots = np.diagonal(within, axis1=1, axis2=2)[:, :n_random]
    upper = _triangular(within[:, n_random:, n_random:].reshape(-1, n_columns - n_random))
    with np.errstate(divide="ignore"):
        logarithms = np.log(np.abs(np.diagonal(upper)))
    n_effects = len(upper) - 1
    deviance = 2 * np.log(np.abs(pivots)).sum() + 2 * logarithms[:-1].sum()
    return float(deviance + 2 * (rows.n_rows - n_effects) * logarithms[-1]), upper


def _best_triangle(rows: Rows) -> Triangle | None:
    """Return the lower triangle of Lambda of least deviance, once an optimizer confirms the one before."""
    from scipy.optimize import minimize

    n_random = rows.n_random
    places = np.tril_indices(n_random)
    unit = np.eye(n_random)[places]

    def deviance(triangle: Triangle) -> float:
        return _profile_likelihood(_lower(triangle, n_random), rows)[0]

    of_scales = [deviance(scale * unit) for scale in _SCALES]
    scale, lowest = float(_SCALES[int(np.argmin(of_scales))]), min(of_scales)
    bounds = [(0.0 if on_diagonal else None, None) for on_diagonal in places[0] == places[1]]
    methods = (("L-BFGS-B", {}), ("Powell", {"xtol": 1e-8}), ("Nelder-Mead", {"xatol": 1e-8, "fatol": 1e-10}))
    best, least = unit, 0.0
    for attempt, (method, options) in enumerate(methods * 4):
        result = minimize(
            lambda values: deviance(scale * values) - lowest,
            best,
            method=method,
            bounds=bounds,
            options=options,
        )
        is_confirmed = attempt > 0 and result.fun > least - 1e-6
        if result.fun < least:
            best, least = result.x, float(result.fun)
        if is_confirmed:
            is_nothing_as_good = deviance(0.0 * unit) - lowest <= least + 1e-8
            return 0.0 * unit if is_nothing_as_good else scale * best
    return None


def _satterthwaite(
    relative: Float[np.ndarray, "random random"], covariance: Float[np.ndarray, "effect effect"], rows: Rows
) -> Float[np.ndarray, " effect"]:
    """Return 2 v^2 / (g' A g) of each effect.

    v is its variance, g the gradient of v by the variances s and G, and A the covariance of these:
    Satterthwaite 1946, Biometrics Bull 2:110-114, for mixed models as in lmerTest (Kuznetsova, Brockhoff &
    Christensen 2017, J Stat Softw 82(13)), with the expected information tr(P V_j P V_k) / 2 in place of the
    observed one. In balanced designs they are those of the F tests of the analysis of variance. Covariances
    are in units of the residual variance.
    """
    n_random, size = rows.n_random, rows.factors.shape[-1]
    random, fixed = rows.factors[..., :n_random], rows.factors[..., n_random:-1]
    inverse = np.linalg.inv(np.eye(size) + random @ (relative @ relative.T) @ random.mT)
    derivatives = []
    for row, column in zip(*np.tril_indices(n_random), strict=True):
        product = random[..., [row]] @ random[..., [column]].mT
        derivatives.append((product + product.mT) / (1.0 + (row == column)))
    derivatives.append(np.broadcast_to(np.eye(size), inverse.shape))
    solved = [inverse @ derivative for derivative in derivatives]
    whitened = inverse @ fixed
    through = [covariance @ np.sum(fixed.mT @ part @ whitened, axis=0) for part in solved]
    n_values = len(solved)
    information = np.empty((n_values, n_values))
    for j, k in np.ndindex(n_values, n_values):
        traces = np.einsum("gab,gba->", solved[j], solved[k])
        traces -= 2 * np.trace(covariance @ np.sum(fixed.mT @ solved[j] @ solved[k] @ whitened, axis=0))
        information[j, k] = (traces + np.trace(through[j] @ through[k])) / 2
    # The rows of a group that its factor lacks have neither Z nor X, nor have the rows that it has too many.
    information[-1, -1] += (rows.n_rows - len(rows.factors) * size) / 2
    lengths = np.sqrt(np.maximum(np.diagonal(information), 0.0))
    if not np.all(lengths > 1e-6 * np.sqrt([np.einsum("gab,gba->", part, part) for part in solved])):
        return np.full(len(covariance), np.nan)
    standard = information / np.outer(lengths, lengths)
    if np.linalg.eigvalsh(standard)[0] < 1e-8:
        return np.full(len(covariance), np.nan)
    gradients = np.stack([np.diagonal(part @ covariance) for part in through]) / lengths[:, None]
    variance = np.sum(gradients * np.linalg.solve(standard, gradients), axis=0)
    return 2 * np.diagonal(covariance) ** 2 / variance
