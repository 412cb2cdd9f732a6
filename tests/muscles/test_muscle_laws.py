"""Force by length, velocity and activation, against the equations in numpy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import muscle_references
import numpy as np
import pytest

from popsim.muscles import BrownLoebMuscle, MujocoMuscle, ReluMuscle, RigidTendonHillMuscle, ThelenMuscle

pytestmark = pytest.mark.slow

BUILD = {
    "hill": RigidTendonHillMuscle,
    "thelen": ThelenMuscle,
    "mujoco": MujocoMuscle,
    "li_todorov": BrownLoebMuscle.li_todorov,
    "fast": BrownLoebMuscle.fast,
    "slow": BrownLoebMuscle.slow,
}
MAX_VELOCITY = {
    "hill": 0.41**-1 * 5.2,
    "thelen": 10.0,
    "mujoco": 1.5,
    "li_todorov": 5.72,
    "fast": 7.39,
    "slow": 4.06,
}
PLATEAU = {"hill": 1.5, "thelen": 1.4, "mujoco": 1.2, "li_todorov": 1.58, "fast": 1.53, "slow": 1.63}

each_law = pytest.mark.parametrize("name", muscle_references.MUSCLES)


@eqx.filter_jit
def force_share(muscle, *point):
    return muscle.force_share(*point)


def shares(name, activation, length, velocity):
    muscle = BUILD[name](1.0, 1.0)
    points = jnp.broadcast_arrays(*(jnp.asarray(x, float) for x in (activation, length, velocity)))
    return np.asarray(force_share(muscle, *(jnp.atleast_1d(x) for x in points)))


def curve(name, activation=1.0, length=1.0):
    """Force by velocity, as a function of one number."""
    muscle = BUILD[name](1.0, 1.0)
    return lambda v: muscle.force_share(jnp.array([activation]), jnp.array([length]), v[None])[0]


@each_law
@pytest.mark.parametrize("activation", [0.02, 0.25, 0.6, 1.0])
def test_isometric_force_by_length(float64, name, activation):
    length = np.linspace(0.6, 1.55, 50)
    expected = muscle_references.fraction(name, activation, length, 0.0)
    np.testing.assert_allclose(shares(name, activation, length, 0.0), expected, rtol=1e-12, atol=1e-13)


@each_law
@pytest.mark.parametrize("activation", [0.02, 0.25, 0.6, 1.0])
@pytest.mark.parametrize("length", [0.7, 1.0, 1.3, 1.5])
def test_force_by_velocity(float64, name, activation, length):
    velocity = np.linspace(-1.2, 0.8, 50) * MAX_VELOCITY[name]
    expected = muscle_references.fraction(name, activation, length, velocity)
    actual = shares(name, activation, length, velocity)
    np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-13)


@each_law
def test_no_force_at_the_greatest_shortening_velocity(float64, name):
    velocity = -MAX_VELOCITY[name] * np.array([0.9, 0.99, 1.0, 1.01, 2.0])
    force = shares(name, 1.0, 1.0, velocity)
    assert force[0] > force[1] >= 0 and force[0] > 1e-3
    np.testing.assert_allclose(force[2:], 0.0, atol=1e-12)


@each_law
def test_plateau_in_lengthening(float64, name):
    push = muscle_references.push_of(name, 1.0) if name in muscle_references.BROWN else 0.0
    isometric = shares(name, 1.0, 1.0, 0.0)
    recruited = isometric / (1 + push)
    fast = shares(name, 1.0, 1.0, [1e3, 1e9])
    np.testing.assert_allclose(fast[1], recruited * (PLATEAU[name] + push), rtol=1e-8)
    assert fast[0] <= fast[1]


@each_law
@pytest.mark.parametrize("length", [0.8, 1.0, 1.2])
def test_force_is_continuous_at_rest_and_at_the_optimal_length(float64, name, length):
    around = shares(name, 0.7, length, [-1e-10, 0.0, 1e-10])
    np.testing.assert_allclose(around, around[1], atol=1e-8)
    around = shares(name, 0.7, [1 - 1e-10, 1.0, 1 + 1e-10], -0.5)
    np.testing.assert_allclose(around, around[1], atol=1e-8)


@pytest.mark.parametrize("name, ratio", [("hill", 2.0), ("thelen", 2.0), ("mujoco", 1.0)])
@pytest.mark.parametrize("activation", [0.1, 1.0])
@pytest.mark.parametrize("length", [0.8, 1.0, 1.2])
def test_slope_at_rest_changes_by_the_known_ratio(float64, name, ratio, activation, length):
    slope = jax.grad(curve(name, activation, length))
    shortening, rest, lengthening = (slope(jnp.array(v)) for v in (-1e-9, 0.0, 1e-9))
    np.testing.assert_allclose(lengthening / shortening, ratio, rtol=1e-6)
    np.testing.assert_allclose(
        rest, (shortening + lengthening) / 2, rtol=1e-6
    )  # a subgradient, not half of one


def test_hill_has_half_its_force_where_biomechanics_says(float64):
    np.testing.assert_allclose(shares("hill", 1.0, 1.0, -2.9), 0.495, atol=1e-3)


def test_thelen_shortens_more_slowly_when_less_active(float64):
    velocity = -10 * (0.25 + 0.75 * 0.4) * np.array([0.99, 1.0, 1.01])
    force = shares("thelen", 0.4, 1.0, velocity)
    assert force[0] > 0
    np.testing.assert_allclose(force[1:], 0.0, atol=1e-12)


def test_thelen_goes_on_straight_beyond_two_optimal_lengths(float64):
    length = np.array([2 - 1e-9, 2 + 1e-9, 3.0, 4.0, 10.0])
    force = shares("thelen", 0.0, length, 0.0)
    np.testing.assert_allclose(force[0], force[1], rtol=1e-7)
    np.testing.assert_allclose(force[3] - force[2], (force[4] - force[3]) / 6, rtol=1e-9)
    assert force[-1] < 3000


@pytest.mark.parametrize("name", muscle_references.BROWN)
def test_brown_force_goes_to_zero_with_activation(float64, name):
    force = shares(name, [0.0, 1e-6, 1e-3, 2e-3, 1e-2], 1.5, 0.0)
    assert force[0] == 0 and np.all(np.diff(force) > 0)
    np.testing.assert_allclose(force[1], force[2] * 1e-3, rtol=1e-9)


@pytest.mark.parametrize("name", muscle_references.BROWN)
def test_brown_force_never_pushes_and_stays_bounded(float64, name):
    length, velocity = (x.ravel() for x in np.meshgrid(np.linspace(0, 10, 101), np.linspace(-20, 20, 81)))
    force = shares(name, 1.0, length, velocity)
    assert np.all((force >= 0) & (force < 2))


@pytest.mark.parametrize("name", muscle_references.BROWN)
def test_brown_force_grows_with_velocity_at_any_length(float64, name):
    muscle = BUILD[name](1.0, 1.0)
    length, velocity = np.meshgrid(np.linspace(0, 3, 61), np.linspace(-8, 8, 161))
    force = muscle.force_velocity(jnp.asarray(length.ravel()), jnp.asarray(velocity.ravel()))
    assert jnp.all((force >= 0) & jnp.isfinite(force))
    assert jnp.all(jnp.diff(force.reshape(length.shape), axis=0) >= 0)


def test_relu_is_its_activation(float64):
    force = ReluMuscle(jnp.array([100.0, 200.0])).force(None, jnp.array([0.5, 1.0]), jnp.ones(2), jnp.ones(2))
    np.testing.assert_array_equal(force, [50.0, 200.0])


@each_law
def test_force_and_fibre_are_in_si_units(float64, name):
    """The fibre is the musculotendon less the tendon; velocities are in optimal lengths per second."""
    muscle = BUILD[name](800.0, 0.125, tendon_length=0.2)
    length, velocity = jnp.array([0.35, 0.3, 0.1]), jnp.array([-0.1, 0.05, 0.0])
    activation = jnp.full(3, 0.6)
    assert muscle.init(activation, length) is None
    assert muscle.rate(None, activation, length, velocity) is None
    fibre_length, fibre_velocity = muscle.fibre(None, activation, length, velocity)
    np.testing.assert_allclose(fibre_length, [1.2, 0.8, 0.0])
    np.testing.assert_allclose(fibre_velocity, [-0.8, 0.4, 0.0])
    force = muscle.force(None, activation, length, velocity)[:2]
    expected = muscle_references.fraction(name, 0.6, np.array([1.2, 0.8]), np.array([-0.8, 0.4]))
    np.testing.assert_allclose(force, 800 * expected, rtol=1e-12)
