"""Mean activity of three units by direction of the reach, with cosine fits."""

import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim.analysis import neural_activity
from popsim.analysis.figures import draw_tuning_curves

run = popsim.open_run("runs/center-out-0")
trials = popsim.repeat_trials(run.task.validation_trials(), 10)
hidden = run.evaluate(trials=trials).states.network.hidden
activity = np.asarray(hidden).mean(axis=2)[0, :, :3]  # of the first member's first three units
direction = trials.conditions["direction"]
curves, fit = (
    neural_activity.tuning_curves(activity, direction),
    neural_activity.cosine_tuning(activity, direction),
)

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
cosine = np.stack([fit.baseline, fit.depth, fit.preferred])
draw_tuning_curves(ax, curves.direction, curves.mean, curves.deviation, cosine=cosine)
