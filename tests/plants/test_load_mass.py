"""A mass in the hand against the equations of bodies that carry it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import reach, relay_loop, stacked

import popsim
from popsim import plants
from popsim.interventions import InterventionSchedule, LoadMass
from popsim.plants import JointState, Load

MASS = 1.7  # kg
FORCE = (3.0, -2.0)  # N


def laden(mass=MASS):
    return Load(lambda hand: jnp.array(FORCE), hand_mass=jnp.array(mass))


def carrying(mass, n_steps=12, since=0):
    active = jnp.arange(n_steps) >= since
    return {"load mass": InterventionSchedule(jnp.array(mass), active)}


def test_a_mass_that_carries_a_mass_is_their_sum(float64, getkey):
    """While they are pushed by the command and by a field."""
    field = {"curl field": InterventionSchedule(jnp.array(6.0), jnp.ones(12, bool))}
    held = (LoadMass(), popsim.interventions.CurlField())

    def course(mass, interventions):
        loop = relay_loop({}, plant=plants.PointMass(mass, damping=1.5), interventions=held)
        return popsim.simulate(loop, reach(interventions=interventions), key=getkey())

    one, both = course(1.0, field | carrying(1.2)), course(2.2, field)
    np.testing.assert_allclose(one.hand.position, both.hand.position, rtol=1e-12)
    np.testing.assert_allclose(one.external_force, both.external_force, rtol=1e-10)


def test_a_two_link_arm_carries_a_mass_as_its_equation_says(arm):
    """(M + m J'J) dw/dt = J' F - h - B w - m J' (dJ/dt) w, against torques as well."""
    state = JointState(jnp.array([0.7, 1.4]), jnp.array([2.0, -3.0]))
    torque = jnp.array([1.0, 0.4])
    jacobian = arm.jacobian(state.angle)
    turning = jax.jvp(arm.jacobian, (state.angle,), (state.velocity,))[1] @ state.velocity
    pull = torque + jacobian.T @ (jnp.array(FORCE) - MASS * turning)
    pull = pull - arm.coriolis(state) - arm.friction @ state.velocity
    inertia = arm.inertia_matrix(state.angle) + MASS * jacobian.T @ jacobian
    rate = arm.vector_field(0.0, state, torque, laden())
    np.testing.assert_allclose(rate.velocity, jnp.linalg.solve(inertia, pull), rtol=1e-10)
    np.testing.assert_array_equal(rate.angle, state.velocity)


class Slider(plants.PointMass):
    """A hand in honey, which no force accelerates: its velocity is the force on it."""

    def dynamics(self, state, force, external_force):
        return plants.PointMassState(force + external_force, jnp.zeros(2))


def test_a_body_that_would_not_feel_the_mass_is_refused():
    trials = stacked(reach(interventions=carrying(1.0)))
    relay_loop({}, interventions=(LoadMass(),)).check(trials)
    loop = relay_loop({}, plant=Slider(), interventions=(LoadMass(),))
    loop.check(stacked(reach()))
    with pytest.raises(ValueError, match="`plant`.*mass.*Slider"):
        loop.check(trials)
