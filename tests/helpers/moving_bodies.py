"""Bodies that are simulated in a few trials by hand, and a made-up motion."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import popsim
from popsim.analysis.figures import BodyMotion


@eqx.filter_jit
def idle_states(plant, trial):
    """The states of a body at rest with the hand at each target position in turn, and no network."""
    idle = popsim.networks.NetworkState(jnp.zeros(1), jnp.zeros(plant.n_commands))

    def at_rest(position):
        return popsim.states.LoopState.at_rest(*popsim.plants.base.evaluate_rest(plant, position), idle)

    return jax.vmap(at_rest)(trial.targets.position)


def wave(n_steps=20, *, dt=0.01, **parts):
    """An arm that waves, with the given further parts of a motion."""
    angle = np.linspace(0.3, 1.2, n_steps)
    upper = 0.3 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    hand = upper + 0.25 * np.stack([np.cos(2 * angle), np.sin(2 * angle)], axis=1)
    return BodyMotion(dt, np.stack([0 * upper, upper, hand], axis=1), **parts)
