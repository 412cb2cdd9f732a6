"""The plane of the fastest rotation of the activity of one network: not above chance in this run."""

import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim.analysis import neural_activity
from popsim.analysis.figures import draw_rotation_plane

run = popsim.open_run("runs/center-out-0")
trials = run.task.validation_trials()
hidden = run.evaluate(popsim.without_noise(run.ensemble)).states.network.hidden
scaled = neural_activity.soft_normalize(hidden[:, :, :50], constant=0.1)  # the first half second
differences = neural_activity.subtract_condition_mean(scaled)
found = neural_activity.rotations(differences, dt=trials.timeline.dt, n_components=4)

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
direction = np.asarray(trials.conditions["direction"])
draw_rotation_plane(ax, found.projections[0, :, :, 0], direction=direction, frequency=found.frequency[0, 0])
