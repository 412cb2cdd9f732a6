"""A network that is transparent to tests, and trials to run it on."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp

import popsim

DT = 0.01


class Relay(popsim.networks.AbstractNetwork):
    """Its hidden units are what it receives; its output is the same command at every step."""

    command: jax.Array
    n_inputs: int = eqx.field(static=True)
    n_outputs: int = eqx.field(static=True, default=2)

    def init(self, *, key):
        return jnp.zeros(self.n_inputs)

    def step(self, inputs, hidden, *, key):
        return inputs

    def read_out(self, hidden):
        return self.command


def relay_loop(channels, *, plant=None, command=(1.0, -0.5), **options):
    """A loop in which a relay pushes a mass."""
    plant = popsim.plants.PointMass() if plant is None else plant
    n_inputs = popsim.n_network_inputs(jax.tree.map(lambda leaf: leaf[None], reach()), plant, channels)
    relay = Relay(jnp.array(command), n_inputs, plant.n_commands)
    return popsim.SensorimotorLoop(relay, plant, channels, dt=DT, **options)


def reach(n_steps=12, *, start=(0.02, 0.03), target=(0.1, 0.0), interventions=None, dt=DT):
    """One reach of a mass."""
    trial = popsim.tasks.reach_trial(jnp.array(start), jnp.array(target), n_steps=n_steps, dt=dt)
    return dataclasses.replace(trial, interventions=interventions or {})


def stacked(*trials):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trials)
