"""Change of the recurrent weights of one member in training."""

import matplotlib.pyplot as plt

import popsim
from popsim.analysis.figures import draw_weight_matrix

run = popsim.open_run("runs/center-out-0")
weights, untrained = (models.network.cell.weight_hh for models in (run.ensemble, run.models(batch=-1)))

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
draw_weight_matrix(ax, weights[0] - untrained[0], label="change of weight")
ax.set_ylabel("to unit: reset, update, candidate")
