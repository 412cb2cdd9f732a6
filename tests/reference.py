"""Exact solutions to compare the integration of plants with."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from popsim.plants import PlantTrajectory


def exact_trajectory(plant, state, commands, forces, dt):
    """What `simulate_plant` approximates: an adaptive solver of order 8 at a tolerance of 1e-11."""
    return _exact_trajectory(plant, state, commands, forces, jnp.asarray(dt))


@eqx.filter_jit
def _exact_trajectory(plant, state, commands, forces, dt):
    control = diffrax.PIDController(rtol=1e-11, atol=1e-13)

    def step(state, driven_by):
        term = diffrax.ODETerm(lambda t, y, args: plant.vector_field(y, *driven_by))
        solution = diffrax.diffeqsolve(
            term,
            diffrax.Dopri8(),
            t0=0.0,
            t1=dt,
            dt0=dt / 4,
            y0=state,
            stepsize_controller=control,
            adjoint=diffrax.ForwardMode(),
        )
        state = jax.tree.map(lambda leaf: leaf[-1], solution.ys)
        return state, PlantTrajectory(state, plant.hand(state))

    return jax.lax.scan(step, state, (commands, forces))[1]
