"""Mixed models against closed forms of balanced designs, and how often their intervals hold the truth."""

import warnings

import numpy as np
import pytest
from scipy import stats

from popsim.analysis.statistics import fit_mixed_model

pytest.importorskip("statsmodels")


def trials_of_members(generator, *, n_members=10, n_trials=20, between=1.0, slopes=0.0, noise=1.0):
    """Columns of a balanced table without effects: half of the members in each group, of the trials in each
    condition; and the error [member, trial]."""
    group = np.repeat([0.0, 1.0], [n_members - n_members // 2, n_members // 2])
    condition = np.tile([0.0, 1.0], n_trials // 2)
    error = between * generator.normal(size=(n_members, 1))
    error = error + slopes * generator.normal(size=(n_members, 1)) * condition
    error = error + noise * generator.normal(size=(n_members, n_trials))
    columns = {
        "error": error.ravel(),
        "group": np.repeat(group, n_trials),
        "condition": np.tile(condition, n_members),
        "member": np.repeat(np.arange(n_members), n_trials),
    }
    return columns, error


@pytest.mark.parametrize("noise, unit", [(1e-4, 1.0), (1.0, 1e-5), (0.1, 1e6)])
def test_a_difference_between_members_is_the_t_test_of_their_means(noise, unit):
    columns, error = trials_of_members(np.random.default_rng(0), noise=noise)
    columns["error"] = unit * columns["error"]
    found = fit_mixed_model("error ~ group", columns)
    means = unit * error.mean(axis=1)
    exact = stats.ttest_ind(means[5:], means[:5])
    np.testing.assert_allclose(found.p[1], exact.pvalue, rtol=1e-5)
    np.testing.assert_allclose([found.low[1], found.high[1]], exact.confidence_interval(), rtol=1e-5)
    np.testing.assert_allclose(found.degrees_of_freedom, 8, rtol=1e-5)
    assert found.warnings == ()


def test_a_difference_within_members_is_the_t_test_of_their_differences():
    columns, error = trials_of_members(np.random.default_rng(3), slopes=0.5)
    found = fit_mixed_model("error ~ condition", columns, random_effects="condition")
    exact = stats.ttest_1samp(error[:, 1::2].mean(axis=1) - error[:, ::2].mean(axis=1), 0)
    np.testing.assert_allclose(found.p[1], exact.pvalue, rtol=1e-4)
    np.testing.assert_allclose([found.low[1], found.high[1]], exact.confidence_interval(), rtol=1e-4)
    np.testing.assert_allclose(found.degrees_of_freedom[1], 9, rtol=1e-4)


def test_members_that_hardly_differ_never_give_a_smaller_p_than_their_means():
    at_bound, between = [], 0.1
    for seed in range(10):
        columns, error = trials_of_members(np.random.default_rng(seed), between=between)
        found = fit_mixed_model("error ~ group", columns)
        means = error.mean(axis=1)
        exact = stats.ttest_ind(means[5:], means[:5]).pvalue
        at_bound.append(bool(found.warnings))
        assert found.p[1] >= exact * (1 - 1e-5)
        assert at_bound[-1] == (found.group_covariance[0, 0] < 1e-8)
        if not at_bound[-1]:
            np.testing.assert_allclose(found.p[1], exact, rtol=1e-5)
    assert any(at_bound)


def test_unequal_numbers_of_trials_are_fitted_as_by_statsmodels():
    models, pandas = pytest.importorskip("statsmodels.formula.api"), pytest.importorskip("pandas")
    generator = np.random.default_rng(5)
    columns, _ = trials_of_members(generator, n_members=12, slopes=2.0)
    rows = pandas.DataFrame(columns).sample(frac=0.6, random_state=1)
    found = fit_mixed_model("error ~ group * condition", rows, random_effects="condition")
    model = models.mixedlm("error ~ group * condition", rows, groups=rows.member, re_formula="condition")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its first optimizers do not converge
        reference = model.fit(reml=True, method=["bfgs", "powell"])
    np.testing.assert_allclose(found.estimate, reference.fe_params, atol=1e-4)
    np.testing.assert_allclose(found.standard_error, reference.bse_fe, rtol=0.01)
    np.testing.assert_allclose(found.group_covariance, reference.cov_re, atol=2e-3)
    np.testing.assert_allclose(found.residual_variance, reference.scale, rtol=1e-3)
    assert np.all((found.degrees_of_freedom > 5) & (found.degrees_of_freedom < 12))


NEARLY_EQUAL = np.repeat(np.arange(10), 20) + 1e-7 * np.random.default_rng(0).normal(size=200)


@pytest.mark.parametrize(
    ("formula", "changes", "message"),
    [
        ("error ~ condition", {}, "analyse the mean"),
        ("error ~ group", {"error": NEARLY_EQUAL}, "analyse the mean"),
        ("error ~ group", {"member": np.arange(200)}, "told apart"),
        ("error ~ group + I(2 * group)", {}, "`formula`"),
        ("error ~ nothing", {}, "formulas"),
        ("error ~", {}, "formulas"),
        ("error ~ group", {"error": np.full(200, np.nan)}, "rows|formulas"),
    ],
)
def test_what_cannot_be_estimated_is_refused(formula, changes, message):
    columns, _ = trials_of_members(np.random.default_rng(0), slopes=0.3, noise=0.0)
    with pytest.raises(ValueError, match=message):
        fit_mixed_model(formula, columns | changes)
