"""Paired comparisons and mixed models over members."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Key

from popsim._checks import check_positive_int
from popsim.analysis._arrays import AnyArray, numpy_generator, optional
from popsim.analysis.statistics.intervals import check_confidence, mean_interval, two_members_or_more

__all__ = [
    "PermutationTest",
    "PairedComparison",
    "paired_comparison",
    "MixedModel",
    "fit_mixed_model",
    "long_table",
]


class PermutationTest(NamedTuple):
    """A statistic and its distribution under random labels.

    - `statistic`: of the data.
    - `p`: the share of labellings with a statistic at least as large, counting that of the data, so that p is
        never 0 (Phipson & Smyth 2010, Stat Appl Genet Mol Biol 9:39, as in `scipy.stats.permutation_test`).
    - `null` [labelling]: the statistic of each labelling; it includes the data if `exact`.
    - `exact`: whether all labellings were enumerated, rather than drawn.
    """

    statistic: float
    p: float
    null: Float[np.ndarray, " labelling"]
    exact: bool


def permutation_test_result(
    statistic: float, null: Float[np.ndarray, " labelling"], exact: bool
) -> PermutationTest:
    """Return the test in which large statistics count against the null hypothesis."""
    rounding = 1e-10 * max(abs(statistic), float(np.abs(null).max()))
    n_far = int(np.count_nonzero(null >= statistic - rounding))
    p = n_far / len(null) if exact else (n_far + 1) / (len(null) + 1)
    return PermutationTest(float(statistic), p, null, exact)


class PairedComparison(NamedTuple):
    """The difference between two values of the same members.

    - `difference`: the mean over members of second minus first, in the unit of the values.
    - `low`, `high`: its interval by the t distribution, see `mean_interval`.
    - `effect_size`: the mean difference divided by the standard deviation of the differences over members
        (Cohen's d_z; Lakens 2013, Front Psychol 4:863, as in `cohens.d` of the R package misty); NaN if all
        differences are equal.
    - `test`: of whether the size of the difference exceeds chance, by flipping the signs of the differences.
    """

    difference: float
    low: float
    high: float
    effect_size: float
    test: PermutationTest


def paired_comparison(
    first: Float[AnyArray, " member"],
    second: Float[AnyArray, " member"],
    *,
    confidence: float = 0.95,
    n_permutations: int = 10_000,
    key: Key[jax.Array, ""],
) -> PairedComparison:
    """Compare two conditions measured in the same members, with an interval and a sign-flip test.

    The unit of replication is the member. The test is two-sided: under the null hypothesis, each member's
    difference is as likely to have the opposite sign. With n members there are 2^n sign patterns, so the
    smallest p is 2 / 2^n: five members cannot give less than .0625.

    **Arguments:**

    - `first`, `second`: one value per member in each condition: average over trials first.
    - `confidence`: of the interval, between 0 and 1.
    - `n_permutations`: the number of random sign patterns. If there are no more than this, all are
        enumerated, and nothing is random.
    - `key`: for the draws.

    **Raises:** `ValueError` if there are fewer than two members, the numbers of members differ, a value is
    not finite, `confidence` is not between 0 and 1, or `n_permutations` is not positive.
    """
    check_positive_int("n_permutations", n_permutations)
    before, after = two_members_or_more("first", first), two_members_or_more("second", second)
    if before.shape != after.shape or before.ndim != 1:
        raise ValueError(
            "`first` and `second` must have one value of each of the same members, "
            f"got shapes {before.shape} and {after.shape}."
        )
    differences = after - before
    n_members = len(differences)
    interval = mean_interval(differences, confidence=confidence)
    generator = numpy_generator(key)
    exact = n_members < 60 and 2**n_members <= n_permutations
    if exact:
        bits = (np.arange(2**n_members)[:, None] >> np.arange(n_members)) & 1
    else:
        bits = generator.integers(2, size=(n_permutations, n_members))
    null = np.abs((1.0 - 2.0 * bits) @ differences) / n_members
    spread = float(differences.std(ddof=1))
    mean = float(interval.estimate)
    return PairedComparison(
        mean,
        float(interval.low),
        float(interval.high),
        mean / spread if spread > 1e-12 * abs(mean) else float("nan"),
        permutation_test_result(abs(mean), null, exact),
    )


class MixedModel(NamedTuple):
    """A fitted linear mixed model.

    - `names`: of the fixed effects.
    - `estimate`, `standard_error` [effect]: in the unit of the response per unit of the predictor.
    - `low`, `high` [effect]: the interval by the normal distribution.
    - `p` [effect]: two-sided, by the normal distribution (Wald).
    - `group_covariance` [random, random]: of the random effects over groups.
    - `residual_variance`: in the squared unit of the response.
    - `n_groups`: the number of groups.
    - `warnings`: those of statsmodels, such as that a variance is at its bound of 0.
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
    formula: str, table: Any, *, group: str = "member", random_effects: str = "1", confidence: float = 0.95
) -> MixedModel:
    """Fit a linear mixed model with random effects of members, by the MixedLM of `statsmodels` with REML.

    The unit of replication is the group, the member; trials of one member are not independent. A predictor
    that varies within members needs a random slope, `random_effects="condition"`, to generalise to other
    members. Without it, its standard error is that of trials, and too small (Barr, Levy, Scheepers & Tily
    2013, J Mem Lang 68:255-278). p and intervals use the normal distribution instead of t, and are too
    optimistic for fewer than about 20 members: use `paired_comparison` on the means of members instead.

    **Arguments:**

    - `formula`: such as "error ~ condition", in columns of the table.
    - `table`: a `pandas.DataFrame`, see `long_table`, or a mapping from names of columns to sequences.
    - `group`: the column of the groups.
    - `random_effects`: the formula of the random effects: "1" for the intercept, "condition" for the
        intercept and a slope.
    - `confidence`: of the intervals, between 0 and 1.

    **Raises:** `ValueError` if the group column is missing or has fewer than two groups, the fit does not
    converge, or standard errors cannot be computed; `ImportError` if statsmodels is missing.
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

    **Raises:** `ValueError` if there is no array, the shapes differ, `axes` does not name each axis, the
    labels do not match the length of their axis, or two columns have the same name; `ImportError` if pandas
    is missing.
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
    for name, (axis, given) in (labels or {}).items():
        called = np.asarray(given)
        if axis not in axes or called.shape != (shape[list(axes).index(axis)],):
            raise ValueError(
                f"`labels` must be an axis of {list(axes)} and a label of each place along it, "
                f"got {axis!r} and shape {called.shape} for {name!r}."
            )
        columns[name] = called[columns[axis]]
    columns |= {name: array.ravel() for name, array in arrays.items()}
    return optional("pandas").DataFrame(columns)
