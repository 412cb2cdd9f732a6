import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim.analysis.figures import draw_member_values

run = popsim.open_run("runs/center-out-0")
trials = run.task.validation_trials()
errors = []
for ensemble in (popsim.without_noise(run.ensemble), run.ensemble):
    cursor = run.evaluate(ensemble).states.cursor
    errors.append(
        1000 * np.asarray(popsim.analysis.behaviour.end_point_error(cursor, trials.targets)).mean(axis=1)
    )

figure, ax = plt.subplots(figsize=(3.4, 1.4), layout="constrained")
draw_member_values(ax, errors, names=["noise off", "noise on"], label="mean end-point error (mm)")
