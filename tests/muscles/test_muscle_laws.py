"""Force by length, velocity and activation, against the equations in numpy."""

import equinox as eqx
import jax.numpy as jnp
import muscle_references
import numpy as np
import pytest
from jaxtyping import Array

from popsim import muscles

pytestmark = pytest.mark.slow

BUILD = {
    "hill": muscles.RigidTendonHillMuscle,
    "thelen": muscles.ThelenMuscle,
    "mujoco": muscles.MujocoMuscle,
    "li_todorov": muscles.BrownLoebMuscle.li_todorov,
    "fast": muscles.BrownLoebMuscle.fast,
    "slow": muscles.BrownLoebMuscle.slow,
}
MAX_VELOCITY = {
    "hill": 0.41**-1 * 5.2,
    "thelen": 10.0,
    "mujoco": 1.5,
    "li_todorov": 5.72,
    "fast": 7.39,
    "slow": 4.06,
}

each_law = pytest.mark.parametrize("name", muscle_references.MUSCLES)


@eqx.filter_jit
def force_share(muscle, *point):
    return muscle.force_share(*point)


def shares(name, activation, length, velocity):
    muscle = BUILD[name](1.0, 1.0)
    points = jnp.broadcast_arrays(*(jnp.asarray(x, float) for x in (activation, length, velocity)))
    return np.asarray(force_share(muscle, *(jnp.atleast_1d(x) for x in points)))


@each_law
@pytest.mark.parametrize("activation", [0.02, 0.6, 1.0])
def test_force_by_velocity(float64, name, activation):
    """And by length, from the shortest to the longest at which all laws are defined."""
    length, velocity = map(np.ravel, np.meshgrid(np.linspace(0.6, 1.55, 20), np.linspace(-1.2, 0.8, 41)))
    velocity = velocity * MAX_VELOCITY[name]
    expected = muscle_references.fraction(name, activation, length, velocity)
    actual = shares(name, activation, length, velocity)
    np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-13)


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


def test_relu_is_its_activation(float64):
    force = muscles.ReluMuscle(jnp.array([100.0, 200.0])).force(
        None, jnp.array([0.5, 1.0]), jnp.ones(2), jnp.ones(2)
    )
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


class DampedMuscle(muscles.AbstractRigidTendonMuscle):
    """A law whose fields are in another order than those of popsim's, and of which one more is needed."""

    optimal_length: Array
    max_isometric_force: Array
    tendon_length: Array
    damping: Array
    activation: muscles.AbstractActivation = muscles.FirstOrderActivation()

    def force_share(self, activation, length, velocity):
        return activation + self.damping * velocity


def test_a_users_law_takes_its_fields_in_its_own_order(float64):
    muscle = DampedMuscle(*jnp.array([0.1, 500.0, 0.2, 0.05]))
    force = muscle.force(None, jnp.full(1, 0.4), jnp.full(1, 0.3), jnp.full(1, 0.2))
    np.testing.assert_allclose(force, 500 * (0.4 + 0.05 * 2))
    with pytest.raises(TypeError, match="tendon_length"):
        DampedMuscle(*jnp.array([0.1, 500.0]))
