"""Hand paths of one network, with the key of their colours beside them."""

import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim.analysis.figures import draw_direction_key, draw_hand_paths

run = popsim.open_run("runs/center-out-0")
trials = run.task.validation_trials()
states = run.evaluate(popsim.without_noise(run.ensemble)).states

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
starts, targets = np.asarray(trials.init.position), np.asarray(trials.targets.position[:, -1])
draw_hand_paths(ax, np.asarray(states.cursor.position)[:1], starts, targets)
draw_direction_key(ax.inset_axes((1.0, 0.75, 0.25, 0.25)), label="target")
