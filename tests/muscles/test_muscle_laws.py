"""Force by length, velocity and activation, finite everywhere, and the fibre on a compliant tendon."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import muscle_references
import numpy as np
import pytest
from jaxtyping import Array
from scipy.optimize import brentq

from popsim import muscles
from popsim.muscles import CompliantTendonHillMuscle, HillCurves

pytestmark = pytest.mark.slow

LAWS = {  # with the maximal shortening velocity, in optimal lengths per second
    "hill": (muscles.RigidTendonHillMuscle, 5.2 / 0.41),
    "thelen": (muscles.ThelenMuscle, 10.0),
    "mujoco": (muscles.MujocoMuscle, 1.5),
    "li_todorov": (muscles.BrownLoebMuscle.li_todorov, 5.72),
    "fast": (muscles.BrownLoebMuscle.fast, 7.39),
    "slow": (muscles.BrownLoebMuscle.slow, 4.06),
}
BUILD = {name: build for name, (build, _) in LAWS.items()}

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
    velocity = velocity * LAWS[name][1]
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


ALL = BUILD | {"relu": muscles.ReluMuscle, "compliant": muscles.CompliantTendonHillMuscle}
OPTIMAL, TENDON, STRONGEST = 0.137, 0.204, 414.0
ACTIVATIONS = [0.0, 1e-7, 1e-3, 0.005, 0.01, 0.3, 0.9, 1.0]
LENGTHS = [-1.6, -1.0, 0.0, 0.1, 0.4, 0.5, 0.725, 0.95, 1.0, 1.3, 1.4, 1.5, 1.66, 2.0, 2.5, 5.0, 10.0]
VELOCITIES = [-100.0, -12.7, -10.0, -5.72, -1.5, -1e-9, 0.0, 1e-9, 0.3, 1.5, 10.0, 100.0]
FIBRES = [-0.1, 0.0, 0.2, 1.0, 1.4, 1.66, 3.0, 12.0]


def grid(dtype, *axes):
    return [jnp.asarray(x.ravel(), dtype) for x in np.meshgrid(*axes, indexing="ij")]


def everything(muscle, state, activation, length, velocity):
    """All outputs of a muscle at one point, as one vector."""
    point = state, activation, length, velocity
    outputs = muscle.force(*point), muscle.fibre(*point), muscle.rate(*point), muscle.init(point[1], point[2])
    return jnp.concatenate(jax.tree.leaves(outputs))


@pytest.mark.full
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_and_gradients_are_finite_at_extremes(float64, name, dtype):
    muscle = jax.tree.map(lambda leaf: leaf.astype(dtype), ALL[name](800.0, OPTIMAL, tendon_length=TENDON))
    fibres = FIBRES if name == "compliant" else [1.0]
    fibre, activation, length, velocity = grid(dtype, fibres, ACTIVATIONS, LENGTHS, VELOCITIES)
    whole = TENDON + OPTIMAL * length

    def at_point(muscle, fibre, activation, whole, velocity):
        state = fibre[None] if name == "compliant" else None
        return everything(muscle, state, activation[None], whole[None], velocity[None])

    points = muscle, OPTIMAL * fibre, activation, whole, OPTIMAL * velocity
    axes = (None, 0, 0, 0, 0)
    values = jax.jit(jax.vmap(at_point, axes))(*points)
    slopes = jax.jit(jax.vmap(jax.jacrev(at_point, argnums=(0, 1, 2, 3, 4)), axes))(*points)
    assert values.dtype == dtype
    assert jnp.all(jnp.isfinite(values))
    assert jnp.all(values[:, 0] >= 0)
    for leaf in jax.tree.leaves(slopes):
        assert jnp.all(jnp.isfinite(leaf))


@pytest.fixture
def muscle(float64):
    return CompliantTendonHillMuscle(STRONGEST, OPTIMAL, tendon_length=TENDON)


def tendon_share(length, fibre):
    strain = max(length - fibre * OPTIMAL - TENDON, 0) / TENDON
    return (strain / 0.04) ** 2


def fibre_share(activation, fibre):
    isometric = muscle_references.hill_constants(activation, fibre)[0]
    return activation * isometric + muscle_references.hill_passive(fibre)


@pytest.mark.parametrize("activation", [0.01, 1.0])
def test_it_starts_where_tendon_and_fibre_pull_equally(muscle, activation):
    lengths = TENDON + OPTIMAL * np.linspace(0.3, 2.2, 30)
    expected: Any = [
        brentq(lambda x, whole=whole: tendon_share(whole, x) - fibre_share(activation, x), 0, 3, xtol=1e-14)
        for whole in lengths
    ]
    drive, whole, still = jnp.full(30, activation), jnp.asarray(lengths), jnp.zeros(30)
    state = eqx.filter_jit(muscle.init)(drive, whole)
    np.testing.assert_allclose(state / OPTIMAL, expected, rtol=1e-10)
    np.testing.assert_allclose(muscle.rate(state, drive, whole, still), 0.0, atol=1e-9)
    pull = [STRONGEST * fibre_share(activation, x) for x in expected]
    np.testing.assert_allclose(muscle.force(state, drive, whole, still), pull, rtol=1e-8)


def test_a_slack_muscle_has_no_length_and_no_force(muscle):
    whole, drive, still = jnp.array([0.0, 0.1, TENDON]), jnp.ones(3), jnp.zeros(3)
    state = muscle.init(drive, whole)
    np.testing.assert_array_equal(state, 0.0)
    np.testing.assert_array_equal(muscle.force(state, drive, whole, still), 0.0)


@pytest.mark.parametrize("argument", ["activation", "tendon_length"])
def test_the_gradient_of_the_start_is_that_of_the_equilibrium(float64, argument):
    values = {
        "activation": jnp.array([0.02, 0.3, 0.9]),
        "length": TENDON + OPTIMAL * jnp.array([0.8, 1.2, 1.7]),
        "tendon_length": jnp.full(3, TENDON),
        "optimal_length": jnp.full(3, OPTIMAL),
    }

    def start(x):
        given = values | {argument: x}
        muscle = CompliantTendonHillMuscle(
            STRONGEST, given["optimal_length"], tendon_length=given["tendon_length"]
        )
        return muscle.init(given["activation"], given["length"])

    x, h = values[argument], 1e-6
    slope = (start(x + h) - start(x - h)) / (2 * h)
    _, tangent = jax.jvp(start, (x,), (jnp.ones(3),))
    np.testing.assert_allclose(tangent, slope, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(jax.grad(lambda x: jnp.sum(start(x)))(x), tangent, rtol=1e-12)


@pytest.mark.parametrize("activation", [0.01, 1.0])
@pytest.mark.parametrize("length", [0.7, 1.3])
def test_fibre_velocity_is_the_inverse_of_the_force(float64, activation, length):
    curves = HillCurves()
    isometric, a_rel, b_rel = muscle_references.hill_constants(activation, length)
    greatest = isometric * b_rel / a_rel
    half_speed = 0.25 * isometric * b_rel / (a_rel + isometric)
    velocity = np.concatenate([np.linspace(-greatest, 0, 25), np.linspace(0, 8.9 * half_speed, 25)])
    force = muscle_references.fraction("hill", activation, length, velocity)
    found = curves.velocity(jnp.full(50, activation), jnp.full(50, length), jnp.asarray(force))
    np.testing.assert_allclose(found, velocity, rtol=1e-9, atol=1e-10)


def test_near_the_plateau_the_inverse_goes_on_as_its_tangent_up_to_a_bound(float64):
    curves = HillCurves()

    def velocity(way):
        return curves.velocity(jnp.ones(1), jnp.ones(1), 1 + 0.5 * way[None])[0]

    below, above, farther, far = (jnp.array(way) for way in (0.9 - 1e-9, 0.9 + 1e-9, 0.93, 20.0))
    np.testing.assert_allclose(velocity(below), velocity(above), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(velocity)(below), jax.grad(velocity)(above), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(velocity)(above), jax.grad(velocity)(farther), rtol=1e-12)
    np.testing.assert_allclose(velocity(far), 5.2 / 0.41)


def test_the_fibre_is_never_faster_than_an_unloaded_one(muscle, getkey):
    keys = jax.random.split(getkey(), 3)
    state = jax.random.uniform(keys[0], (500,), maxval=3 * OPTIMAL)
    activation = jax.random.uniform(keys[1], (500,))
    whole = jax.random.uniform(keys[2], (500,), maxval=1.0)
    velocity = muscle.rate(state, activation, whole, jnp.zeros(500)) / OPTIMAL
    assert jnp.all(jnp.abs(velocity) <= 5.2 / 0.41 + 1e-9)


def test_it_reports_the_fibre_it_moves(muscle):
    state, drive, whole, still = jnp.array([0.12]), jnp.array([0.4]), jnp.array([0.3298]), jnp.zeros(1)
    length, velocity = muscle.fibre(state, drive, whole, still)
    np.testing.assert_allclose(length, 0.12 / OPTIMAL)
    np.testing.assert_allclose(velocity, muscle.rate(state, drive, whole, still) / OPTIMAL)
    active = tendon_share(0.3298, 0.12 / OPTIMAL) - muscle_references.hill_passive(0.12 / OPTIMAL)
    expected = muscle_references.fraction("hill", 0.4, 0.12 / OPTIMAL, np.asarray(velocity))
    np.testing.assert_allclose(expected, active, rtol=1e-9)
