"""Mixed models over members and their trials."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from popsim.analysis._arrays import AnyArray, check_axes, check_between_0_and_1, import_optional
from popsim.analysis.statistics._restricted_likelihood import Estimate, maximize_likelihood, reduce_rows

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
    - `n_groups`: the number of groups.
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

    The unit of replication is the group, the member; trials of one member are not independent. A predictor
    that varies within members needs a random slope, `random_effects="condition"`, to generalise to other
    members. Without it, its standard error is that of trials, and too small (Barr, Levy, Scheepers & Tily
    2013, J Mem Lang 68:255-278).

    p and intervals use the t distribution with Satterthwaite's degrees of freedom, as lmerTest for lme4
    (Kuznetsova, Brockhoff & Christensen 2017, J Stat Softw 82(13)). In balanced designs these are exact: for
    a predictor that differs between members, the t test of the means of members. Where the variance between
    members is estimated as 0, p is too large rather than too small. Formulas are read by statsmodels.

    **Arguments:**

    - `formula`: such as "error ~ condition", in columns of the table.
    - `table`: a `pandas.DataFrame`, see `long_table`, or a mapping from names of columns to sequences.
    - `group`: the column of the groups.
    - `random_effects`: the formula of the random effects: "1" for the intercept, "condition" for the
        intercept and a slope.
    - `confidence`: of the intervals, between 0 and 1.

    **Raises:** `ImportError` if statsmodels is missing.
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


LEAST_SPREAD = 1e-5
"""Share of the spread of the response below which repeated trials of a member are equal: no noise, but the
rounding of single precision."""


def _check_replicates(
    response: Float[np.ndarray, " row"],
    predictors: Float[np.ndarray, "row predictor"],
    groups: list[np.ndarray],
) -> None:
    """Raise `ValueError` if the response does not vary over repeated trials of a member."""
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
    of_fixed, of_random = (np.sqrt(np.mean(part**2, axis=0)) for part in (fixed, random))
    rough = np.linalg.lstsq(fixed / of_fixed, response, rcond=None)[0] / of_fixed
    residual = response - fixed @ rough
    unit = float(np.sqrt(np.mean(residual**2)))
    if unit <= 1e-12 * float(np.abs(response).max()):
        return None
    scaled = maximize_likelihood(reduce_rows(random / of_random, fixed / of_fixed, residual / unit, groups))
    if scaled is None:
        return None
    return scaled._replace(
        fixed=rough + unit * scaled.fixed / of_fixed,
        covariance=unit**2 * scaled.covariance / np.outer(of_fixed, of_fixed),
        random=unit**2 * scaled.random / np.outer(of_random, of_random),
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

    **Raises:** `ImportError` if pandas is missing.
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
