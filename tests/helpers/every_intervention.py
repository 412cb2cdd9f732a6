"""Every intervention of popsim with parameters that show, and a loop that holds them all."""

import jax
import jax.numpy as jnp
from relay import DT, reach

import popsim
from popsim import interventions

N_UNITS, N_STEPS, ONSET = 4, 12, 6
ONLY_FIRST = jnp.eye(N_UNITS)[0]
OF_NETWORK = {
    interventions.UnitNoise(): jnp.array(0.3),
    interventions.ClampUnits(): interventions.ClampUnitsParameters(ONLY_FIRST, 0.7 * ONLY_FIRST),
    interventions.SilenceUnits(): ONLY_FIRST,
    interventions.StimulateUnits(): 0.5 * ONLY_FIRST,
    interventions.UnitInput(): 2.0 * ONLY_FIRST,
}
OF_LOOP = OF_NETWORK | {
    interventions.FeedbackNoise("vision"): jnp.array(0.1),
    interventions.CommandNoise(): jnp.array([0.1, 0.2]),
    interventions.ForceNoise(): jnp.array(0.5),
    interventions.ConstantForce(): jnp.array([1.0, 2.0]),
    interventions.CurlField(): jnp.array(5.0),
    interventions.ViscousField(): -4.0 * jnp.eye(2),
    interventions.ElasticField(): interventions.ElasticFieldParameters(30 * jnp.eye(2), jnp.zeros(2)),
    interventions.ForceChannel(): interventions.ForceChannelParameters.between(jnp.zeros(2), jnp.ones(2)),
    interventions.JointTorque(): jnp.array([0.5, -1.0]),
    interventions.LoadMass(): jnp.array(0.8),
    interventions.CursorRotation(): jnp.array(0.5),
    interventions.CursorGain(): jnp.array(1.5),
    interventions.CursorShift(): jnp.array([0.01, -0.02]),
}
OF_NETWORK_MODEL = OF_NETWORK | {interventions.InputNoise(): jnp.array(0.2)}


def noisy_loop(held=()):
    """A loop with noise and delays, that holds interventions."""
    plant = popsim.plants.PointMass(1.3, damping=2.0)
    channels = {
        "vision": popsim.SensoryChannel(popsim.vision, delay=0.02, noise=popsim.GaussianNoise(0.01)),
        "proprioception": popsim.SensoryChannel(popsim.proprioception),
    }
    network = popsim.networks.GRUNetwork(10, N_UNITS, 2, noise_std=0.01, key=jax.random.key(0))
    motor_noise = popsim.MotorNoise(0.1, 0.1)
    return popsim.SensorimotorLoop(network, plant, channels, motor_noise, interventions=tuple(held), dt=DT)


def noisy_network_model(held=()):
    """A network without a body, with noise, that holds interventions."""
    network = popsim.networks.LeakyRNN(2, N_UNITS, 2, noise_std=0.01, key=jax.random.key(0))
    return popsim.NetworkModel(network, tuple(held), dt=DT)


MODELS = {"loop": (noisy_loop, OF_LOOP), "network model": (noisy_network_model, OF_NETWORK_MODEL)}


def scheduled(of_model, acting):
    """A reach that schedules all interventions of `of_model`; `acting` [which, time] says when each acts."""
    schedules = {
        intervention.name: popsim.interventions.InterventionSchedule(parameters, active)
        for (intervention, parameters), active in zip(of_model.items(), acting, strict=True)
    }
    return reach(N_STEPS, interventions=schedules)
