import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim.analysis.figures import draw_muscle_activations

run = popsim.open_run("runs/arm26")
states = run.evaluate(popsim.without_noise(run.ensemble)).states
activation = np.asarray(states.plant.activation)[0, 0]  # of member 0 in the first trial, (time, muscle)

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
draw_muscle_activations(ax, activation, dt=run.experiment.dt, names=run.ensemble.plant.muscle_names)
