"""A small model that reaches, as a task and a function that builds the model."""

import diffrax

import popsim


def small_reach_setup(n_units: int = 8, duration: float = 0.2, plant=None, **output):
    """By default a point mass by Euler's method: the program is compiled sooner than any other."""
    plant = popsim.plants.PointMass(solver=diffrax.Euler()) if plant is None else plant
    task = popsim.tasks.RandomReaches(plant.workspace, duration=duration)
    channels = {
        "vision": popsim.SensoryChannel(
            popsim.vision, delay=0.03, noise=popsim.GaussianNoise([0.002, 0.002, 0.02, 0.02])
        ),
        "proprioception": popsim.SensoryChannel(popsim.proprioception, noise=popsim.GaussianNoise(0.02)),
    }
    n_inputs = popsim.n_network_inputs(task.validation_trials(), plant, channels)

    def build(key):
        network = popsim.networks.GRUNetwork(n_inputs, n_units, plant.n_commands, **output, key=key)
        return popsim.SensorimotorLoop(network, plant, channels, popsim.MotorNoise(0.05, 0.01), dt=0.01)

    return task, build
