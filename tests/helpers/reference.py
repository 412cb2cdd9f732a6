"""Exact solutions to compare the integration of plants with."""

import equinox as eqx

from popsim.plants import simulate_plant_adaptively


@eqx.filter_jit
def exact_trajectory(plant, state, commands, forces, dt):
    """What `simulate_plant` approximates, at a tolerance of 1e-11."""
    return simulate_plant_adaptively(
        plant, commands, initial_state=state, external_force=forces, dt=dt, rtol=1e-11, atol=1e-13
    )
