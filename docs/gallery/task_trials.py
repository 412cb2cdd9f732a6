import jax
import matplotlib.pyplot as plt

from popsim import tasks
from popsim.analysis.figures import draw_task_trials, task_trial_rows
from popsim.task_description import drawn_trials

trials = drawn_trials(tasks.ContextIntegration(), 2, batch=0, key=jax.random.key(0))

size = (3.4, 1.0 + 0.7 * len(task_trial_rows(trials)))
figure, axes = plt.subplots(
    len(task_trial_rows(trials)), 2, figsize=size, layout="constrained", sharex=True, sharey="row"
)
draw_task_trials(axes, trials)
