import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim.analysis.figures import draw_speed_profiles

run = popsim.open_run("runs/center-out-0")
states = run.evaluate(popsim.without_noise(run.ensemble)).states
speed = np.asarray(popsim.analysis.hand_speed(states.hand))  # (member, trial, time), m/s

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
draw_speed_profiles(ax, speed, dt=run.experiment.dt)
