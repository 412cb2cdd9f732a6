"""Tangling of the activity of the networks, against that of the hand velocity."""

import matplotlib.pyplot as plt

import popsim
from popsim.analysis import neural_activity
from popsim.analysis.figures import draw_tangling

run = popsim.open_run("runs/center-out-0")
states = run.evaluate(popsim.without_noise(run.ensemble)).states
dt = run.task.validation_trials().timeline.dt
hidden = neural_activity.soft_normalize(states.network.hidden, constant=0.1)
velocity = neural_activity.soft_normalize(states.hand.velocity, constant=0.0)

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
hand = neural_activity.tangling(velocity, dt=dt)
draw_tangling(ax, hand, neural_activity.tangling(hidden, dt=dt), reference_name="hand velocity")
