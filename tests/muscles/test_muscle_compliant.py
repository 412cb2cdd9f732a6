"""The fibre on a compliant tendon: equilibrium, inverse and movement."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import muscle_references
import numpy as np
import pytest
from scipy.optimize import brentq

from popsim.muscles import CompliantTendonHillMuscle, HillCurves

pytestmark = pytest.mark.slow

OPTIMAL, TENDON, STRONGEST = 0.137, 0.204, 414.0


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
