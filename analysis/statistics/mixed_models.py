"""Mixed models over members and their trials, by the maximum of the restricted likelihood.

y = X b + Z u + e in each group, with u of covariance G and e of variance s. As in lme4 (Bates, Maechler,
Bolker & Walker 2015, J Stat Softw 67(1)), the likelihood is a function of the lower triangle of Lambda alone,
with G = s Lambda Lambda'; b and s follow. It exists at the bound, where a variance is 0. (There, statsmodels
0.15 takes the inverse of G for 0, not infinite.)
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from popsim.analysis._arrays import AnyArray, check_axes, check_between_0_and_1, import_optional

__all__ = ["MixedModel", "fit_mixed_model", "long_table"]


class MixedModel(NamedTuple):
    """A fitted linear mixed model.

    - `names`: of the fixed effects.
    - `estimate`, `standard_error` [effect]: in the unit of the response per unit of the predictor.
    - `degrees_of_freedom` [effect]: of the t distribution (Satterthwaite).
    - `low`, `high` [effect]: the interval by the t distribution.
    - `p` [effect]: two-sided, by the t distribution.
    - `group_covariance` [random, random]: of the random effects over groups.
    - `residual_variance`: in the squared unit of the response.
    - `warnings`: texts, such as that a variance is at its bound of 0.
    """

    names: tuple[str, ...]
    estimate: Float[np.ndarray, " effect"]
    standard_error: Float[np.ndarray, " effect"]
    degrees_of_freedom: Float[np.ndarray, " effect"]
    low: Float[np.ndarray, " effect"]
    high: Float[np.ndarray, " effect"]
    p: Float[np.ndarray, " effect"]
    group_covariance: Float[np.ndarray, "random random"]
    residual_variance: float
    n_groups: int
    warnings: tuple[str, ...]


def fit_mixed_model(
    formula: str, table: Any, *, group: str = "member", random_effects: str = "1", confidence: float = 0.95
) -> MixedModel:
    """Fit a linear mixed model with random effects of members, by restricted maximum likelihood.

    The unit of replication is the group, the member. A predictor that varies within members needs a random
    slope, `random_effects="condition"`: without it, its standard error is that of trials, and too small
    (Barr, Levy, Scheepers & Tily 2013, J Mem Lang 68:255-278). p and intervals use the t distribution with
    Satterthwaite's degrees of freedom, as lmerTest for lme4 (Kuznetsova, Brockhoff & Christensen 2017, J Stat
    Softw 82(13)), which are exact in balanced designs. Formulas are read by statsmodels.

    **Arguments:**

    - `formula`: such as "error ~ condition", in columns of the table.
    - `table`: a `pandas.DataFrame`, see `long_table`, or a mapping from names of columns to sequences.
    - `random_effects`: their formula: "1" for the intercept, "condition" for the intercept and a slope.
    """
    check_between_0_and_1("confidence", confidence)
    models = import_optional("statsmodels.formula.api")
    rows = import_optional("pandas").DataFrame(dict(table)) if isinstance(table, Mapping) else table
    if group not in rows or rows[group].nunique() < 2:
        raise ValueError(f"`group` must be a column with two groups or more, got {group!r} of {list(rows)}.")
    labels = rows[group].to_numpy()
    try:
        model = models.mixedlm(formula, rows, groups=labels, re_formula=random_effects)
    except Exception as error:  # a formula is code, which can raise anything
        raise ValueError(
            f"`formula` and `random_effects` must be formulas of the columns {list(rows)}, "
            f"got {formula!r} and {random_effects!r}: {str(error).splitlines()[0]}."
        ) from error
    response, fixed, random = (
        np.asarray(part, np.float64) for part in (model.endog, model.exog, model.exog_re)
    )
    groups = [np.flatnonzero(labels == label) for label in model.group_labels]
    n_finite = np.count_nonzero(np.isfinite(np.column_stack([response, fixed, random])).all(axis=1))
    if n_finite < len(rows):
        raise ValueError(
            f"`table` must have a finite number in every row and column of {formula!r}, "
            f"got {len(rows) - n_finite} of {len(rows)} rows that have not: drop them first."
        )
    for name, columns in (("formula", fixed), ("random_effects", random)):
        sizes = np.maximum(np.abs(columns).max(axis=0), 1e-300)
        if np.linalg.matrix_rank(columns / sizes) < columns.shape[1]:
            raise ValueError(
                f"`{name}` must have predictors that do not follow from one another: {formula!r}."
            )
    _check_replicates(response, np.concatenate([fixed, random], axis=1), groups)
    estimate = _estimate(response, fixed, random, groups)
    if estimate is None or not np.isfinite(estimate.degrees_of_freedom).all():
        raise ValueError(
            f"`formula` must be of a model that can be fitted, got {formula!r} with random effects "
            f"{random_effects!r}, whose variances between and within groups cannot be told apart from "
            f"{len(rows)} rows of {len(groups)} groups: "
            "take fewer random effects, or compare the means of groups."
        )
    return _report(estimate, tuple(str(name) for name in model.exog_names), len(groups), group, confidence)


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


LEAST_SPREAD = 1e-5
"""Share of the spread of the response below which repeated trials of a member are equal: no noise, but the
rounding of single precision."""


def _check_replicates(
    response: Float[np.ndarray, " row"],
    predictors: Float[np.ndarray, "row predictor"],
    groups: list[np.ndarray],
) -> None:
    squares, n_repeated = 0.0, 0
    for rows in groups:
        _, cells = np.unique(predictors[rows], axis=0, return_inverse=True)
        counts = np.bincount(cells.ravel())
        means = np.bincount(cells.ravel(), response[rows]) / counts
        squares += float(np.sum((response[rows] - means[cells.ravel()]) ** 2))
        n_repeated += int(np.sum(counts - 1))
    if n_repeated and np.sqrt(squares / n_repeated) <= LEAST_SPREAD * float(response.std()):
        raise ValueError(
            "`table` must have trials that differ by noise, got repeated trials of a member that are equal "
            "(evaluated without noise?), which count as one: analyse the mean of each member and condition, "
            "such as by `paired_comparison` or scipy.stats.ttest_ind."
        )


def _estimate(
    response: Float[np.ndarray, " row"],
    fixed: Float[np.ndarray, "row effect"],
    random: Float[np.ndarray, "row random"],
    groups: list[np.ndarray],
) -> Estimate | None:
    """Return the estimates, which are computed with all columns of unit size: units do not count."""
    x_sizes, z_sizes = (np.sqrt(np.mean(part**2, axis=0)) for part in (fixed, random))
    rough = np.linalg.lstsq(fixed / x_sizes, response, rcond=None)[0] / x_sizes
    residual = response - fixed @ rough
    unit = float(np.sqrt(np.mean(residual**2)))
    if unit <= 1e-12 * float(np.abs(response).max()):
        return None
    scaled = maximize_likelihood(reduce_rows(random / z_sizes, fixed / x_sizes, residual / unit, groups))
    if scaled is None:
        return None
    return scaled._replace(
        fixed=rough + unit * scaled.fixed / x_sizes,
        covariance=unit**2 * scaled.covariance / np.outer(x_sizes, x_sizes),
        random=unit**2 * scaled.random / np.outer(z_sizes, z_sizes),
        residual=unit**2 * scaled.residual,
    )


def _report(
    estimate: Estimate, names: tuple[str, ...], n_groups: int, group: str, confidence: float
) -> MixedModel:
    from scipy.stats import t

    errors = np.sqrt(np.diagonal(estimate.covariance))
    width = errors * t.ppf((1 + confidence) / 2, estimate.degrees_of_freedom)
    at_bound = f"A variance of the random effects of `{group}` is at its bound, 0."
    return MixedModel(
        names,
        estimate.fixed,
        errors,
        estimate.degrees_of_freedom,
        estimate.fixed - width,
        estimate.fixed + width,
        2 * t.sf(np.abs(estimate.fixed) / errors, estimate.degrees_of_freedom),
        estimate.random,
        estimate.residual,
        n_groups,
        (at_bound,) if estimate.is_at_bound else (),
    )


def long_table(
    values: Mapping[str, AnyArray],
    axes: Sequence[str],
    *,
    labels: Mapping[str, tuple[str, AnyArray]] | None = None,
) -> Any:
    """Return a `pandas.DataFrame` with one row per element of the arrays.

    **Arguments:**

    - `values`: arrays of the same shape by column name, such as the end-point error [member, trial].
    - `axes`: the name of each axis, such as ("member", "trial"); each becomes a column of indices.
    - `labels`: further columns by name: an axis and the labels along it, such as
        `{"condition": ("trial", condition)}`.

    **Returns:** a table whose columns are the axes, then the labels, then the values.
    """
    arrays = {name: np.asarray(array) for name, array in values.items()}
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) != 1:
        raise ValueError(f"`values` must be arrays of the same shape, got {shapes}.")
    shape = next(iter(shapes.values()))
    names = [*axes, *(labels or {}), *arrays]
    if len(axes) != len(shape) or len(set(names)) != len(names):
        raise ValueError(
            f"`axes` must name each axis of shape {shape}, unlike other columns, got {list(axes)} of {names}."
        )
    places = np.indices(shape)
    columns: dict[str, np.ndarray] = {name: place.ravel() for name, place in zip(axes, places, strict=True)}
    for name, (axis, along) in (labels or {}).items():
        check_axes(f"labels[{name!r}]", along, f"{axis}={shape[list(axes).index(axis)]}")
        columns[name] = np.asarray(along)[columns[axis]]
    columns |= {name: array.ravel() for name, array in arrays.items()}
    return import_optional("pandas").DataFrame(columns)


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

    deviances = [deviance(scale * unit) for scale in _SCALES]
    scale, lowest = float(_SCALES[int(np.argmin(deviances))]), min(deviances)
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
