"""The loss on the straight line from the first recorded weights to the last, and beyond."""

import jax
import matplotlib.pyplot as plt

import popsim
from popsim.analysis.figures import draw_loss_line
from popsim.analysis.trainables import loss_along_line

run = popsim.open_run("runs/center-out-0")
first, last = (run.models(batch=batch) for batch in run.history.trainables_batch.values[[0, -1]])
line = loss_along_line(first, last, run.task, key=jax.random.key(0))

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
draw_loss_line(ax, line.positions, line.loss, ends=("first recorded", "last"))
