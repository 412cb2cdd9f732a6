"""The activity of one network during reaches, along its first two principal components."""

import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim.analysis.figures import draw_state_space
from popsim.analysis.neural_activity import principal_components

run = popsim.open_run("runs/center-out-0")
trials = run.task.validation_trials()
states = run.evaluate(popsim.without_noise(run.ensemble)).states
found = principal_components(states.network.hidden, n_components=2)

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
direction = np.asarray(trials.conditions["direction"])
draw_state_space(ax, found.projections[0], direction=direction, explained=found.explained[0])
