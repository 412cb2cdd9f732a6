"""The walls of a force channel, alone and against every body."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import DT, reach, relay_loop
from short_form import mostly_in_full

import popsim
from popsim import HandState, plants
from popsim.interventions import ForceChannel, ForceChannelParameters, InterventionSchedule


def channel(parameters, n_steps=20):
    return {"force channel": InterventionSchedule(parameters, jnp.ones(n_steps, bool))}


def test_the_walls_push_towards_the_line_and_not_along_it():
    """F = -(K d + B dd/dt) n, with d the signed way from the line along its normal n."""
    parameters = ForceChannelParameters([0.1, 0.0], [0.6, 0.8], stiffness=1500.0, damping=40.0)
    normal, hand = np.array([-0.8, 0.6]), HandState(jnp.array([0.25, 0.1]), jnp.array([0.3, -0.2]))
    d, rate = normal @ (hand.position - parameters.start), normal @ hand.velocity
    force = ForceChannel().load(parameters).hand_force(hand)
    np.testing.assert_allclose(force, -(1500 * d + 40 * rate) * normal, rtol=1e-5)
    assert abs(d) > 0.01 and abs(rate) > 0.1
    for along in (0.0, 0.7):
        on_line = HandState(parameters.start + along * parameters.direction, along * parameters.direction)
        np.testing.assert_allclose(ForceChannel().load(parameters).hand_force(on_line), 0.0, atol=1e-3)
    tube = ForceChannelParameters(np.zeros(3), [0.0, 0.0, 1.0])  # in space
    hand = HandState(jnp.array([0.01, -0.02, 0.3]), jnp.array([0.1, 0.0, 0.5]))
    force = ForceChannel().load(tube).hand_force(hand)
    np.testing.assert_allclose(force, [-20 - 5, 40, 0], rtol=1e-6)


def test_a_channel_goes_from_start_to_target_of_each_trial():
    starts, targets = jnp.zeros((2, 2)), jnp.array([[0.1, 0.0], [0.03, 0.04]])
    stacked = ForceChannelParameters.between(starts, targets, stiffness=1000.0)
    np.testing.assert_allclose(stacked.direction, [[1, 0], [0.6, 0.8]], rtol=1e-6)
    np.testing.assert_array_equal(stacked.stiffness, [1000.0, 1000.0])
    np.testing.assert_array_equal(stacked.damping, [50.0, 50.0])


def test_a_mass_swings_against_the_wall_as_in_closed_form(float64, getkey):
    """And the force that is recorded is that of the wall at the start of each step."""
    mass, start = 1.0, 0.01
    loop = relay_loop(
        {}, plant=plants.PointMass(mass, n_substeps=50), command=(0.0, 0.0), interventions=(ForceChannel(),)
    )
    walls = channel(ForceChannelParameters([0.0, 0.0], [1.0, 0.0]))
    states = popsim.simulate(loop, reach(20, start=(0.0, start), interventions=walls), key=getkey())
    rate = np.roots([mass, 50.0, 2000.0])[0]
    time = DT * np.arange(1, 21)
    expected = start * (np.exp(rate * time) * (1 + 1j * rate.real / rate.imag)).real
    np.testing.assert_allclose(states.hand.position[:, 1], expected, atol=1e-6)
    force = -2000 * states.hand.position[:-1, 1] - 50 * states.hand.velocity[:-1, 1]
    np.testing.assert_allclose(states.external_force[1:, 1], force, rtol=1e-12)
    np.testing.assert_array_equal(states.external_force[0], [0.0, -2000 * start])


TORQUES = (1.5, -1.0)
BODIES = {
    "point mass": (plants.PointMass, (10.0, -8.0)),
    "li_todorov skeleton": (functools.partial(plants.TwoLinkArm.li_todorov, n_substeps=4), TORQUES),
    "arm26": (plants.arm26, (0.2, 0.0, 0.1, 0.0, 0.0, 0.0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_in_full(BODIES, short=("point mass",)))
def test_the_substeps_that_the_docstring_names_are_enough(float64, getkey, name):
    """Within 5 % of the greatest force of what 32 substeps give, across eight channels."""
    build, command = BODIES[name]
    starts = jnp.broadcast_to(build().workspace.center, (8, 2))
    angles = jnp.linspace(0, jnp.pi, 8, endpoint=False)
    directions = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)

    def forces(plant):
        loop = relay_loop({}, plant=plant, command=command, interventions=(ForceChannel(),))

        def run(start, direction):
            walls = channel(ForceChannelParameters(start, direction))
            return popsim.simulate(loop, reach(20, start=start, interventions=walls), key=jax.random.key(0))

        return jax.jit(jax.vmap(lambda *walls: run(*walls).external_force))(starts, directions)

    exact = forces(build(n_substeps=32))
    assert jnp.max(jnp.abs(exact)) > 1.0
    np.testing.assert_allclose(forces(build()), exact, atol=0.05 * jnp.max(jnp.abs(exact)))
