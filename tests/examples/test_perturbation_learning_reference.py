"""The expected learning curves against Monte Carlo."""

import numpy as np
import pytest

curves = pytest.importorskip("references.perturbation_learning", reason="examples/ is not beside the tests")

RULES = ("gradient descent", "node perturbation", "weight perturbation")
SMALL = curves.Setting(n_inputs=5, n_outputs=3)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("relative_rate", [0.5, 1.0])
@pytest.mark.parametrize("sigma", [0.01, 0.6])
def test_simulated_learning_has_the_expected_error(rule, relative_rate, sigma):
    """The larger perturbations make up half of the error, so that c is tested too."""
    setting = curves.Setting(5, 3, sigma)
    optimum = curves.optimal_rate(rule, setting)
    n_steps = round(1.5 / optimum)
    simulated = curves.simulated_errors(rule, relative_rate * optimum, setting, n_steps, 4000, seed=1)
    expected = curves.expected_error(rule, relative_rate * optimum, setting, n_steps)
    for t in np.linspace(0, n_steps, 6).round().astype(int)[1:]:
        standard_error = simulated[:, t].std(ddof=1) / len(simulated) ** 0.5
        assert standard_error < 0.05 * expected[t]
        assert abs(simulated[:, t].mean() - expected[t]) < 3.5 * standard_error
    if sigma > 0.1 and rule != "gradient descent":
        without = curves.expected_error(rule, relative_rate * optimum, SMALL, n_steps)
        assert expected[-1] > 1.5 * without[-1]
