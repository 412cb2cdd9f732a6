"""The errors of Hopfield networks against simulated networks, enumeration, and the known table."""

import itertools

import numpy as np
import pytest

hopfield = pytest.importorskip("references.hopfield", reason="examples/ is not beside the tests")


def test_the_table_of_loads():
    loads = {0.105: 0.001, 0.138: 0.0036, 0.185: 0.01, 0.37: 0.0501, 0.61: 0.1002}
    for load, wrong in loads.items():
        assert hopfield.wrong_at_load(load) == pytest.approx(wrong, abs=5e-5)


@pytest.mark.parametrize("n_patterns", [2, 3])
def test_the_exact_share_is_that_of_all_networks_there_are(n_patterns):
    n_units = 4
    wrong = []
    for signs in itertools.product([-1, 1], repeat=n_units * n_patterns):
        x = np.array(signs).reshape(n_patterns, n_units)
        weights = hopfield.hebbian_weights(x)
        assert not np.any(np.diag(weights))
        wrong.append(np.mean(x * np.round(n_units * x @ weights) < 0))
    assert np.mean(wrong) == pytest.approx(hopfield.exact_wrong(n_units, n_patterns), abs=1e-12)


def test_a_large_network_is_the_limit():
    assert hopfield.exact_wrong(2000, 600) == pytest.approx(hopfield.gaussian_wrong(2000, 600), rel=0.01)
    assert hopfield.gaussian_wrong(2000, 600) == pytest.approx(hopfield.wrong_at_load(0.3), rel=0.01)
