import matplotlib.pyplot as plt

import popsim
from popsim.analysis.figures import draw_learning_curves

run = popsim.open_run("runs/center-out-0")
loss = run.history.loss.sum("term")  # (batch, member)
validation = run.history.validation_loss.sum("term")

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
draw_learning_curves(ax, run.history.batch.values, loss.values)
draw_learning_curves(
    ax, run.history.validation_batch.values, validation.values, label="validation", color="#D55E00"
)
ax.legend()
