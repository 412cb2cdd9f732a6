import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from bodies import ARMS, PLANTS
from reference import exact_trajectory
from short_form import every_nth, every_nth_row

from popsim import plants
from popsim.plants._integrate import integrate


def test_a_substep_is_a_step_of_its_share(float64):
    whole, half = (plants.TwoLinkArm.arm26_skeleton(solver=diffrax.Heun(), n_substeps=n) for n in (2, 1))
    start = plants.JointState(jnp.array([0.8, 1.2]), jnp.array([-2.0, 4.0]))

    def moved(body, state, dt):
        return plants.advance(body, state, jnp.array([1.0, -0.5]), plants.Load(), dt=dt)

    twice = moved(half, moved(half, start, 0.1), 0.1)
    assert eqx.tree_equal(moved(whole, start, 0.2), twice, rtol=1e-13, atol=1e-13)


@eqx.filter_jit
def by_default(plant, commands):
    return plants.simulate_plant(plant, commands, dt=0.01).hand.position


RANDOM_COMMANDS = {
    "point mass": (plants.PointMass, 10.0),
    "damped mass": (PLANTS["damped mass"], 10.0),
    **{name: (build, 5.0) for name, build in ARMS.items()},
}


@pytest.mark.parametrize("name", every_nth(RANDOM_COMMANDS, 4))
def test_default_integration_stays_within_1_mm_under_random_commands(float64, getkey, name):
    """0.4 s at dt 0.01 with commands (N, N m) that jump at every step; some runs hit the joint stops."""
    build, strength = RANDOM_COMMANDS[name]
    plant = build()
    start, still = plant.rest_state(plant.workspace.center), jnp.zeros((40, 2))
    for key in jax.random.split(getkey(), 15):
        commands = jax.random.uniform(key, (40, 2), minval=-strength, maxval=strength)
        exact = exact_trajectory(plant, start, commands, still, 0.01).hand.position
        errors = jnp.linalg.norm(by_default(plant, commands) - exact, axis=-1)
        assert jnp.max(errors) < 1e-3
        assert jnp.linalg.norm(exact[-1] - plant.workspace.center) > 1e-3


OF_DIFFRAX = [(diffrax.Tsit5, 2), (diffrax.Euler, 1), (diffrax.Heun, 9), (diffrax.LeapfrogMidpoint, 2)]
"""The last is not a Runge-Kutta method: it takes its own steps."""


@pytest.mark.parametrize("solver, n_substeps", every_nth_row(OF_DIFFRAX, 3))
def test_solvers_are_those_of_diffrax(float64, solver, n_substeps):
    start, dt = {"x": jnp.array([0.4, -0.2]), "y": jnp.array(0.3)}, 0.5

    def rate(t, y):
        return {"x": jnp.sin(5 * t + 0.1) * y["x"] + y["y"] ** 2, "y": jnp.cos(y["x"][0] + t)}

    def ours(y):
        return integrate(rate, y, solver(), n_substeps, dt)

    def of_diffrax(y):
        term = diffrax.ODETerm(lambda t, y, args: rate(t, y))
        solution = diffrax.diffeqsolve(term, solver(), 0.0, dt, dt / n_substeps, y)
        return jax.tree.map(lambda leaf: leaf[-1], solution.ys)

    end, end_there = jax.jit(lambda y: (ours(y), of_diffrax(y)))(start)
    assert eqx.tree_equal(end, end_there, rtol=1e-13, atol=1e-13)
