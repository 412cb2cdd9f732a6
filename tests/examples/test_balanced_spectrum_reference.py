"""The spectrum of weights from two kinds of units against known values and drawn weights."""

import numpy as np
import pytest

spectrum = pytest.importorskip("references.balanced_spectrum", reason="examples/ is not beside the tests")

UNBALANCED = spectrum.Weights(200, 0.75, (1.0, -1.0), (1.0, 2.0))


def test_known_values():
    assert UNBALANCED.radius == pytest.approx(1.75**0.5)
    assert UNBALANCED.outlier == pytest.approx(200**0.5 / 2)
    assert UNBALANCED.outlier_deviation == pytest.approx(1.75**0.5 * 2 / 200**0.5)


def test_drawn_weights_have_the_means_and_deviations_of_their_kinds():
    weights = spectrum.draw_weights(UNBALANCED, np.random.default_rng(0), rows_sum_to_zero=False) * 200**0.5
    for kind, columns in enumerate((weights[:, :150], weights[:, 150:])):
        assert columns.mean() == pytest.approx(UNBALANCED.means[kind], abs=0.05)
        assert columns.std() == pytest.approx(UNBALANCED.deviations[kind], rel=0.03)
