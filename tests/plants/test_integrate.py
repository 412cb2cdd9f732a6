import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from bodies import ARMS, PLANTS
from reference import exact_trajectory
from short_form import every_nth, mostly_in_full

from popsim.plants import (
    JointState,
    Load,
    PointMass,
    PointMassState,
    advance,
    simulate_plant,
)
from popsim.plants._integrate import integrate

SOLVERS = {
    "Euler": (diffrax.Euler, 1),
    "Heun": (diffrax.Heun, 2),
    "Bosh3": (diffrax.Bosh3, 3),
    "Tsit5": (diffrax.Tsit5, 5),
}
NOT_EXACT_ANYWAY = {name: build for name, build in PLANTS.items() if name != "point mass"}
COMMAND, FORCE = (1.0, -0.5), (0.4, 0.3)


def moving(plant):
    """A state, and a time within which no arm meets a joint stop and errors of order 5 exceed round-off."""
    if isinstance(plant, PointMass):
        return PointMassState(jnp.array([0.1, 0.0]), jnp.array([0.5, -1.0])), 1.0
    return JointState(jnp.array([0.8, 1.2]), jnp.array([-2.0, 4.0])), 0.2


@eqx.filter_jit
def after_one_step(plant):
    state, dt = moving(plant)
    return plant.hand(advance(plant, state, jnp.array(COMMAND), Load(lambda hand: jnp.array(FORCE)), dt=dt))


def exactly(plant):
    commands, forces = jnp.broadcast_to(jnp.array([COMMAND, FORCE])[:, None], (2, 40, 2))
    state, dt = moving(plant)
    hand = exact_trajectory(plant, state, commands, forces, dt / 40).hand
    return jax.tree.map(lambda leaf: leaf[-1], hand)


def error(plant, exact):
    hand = after_one_step(plant)
    return jnp.linalg.norm(hand.position - exact.position) + jnp.linalg.norm(hand.velocity - exact.velocity)


@pytest.mark.parametrize("body", mostly_in_full(NOT_EXACT_ANYWAY, ["arm26_skeleton"]))
@pytest.mark.parametrize("scheme", every_nth(SOLVERS, 2))
def test_error_falls_with_the_order_of_the_solver(float64, body, scheme):
    solver, order = SOLVERS[scheme]
    build = NOT_EXACT_ANYWAY[body]
    exact = exactly(build())
    coarse, fine = (error(build(solver=solver(), n_substeps=n), exact) for n in (24, 48))
    assert fine > 1e-13
    observed = jnp.log2(coarse / fine)
    assert order - 0.1 < observed < order + (0.1 if order < 5 else 0.9)  # order 5 is reached from above


@eqx.filter_jit
def by_default(plant, commands):
    return simulate_plant(plant, commands, dt=0.01).hand.position


RANDOM_COMMANDS = {
    "point mass": (PointMass, 10.0),
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


OF_DIFFRAX = [
    (diffrax.Euler, 1),
    *(
        pytest.param(solver, n_substeps, marks=pytest.mark.full)
        for solver, n_substeps in [(diffrax.Heun, 9), (diffrax.Tsit5, 2), (diffrax.LeapfrogMidpoint, 2)]
    ),
]
"""The last is not a Runge-Kutta method: it takes its own steps."""


@pytest.mark.parametrize("solver, n_substeps", OF_DIFFRAX)
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

    @jax.jit
    def end_and_gradient(y):
        ends = [at(y) for at in (ours, of_diffrax)]
        pulls = [jax.vjp(at, y)[1](ends[0])[0] for at in (ours, of_diffrax)]
        return (*ends, *pulls)

    end, end_there, gradient, gradient_there = end_and_gradient(start)
    assert eqx.tree_equal(end, end_there, rtol=1e-13, atol=1e-13)
    assert eqx.tree_equal(gradient, gradient_there, rtol=1e-12, atol=1e-12)
    if solver is not diffrax.LeapfrogMidpoint:
        _, pushed = jax.jit(lambda y: jax.jvp(ours, (y,), (y,)))(start)
        product = sum(jnp.vdot(a, b) for a, b in zip(*map(jax.tree.leaves, (pushed, end)), strict=True))
        there = sum(jnp.vdot(a, b) for a, b in zip(*map(jax.tree.leaves, (start, gradient)), strict=True))
        assert jnp.allclose(product, there, rtol=1e-12)
