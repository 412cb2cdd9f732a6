import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim.analysis.figures import draw_hand_paths

run = popsim.open_run("runs/center-out-0")
trials = run.task.validation_trials()
position = np.asarray(run.evaluate().states.cursor.position)  # (member, trial, time, 2), m
starts, targets = np.asarray(trials.init.position), np.asarray(trials.targets.position[:, -1])

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
draw_hand_paths(ax, position, starts, targets)
