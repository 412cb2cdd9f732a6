"""Accuracy of decoding the direction of the reach from one unit of each network, over time."""

import jax
import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim.analysis import neural_activity
from popsim.analysis.figures import draw_decoding

run = popsim.open_run("runs/center-out-0")
trials = popsim.repeat_trials(run.task.validation_trials(), 10)  # each with its own noise
hidden = np.asarray(run.evaluate(trials=trials).states.network.hidden)[:, :, 4::5, :1]
direction = np.asarray(trials.conditions["direction"])
keys = jax.random.split(jax.random.key(0))
accuracy = neural_activity.decode_condition(hidden, direction, key=keys[0])
shuffled = neural_activity.decode_shuffled_condition(hidden, direction, n_shuffles=5, key=keys[1])

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
time = trials.timeline.dt * (5 + 5 * np.arange(accuracy.shape[1]))
draw_decoding(ax, time, accuracy, chance=neural_activity.chance_level(direction), shuffled=shuffled)
