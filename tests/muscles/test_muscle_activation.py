"""Activation against its differential equation."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import muscle_references
import numpy as np
import pytest
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


@pytest.mark.parametrize("t", TIMES[1:6])
def test_it_is_the_solution_of_its_equation(dynamics, t):
    rate = rate_of(dynamics)
    exact = solve_ivp(lambda _, a: rate(a, DRIVE), (0, t), NOW, "DOP853", rtol=1e-12, atol=1e-14).y[:, -1]
    np.testing.assert_allclose(after(dynamics, t), exact, atol=2e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_never_overshoots(dynamics, dtype):
    dynamics = jax.tree.map(lambda x: x.astype(dtype), dynamics)
    a, u = jnp.asarray(NOW, dtype), jnp.asarray(DRIVE, dtype)
    for t in np.geomspace(1e-7, 100, 40):
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
    inputs = jax.random.uniform(getkey(), (40, 3), minval=0.05, maxval=0.95)
    inputs = inputs[jnp.abs(inputs[:, 1] - inputs[:, 2]) > 1e-3] * jnp.array([0.1, 1.0, 1.0])
    constants = jnp.array([0.015, 0.05])

    def one(point, constants):
        return type(dynamics)(*constants).advance(point[0], point[1:2], point[2:3])[0]

    both = jax.jit(jax.vmap(jax.jacrev(one, argnums=(0, 1)), (0, None)))(inputs, constants)
    values = jax.jit(jax.vmap(one, (0, None)))
    h = 1e-6
    for i in range(3):
        e = h * jnp.eye(3)[i]
        slope = (values(inputs + e, constants) - values(inputs - e, constants)) / (2 * h)
        np.testing.assert_allclose(both[0][:, i], slope, atol=1e-6, rtol=1e-6)
    for i in range(2):
        e = 1e-8 * jnp.eye(2)[i]
        slope = (values(inputs, constants + e) - values(inputs, constants - e)) / 2e-8
        np.testing.assert_allclose(both[1][:, i], slope, atol=1e-6, rtol=1e-6)


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


@pytest.mark.parametrize(
    "options, name",
    [
        ({"rise_time": 0.0}, "rise_time"),
        ({"lowest": -0.1}, "lowest"),
        ({"rise_time": [0.01, 0.02], "lowest": [0.0, 0.0, 0.0]}, "lowest"),
    ],
)
def test_bad_numbers_are_refused_by_name(kind, options, name):
    with pytest.raises(ValueError, match=f"`{name}`"):
        kind(**{key: np.asarray(value) for key, value in options.items()})


def test_muscles_of_li_and_todorov_are_filtered_as_in_their_model(float64):
    """To 63 % of an excitation of .3 in 61 ms, and back in 66 ms; by small steps of Euler's method."""
    own, steps = li_todorov_arm().muscle.activation, np.full(4000, 1e-5)
    a = np.zeros(2)  # of excitations .3 and 1
    for dt in steps:
        a = a + dt * muscle_references.li_todorov_activation_rate(a, np.array([0.3, 1.0]))
    np.testing.assert_allclose(own.advance(0.04, jnp.zeros(2), jnp.array([0.3, 1.0])), a, rtol=1e-3)
    risen = own.advance(0.0612, jnp.zeros(1), jnp.array([0.3]))
    np.testing.assert_allclose(risen, 0.3 * (1 - np.exp(-1)), rtol=1e-12)
    np.testing.assert_allclose(own.advance(0.066, jnp.ones(1), jnp.zeros(1)), np.exp(-1), rtol=1e-12)
