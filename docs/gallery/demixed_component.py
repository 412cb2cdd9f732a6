"""The first demixed component of one network's activity for the reach direction."""

import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim.analysis.figures import draw_demixed_component
from popsim.analysis.neural_activity import demixed_components

run = popsim.open_run("runs/center-out-0")
trials = run.task.validation_trials()
states = run.evaluate(popsim.without_noise(run.ensemble)).states
direction = np.asarray(trials.conditions["direction"])
found = demixed_components(states.network.hidden, {"direction": direction}, n_components=1)["direction"]

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
draw_demixed_component(
    ax,
    found.projections[0, ..., 0],  # of the first member; its directions ascend
    dt=trials.timeline.dt,
    direction=np.sort(direction),
    part="direction",
    explained=found.explained[0, 0],
)
