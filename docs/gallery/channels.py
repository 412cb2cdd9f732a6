import jax
import matplotlib.pyplot as plt
import numpy as np

from popsim import tasks
from popsim.analysis.figures import draw_channels

trial = tasks.FlipFlop().trial(batch=0, key=jax.random.key(0))
(pulses,) = jax.tree.leaves(trial.inputs)  # (time, channel)
remembered = np.asarray(trial.targets.values)

figure, (above, below) = plt.subplots(2, figsize=(3.4, 2.8), layout="constrained", sharex=True)
draw_channels(above, np.asarray(pulses), dt=trial.timeline.dt, first_at=0.0)
draw_channels(below, 0.9 * remembered, targets=remembered, dt=trial.timeline.dt)
above.set(ylabel="pulses")
below.set(xlabel="time (s)", ylabel="outputs")
