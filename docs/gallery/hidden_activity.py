import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim.analysis.figures import draw_hidden_activity

run = popsim.open_run("runs/center-out-0")
states = run.evaluate(popsim.without_noise(run.ensemble)).states
hidden = np.asarray(states.network.hidden)[0, 0]  # of member 0 in the first trial, (time, unit)

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
draw_hidden_activity(ax, hidden, dt=run.experiment.dt)
