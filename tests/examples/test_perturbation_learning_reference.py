"""The expected learning curves against Monte Carlo, and against the known numbers."""

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


def test_the_known_values_of_the_figure():
    setting = curves.Setting()
    gradient = curves.expected_error("gradient descent", 1 / 12, setting, 30)
    np.testing.assert_allclose(gradient[[6, 15, 30]], [0.5933, 0.2711, 0.0735], atol=5e-5)
    node = curves.expected_error("node perturbation", 1 / 72, setting, 200)
    np.testing.assert_allclose(node[[40, 100, 200]], [0.572, 0.247, 0.0616], atol=8e-4)
    growing = curves.expected_error("node perturbation", 2.5 / 72, setting, 50)
    np.testing.assert_allclose(growing[[20, 50]], [1.41, 2.36], atol=0.01)
