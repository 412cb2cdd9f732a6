import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim.analysis.figures import draw_mean_speed

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
for name, color in (("center-out-0", "#0072B2"), ("arm26", "#E69F00")):
    run = popsim.open_run(f"runs/{name}")
    states = run.evaluate(popsim.without_noise(run.ensemble)).states
    speed = np.asarray(popsim.analysis.behaviour.hand_speed(states.hand))  # (member, trial, time), m/s
    draw_mean_speed(ax, speed, dt=run.experiment.dt, label=name, color=color)
ax.legend()
