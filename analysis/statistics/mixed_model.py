"""Linear models of trials that belong to members."""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from popsim.analysis.optional_packages import optional
from popsim.analysis.statistics.interval import check_confidence


class MixedModel(NamedTuple):
    """A fitted linear mixed model.

    - `names`: of the fixed effects.
    - `estimate`, `standard_error` [effect]: in the unit of the response per unit of the predictor.
    - `low`, `high` [effect]: the interval by the normal distribution.
    - `p` [effect]: two-sided, by the normal distribution (Wald).
    - `group_covariance` [random, random]: of the random effects over groups.
    - `residual_variance`: in the squared unit of the response.
    - `n_groups`: how many there were.
    - `warnings`: what statsmodels said, such as that a variance is at its bound of 0.
    """

    names: tuple[str, ...]
    estimate: Float[np.ndarray, " effect"]
    standard_error: Float[np.ndarray, " effect"]
    low: Float[np.ndarray, " effect"]
    high: Float[np.ndarray, " effect"]
    p: Float[np.ndarray, " effect"]
    group_covariance: Float[np.ndarray, "random random"]
    residual_variance: float
    n_groups: int
    warnings: tuple[str, ...]


def fit_mixed_model(
    formula: str,
    table: Any,
    *,
    group: str = "member",
    random_effects: str = "1",
    confidence: float = 0.95,
) -> MixedModel:
    """A linear mixed model with random effects of members, by `statsmodels`' MixedLM and REML.

    The unit of replication is the group, the member; trials of one member are not independent. Give a
    random slope, `random_effects="condition"`, to every predictor that differs within members and is to be
    generalised to other members: without it, its standard error is that of trials, and too small (Barr,
    Levy, Scheepers & Tily 2013, J Mem Lang 68:255-278, cited from memory). p and intervals take the normal
    distribution for that of t, and are too optimistic for fewer than some 20 members: compare means of
    members by `paired_comparison` there.

    **Arguments:**

    - `formula`: such as "error ~ condition", in columns of the table.
    - `table`: a `pandas.DataFrame`, see `long_table`, or a mapping from names of columns to sequences.
    - `group`: the column of the groups.
    - `random_effects`: the formula of what differs over groups: "1" for the intercept, "condition" for the
        intercept and a slope.
    - `confidence`: of the intervals, between 0 and 1.

    **Raises:** `ValueError` if the column of the groups is not there or has fewer than two groups, the fit
    does not converge, or standard errors cannot be computed; `ImportError` if statsmodels is missing.
    """
    check_confidence(confidence)
    models = optional("statsmodels.formula.api")
    pandas = optional("pandas")
    rows = pandas.DataFrame(dict(table)) if isinstance(table, Mapping) else table
    if group not in rows or rows[group].nunique() < 2:
        raise ValueError(f"`group` must be a column with two groups or more, got {group!r} of {list(rows)}.")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = models.mixedlm(formula, rows, groups=rows[group].to_numpy(), re_formula=random_effects)
        fitted = model.fit(reml=True)
    effects = fitted.fe_params.index
    errors = fitted.bse_fe.to_numpy()
    if not fitted.converged or not np.isfinite(errors).all():
        raise ValueError(
            f"`formula` must be of a model that can be fitted, got {formula!r} with random effects "
            f"{random_effects!r}: {'; '.join(str(one.message) for one in said) or 'no standard errors'}."
        )
    interval = fitted.conf_int(alpha=1 - confidence).loc[effects].to_numpy()
    return MixedModel(
        tuple(str(name) for name in effects),
        fitted.fe_params.to_numpy(),
        errors,
        interval[:, 0],
        interval[:, 1],
        fitted.pvalues.loc[effects].to_numpy(),
        np.asarray(fitted.cov_re, np.float64),
        float(fitted.scale),
        int(rows[group].nunique()),
        tuple(str(one.message) for one in said),
    )
