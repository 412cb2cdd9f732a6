"""Activation against its differential equation."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from popsim.muscles import FirstOrderActivation

pytestmark = pytest.mark.slow

LEVELS = np.array([0.0, 1e-6, 0.01, 0.1, 0.3, 0.5, 0.75, 0.999, 1.0])
NOW, DRIVE = (grid.ravel() for grid in np.meshgrid(LEVELS, LEVELS))
TIMES = [0.0, 1e-6, 1e-3, 0.01, 0.05, 0.3, 10.0]


@pytest.fixture
def dynamics(float64):
    return FirstOrderActivation()


def after(dynamics, t, activation: Any = NOW, excitation: Any = DRIVE):
    return eqx.filter_jit(dynamics.after)(jnp.asarray(t), jnp.asarray(activation), jnp.asarray(excitation))


def rate(a, u):
    tau = np.where(u > a, 0.015 * (0.5 + 1.5 * a), 0.05 / (0.5 + 1.5 * a))
    return (u - a) / tau


@pytest.mark.parametrize("t", TIMES[1:6])
def test_it_is_the_solution_of_its_equation(dynamics, t):
    exact = solve_ivp(lambda _, a: rate(a, DRIVE), (0, t), NOW, "DOP853", rtol=1e-12, atol=1e-14).y[:, -1]
    np.testing.assert_allclose(after(dynamics, t), exact, atol=2e-12)


@pytest.mark.parametrize("t", TIMES)
def test_rising_is_solved_to_the_last_digits(dynamics, t):
    rising = DRIVE > NOW
    a0, u = NOW[rising], DRIVE[rising]
    low, high = np.zeros_like(u), np.full_like(u, t / 0.015 / 0.5 + 1)
    for _ in range(100):
        g = (low + high) / 2
        too_far = (0.5 + 1.5 * u) * g + 1.5 * (u - a0) * np.expm1(-g) > t / 0.015
        low, high = np.where(too_far, low, g), np.where(too_far, g, high)
    np.testing.assert_allclose(after(dynamics, t)[rising], u - (u - a0) * np.exp(-low), atol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_never_overshoots(float64, dtype):
    dynamics = jax.tree.map(lambda x: x.astype(dtype), FirstOrderActivation())
    a, u = jnp.asarray(NOW, dtype), jnp.asarray(DRIVE, dtype)
    for t in np.geomspace(1e-7, 100, 40):
        later = after(dynamics, jnp.asarray(t, dtype), a, u)
        assert later.dtype == dtype
        rises, rounding = u > a, jnp.finfo(dtype).eps
        assert jnp.all(jnp.where(rises, later <= u, later >= u))
        assert jnp.all(jnp.where(rises, later >= a - rounding, later <= a + rounding))


def test_no_time_and_no_difference_change_nothing(dynamics):
    np.testing.assert_allclose(after(dynamics, 0.0), NOW, atol=2e-16)
    np.testing.assert_array_equal(after(dynamics, 0.02, LEVELS, LEVELS), LEVELS)


def test_it_settles_at_a_constant_drive(dynamics):
    np.testing.assert_allclose(after(dynamics, 10.0), DRIVE, atol=1e-12)


def test_two_steps_are_one_long_step(dynamics):
    first, second = 0.007, 0.013
    two = after(dynamics, second, after(dynamics, first))
    np.testing.assert_allclose(two, after(dynamics, first + second), atol=1e-13)


def test_rise_and_fall_times_are_those_given(float64):
    """At a third of full activation, near which the equation is linear with just these time constants."""
    dynamics, level = FirstOrderActivation(rise_time=0.02, fall_time=0.06), 1 / 3
    gap = 1e-6 * jnp.array([-1.0, 1.0])
    times = jnp.array([0.02, 0.06])
    left = jax.vmap(lambda t, a: dynamics.after(t, a[None], jnp.array([level]))[0] - level)(
        times, level + gap
    )
    np.testing.assert_allclose(left, gap * np.exp(-1), rtol=2e-6)


def test_each_muscle_may_have_its_own_times(float64):
    dynamics = FirstOrderActivation(rise_time=jnp.array([0.01, 0.02]), lowest=jnp.array([0.0, 0.1]))
    risen = after(dynamics, 0.01, np.zeros(2), np.ones(2))
    assert risen[0] > risen[1]
    np.testing.assert_allclose(after(dynamics, 9.0, np.ones(2), np.zeros(2)), [0.0, 0.1], atol=1e-12)


def test_gradients_agree_with_central_differences(dynamics, getkey):
    inputs = jax.random.uniform(getkey(), (40, 3), minval=0.05, maxval=0.95)
    inputs = inputs[jnp.abs(inputs[:, 1] - inputs[:, 2]) > 1e-3] * jnp.array([0.1, 1.0, 1.0])
    constants = jnp.array([0.015, 0.05])

    def one(point, constants):
        dynamics = FirstOrderActivation(*constants)
        return dynamics.after(point[0], point[1:2], point[2:3])[0]

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


def test_at_its_drive_the_slope_is_that_of_falling(dynamics):
    def later(a):
        return dynamics.after(0.01, a[None], jnp.array([0.4]))[0]

    here, above = (jax.grad(later)(jnp.array(a)) for a in (0.4, 0.4 + 1e-9))
    np.testing.assert_allclose(here, above, rtol=1e-6)


def test_second_derivatives_are_right_too(dynamics):
    def risen(u):
        return dynamics.after(0.01, jnp.array([0.2]), u[None])[0]

    u, h = jnp.array(0.7), 1e-5
    slope = (jax.grad(risen)(u + h) - jax.grad(risen)(u - h)) / (2 * h)
    np.testing.assert_allclose(jax.grad(jax.grad(risen))(u), slope, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("t", TIMES)
def test_gradients_are_finite_everywhere(float64, dtype, t):
    dynamics = jax.tree.map(lambda x: x.astype(dtype), FirstOrderActivation(lowest=0.001))
    a, u = jnp.asarray(NOW, dtype), jnp.asarray(DRIVE, dtype)

    def total(dynamics, t, a, u):
        return jnp.sum(dynamics.after(t, a, u))

    gradients = jax.jit(jax.grad(total, argnums=(0, 1, 2, 3)))(dynamics, jnp.asarray(t, dtype), a, u)
    assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(gradients))


def test_excitation_is_held_in_bounds(float64):
    dynamics = FirstOrderActivation(lowest=0.1)
    drive = jnp.array([-1.0, 0.05, 0.1, 1.0, 1.5])

    def later(u):
        return dynamics.after(0.01, jnp.full(5, 0.5), u)

    np.testing.assert_array_equal(later(drive), later(jnp.clip(drive, 0.1, 1.0)))
    slope = jnp.diag(jax.jacobian(later)(drive))
    np.testing.assert_array_equal(slope[jnp.array([0, 1, 4])], 0.0)
    within = jnp.diag(jax.jacobian(later)(jnp.array([0.5, 0.5, 0.1 + 1e-9, 1.0 - 1e-9, 0.5])))
    np.testing.assert_allclose(slope[2:4], within[2:4] / 2, rtol=1e-6)


@pytest.mark.parametrize(
    "options, name",
    [
        ({"rise_time": 0.0}, "rise_time"),
        ({"fall_time": -0.1}, "fall_time"),
        ({"lowest": 1.1}, "lowest"),
        ({"lowest": -0.1}, "lowest"),
        ({"rise_time": [0.01, 0.02], "lowest": [0.0, 0.0, 0.0]}, "lowest"),
        ({"rise_time": [[0.01, 0.02]]}, "rise_time"),
    ],
)
def test_bad_numbers_are_refused_by_name(options, name):
    with pytest.raises(ValueError, match=f"`{name}`"):
        FirstOrderActivation(**{key: np.asarray(value) for key, value in options.items()})
