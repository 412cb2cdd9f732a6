import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from popsim.training import adam, sgd
from popsim.training.optimizers import learning_rate_of


@pytest.mark.parametrize("build", [adam, sgd])
@pytest.mark.parametrize("clip_norm", [None, 1.0])
def test_the_learning_rate_of_a_schedule_can_be_read(build, clip_norm):
    optimizer = build(optax.linear_schedule(1.0, 0.0, 4), clip_norm=clip_norm)
    params = jnp.ones(3)
    state = optimizer.init(params)
    rates = []
    with jax.numpy_dtype_promotion("standard"):
        for _ in range(4):
            _, state = optimizer.update(params, state, params)
            rates.append(float(learning_rate_of(state)))
    np.testing.assert_allclose(rates, [1.0, 0.75, 0.5, 0.25])


def test_clipping_bounds_the_gradient_norm():
    optimizer = sgd(1.0, clip_norm=2.0)
    params = jnp.zeros(4)
    updates, _ = optimizer.update(jnp.full(4, 3.0), optimizer.init(params), params)
    np.testing.assert_allclose(jnp.linalg.norm(updates), 2.0, rtol=1e-6)


def test_an_unknown_learning_rate_is_nan():
    assert np.isnan(learning_rate_of(optax.adam(1e-3).init(jnp.ones(2))))


@pytest.mark.parametrize("arguments", [{"learning_rate": 0.0}, {"learning_rate": 1.0, "clip_norm": -1.0}])
def test_bad_numbers_raise(arguments):
    name = list(arguments)[-1]
    with pytest.raises(ValueError, match=name):
        adam(**arguments)
