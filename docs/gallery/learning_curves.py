"""The loss of each member over training, and their geometric mean."""

import matplotlib.pyplot as plt

import popsim
from popsim.analysis.figures import draw_learning_curves

run = popsim.open_run("runs/center-out-0")
history = run.history

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
draw_learning_curves(ax, history.batch.values, history.total_loss.values)
validation = history.total_validation_loss.values
draw_learning_curves(ax, history.validation_batch.values, validation, label="validation", color="#D55E00")
ax.legend()
