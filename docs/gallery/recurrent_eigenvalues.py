"""Eigenvalues of the recurrent weights of one member (the candidate block of a GRU) over training."""

import matplotlib.pyplot as plt

import popsim
from popsim.analysis.figures import draw_recurrent_eigenvalues
from popsim.analysis.trainables import recurrent_eigenvalues

run = popsim.open_run("runs/center-out-0")
eigenvalues = recurrent_eigenvalues(run.history["trainables.network.cell.weight_hh"])

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
draw_recurrent_eigenvalues(ax, run.history.trainables_batch.values, eigenvalues[:, 0])
