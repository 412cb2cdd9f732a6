import matplotlib.pyplot as plt
import numpy as np

from popsim.analysis.figures import draw_setting_map

rates, n_steps = np.array([0.003, 0.01, 0.03, 0.1]), np.array([50, 100, 200, 400])
decay = (1 - rates[:, None]) ** (2 * n_steps)  # the squared error when a mean is learned, in closed form
errors = decay + rates[:, None] / (2 - rates[:, None]) * (1 - decay)

figure, ax = plt.subplots(figsize=(3.4, 2.6), layout="constrained")
rows, columns = ([str(value) for value in values] for values in (rates, n_steps))
axes = ("learning rate", "number of steps")
draw_setting_map(ax, errors, rows=rows, columns=columns, axes=axes, label="squared error")
