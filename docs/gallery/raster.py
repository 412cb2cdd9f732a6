"""The spikes of a network in a trial, with noise on the voltages."""

import jax
import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim import networks, tasks
from popsim.analysis.figures import draw_raster

task = tasks.PerceptualDecision(dt=0.001)
network = networks.SpikingRNN(3, 60, 2, noise_std=0.3, adaptation=0.1, key=jax.random.key(0))
model = popsim.NetworkModel(network, dt=0.001)
states = popsim.evaluate(model, task, key=jax.random.key(1)).states

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
draw_raster(ax, np.asarray(states.network.hidden.spike)[0], dt=0.001)
