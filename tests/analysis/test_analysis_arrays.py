"""The arrays that analyses take."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from popsim.analysis._arrays import finite_float64, numpy_generator


def test_values_are_in_float64():
    assert finite_float64("values", jnp.ones(3, jnp.float32)).dtype == np.float64


@pytest.mark.parametrize("values", [np.array([1.0, np.nan, np.inf]), np.zeros((0, 2))])
def test_what_is_refused(values):
    with pytest.raises(ValueError, match="`speed` must"):
        finite_float64("speed", values)


def test_a_key_gives_the_same_numbers_and_another_key_others():
    same, again, other = (numpy_generator(jax.random.key(seed)).normal(size=3) for seed in (0, 0, 1))
    assert (same == again).all() and (same != other).all()
