"""Dimensionality of the activity of the networks."""

import matplotlib.pyplot as plt

import popsim
from popsim.analysis.figures import draw_explained_variance
from popsim.analysis.neural_activity import principal_components

run = popsim.open_run("runs/center-out-0")
states = run.evaluate(popsim.without_noise(run.ensemble)).states
n_components = min(10, states.network.hidden.shape[-1])
found = principal_components(states.network.hidden, n_components=n_components)

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
draw_explained_variance(ax, found.explained)
