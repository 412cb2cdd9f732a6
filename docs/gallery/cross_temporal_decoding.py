"""Decoding the direction from three units at one time with a decoder fitted at another."""

import jax
import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim.analysis import neural_activity
from popsim.analysis.figures import draw_cross_temporal_decoding

run = popsim.open_run("runs/center-out-0")
trials = popsim.repeat_trials(run.task.validation_trials(), 10)  # each with its own noise
hidden = np.asarray(run.evaluate(trials=trials).states.network.hidden)[:, :, 4::5, :3]
direction = np.asarray(trials.conditions["direction"])
accuracy = neural_activity.decode_condition_across_times(hidden, direction, key=jax.random.key(0))

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
time = trials.timeline.dt * (5 + 5 * np.arange(accuracy.shape[1]))
chance = neural_activity.chance_level(direction)
draw_cross_temporal_decoding(ax, time, accuracy.mean(axis=0), chance=chance)
