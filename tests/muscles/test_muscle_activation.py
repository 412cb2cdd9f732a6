"""Activation against its differential equation."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import muscle_references
import numpy as np
import pytest
from central_differences import assert_gradients_agree
from scipy.integrate import solve_ivp
from short_form import every_nth

from popsim.muscles import FirstOrderActivation, LinearActivation
from popsim.plants import li_todorov_arm

pytestmark = pytest.mark.slow

LEVELS = np.array([0.0, 1e-6, 0.01, 0.1, 0.3, 0.5, 0.75, 0.999, 1.0])
NOW, DRIVE = (grid.ravel() for grid in np.meshgrid(LEVELS, LEVELS))
TIMES = [0.0, 1e-6, 1e-3, 0.01, 0.05, 0.3, 10.0]


KINDS = {"first order": FirstOrderActivation, "linear": LinearActivation}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture
def dynamics(float64, kind):
    return kind()


def after(dynamics, t, activation: Any = NOW, excitation: Any = DRIVE):
    return eqx.filter_jit(dynamics.advance)(jnp.asarray(t), jnp.asarray(activation), jnp.asarray(excitation))


def rate_of(dynamics):
    """The equation in numpy, with the constants of its source."""

    def thelen(a, u):
        tau = np.where(u > a, 0.015 * (0.5 + 1.5 * a), 0.05 / (0.5 + 1.5 * a))
        return (u - a) / tau

    return (
        thelen if isinstance(dynamics, FirstOrderActivation) else muscle_references.li_todorov_activation_rate
    )


@pytest.mark.parametrize("t", every_nth(TIMES[1:6], 2))
def test_it_is_the_solution_of_its_equation(dynamics, t):
    rate = rate_of(dynamics)
    exact = solve_ivp(lambda _, a: rate(a, DRIVE), (0, t), NOW, "DOP853", rtol=1e-12, atol=1e-14).y[:, -1]
    np.testing.assert_allclose(after(dynamics, t), exact, atol=2e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_never_overshoots(dynamics, dtype):
    dynamics = jax.tree.map(lambda x: x.astype(dtype), dynamics)
    a, u = jnp.asarray(NOW, dtype), jnp.asarray(DRIVE, dtype)
    for t in np.geomspace(1e-7, 100, 12):
        later = after(dynamics, jnp.asarray(t, dtype), a, u)
        assert later.dtype == dtype
        rises, rounding = u > a, jnp.finfo(dtype).eps
        assert jnp.all(jnp.where(rises, later <= u, later >= u))
        assert jnp.all(jnp.where(rises, later >= a - rounding, later <= a + rounding))


def test_each_muscle_may_have_its_own_times(float64, kind):
    dynamics = kind(rise_time=jnp.array([0.01, 0.02]), lowest=jnp.array([0.0, 0.1]))
    risen = after(dynamics, 0.01, np.zeros(2), np.ones(2))
    assert risen[0] > risen[1]
    np.testing.assert_allclose(after(dynamics, 9.0, np.ones(2), np.zeros(2)), [0.0, 0.1], atol=1e-12)


def test_gradients_agree_with_central_differences(dynamics, getkey):
    t, a, u = jax.random.uniform(getkey(), (3, 40), minval=0.05, maxval=0.95)
    u = jnp.where(jnp.abs(a - u) < 1e-3, u + 0.01, u)
    weights = jax.random.normal(getkey(), (40,))

    def total(inputs):
        dynamics, t, a, u = inputs
        return jnp.sum(weights * dynamics.advance(t, a, u))

    inputs = (dynamics, 0.1 * t, a, u)
    unused = assert_gradients_agree(total, inputs, getkey(), steps=(1e-6, 1e-7, 1e-8), rtol=1e-5, atol=1e-6)
    assert unused == ["[0].lowest"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("t", every_nth(TIMES, 3))
def test_gradients_are_finite_everywhere(float64, kind, dtype, t):
    dynamics = jax.tree.map(lambda x: x.astype(dtype), kind(lowest=0.001))
    a, u = jnp.asarray(NOW, dtype), jnp.asarray(DRIVE, dtype)

    def total(dynamics, t, a, u):
        return jnp.sum(dynamics.advance(t, a, u))

    gradients = jax.jit(jax.grad(total, argnums=(0, 1, 2, 3)))(dynamics, jnp.asarray(t, dtype), a, u)
    assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(gradients))


@pytest.mark.full
def test_excitation_is_held_in_bounds(float64, kind):
    dynamics = kind(lowest=0.1)
    drive = jnp.array([-1.0, 0.05, 0.1, 1.0, 1.5])

    def later(u):
        return dynamics.advance(0.01, jnp.full(5, 0.5), u)

    np.testing.assert_array_equal(later(drive), later(jnp.clip(drive, 0.1, 1.0)))
    slope = jnp.diag(jax.jacobian(later)(drive))
    np.testing.assert_array_equal(slope[jnp.array([0, 1, 4])], 0.0)
    within = jnp.diag(jax.jacobian(later)(jnp.array([0.5, 0.5, 0.1 + 1e-9, 1.0 - 1e-9, 0.5])))
    np.testing.assert_allclose(slope[2:4], within[2:4] / 2, rtol=1e-6)


def test_muscles_of_li_and_todorov_are_filtered_as_in_their_model(float64):
    """To 63 % of an excitation of .3 in 61 ms, and back in 66 ms."""
    own = li_todorov_arm().muscle.activation
    risen = own.advance(0.0612, jnp.zeros(1), jnp.array([0.3]))
    np.testing.assert_allclose(risen, 0.3 * (1 - np.exp(-1)), rtol=1e-12)
    np.testing.assert_allclose(own.advance(0.066, jnp.ones(1), jnp.zeros(1)), np.exp(-1), rtol=1e-12)
