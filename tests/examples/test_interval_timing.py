"""The best estimates of intervals, by popsim and by the reference."""

import jax.numpy as jnp
import numpy as np
import pytest

from popsim.distributions import Uniform
from popsim.tasks import bayes_least_squares

interval_timing = pytest.importorskip("interval_timing", reason="examples/ is not beside the tests")
reference = pytest.importorskip("references.interval_timing")
SHOWN = np.linspace(0.4, 1.4, 21)


@pytest.mark.parametrize("prior", interval_timing.PRIORS.values(), ids=interval_timing.PRIORS)
def test_the_estimates_of_popsim_are_those_of_the_reference(prior):
    for fraction in (0.05, 0.1, 0.2):
        found = bayes_least_squares(jnp.asarray(SHOWN), Uniform(*prior), fraction)
        np.testing.assert_allclose(found, reference.estimate(SHOWN, *prior, fraction), rtol=1e-5)
