"""Preferred direction of each muscle of each member."""

import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim.analysis.figures import draw_preferred_directions

run = popsim.open_run("runs/arm26")
states = run.evaluate(popsim.without_noise(run.ensemble)).states
direction = run.task.validation_trials().conditions["direction"]
tuning = popsim.analysis.neural_activity.cosine_tuning(states.plant.activation.mean(axis=2), direction)

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
names = run.ensemble.plant.muscle_names
draw_preferred_directions(ax, np.asarray(tuning.preferred), np.asarray(tuning.depth), names=names)
