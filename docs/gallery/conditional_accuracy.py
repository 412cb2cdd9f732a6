"""Two players of a `ReactionTimeDecision`; with bounds that fall, slow responses are less accurate."""

import jax
import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim.analysis import behaviour
from popsim.analysis.figures import draw_conditional_accuracy

coherences = popsim.distributions.Choice([-0.1, 0.1])
task, key = popsim.tasks.ReactionTimeDecision(coherence=coherences), jax.random.key(0)
trials = popsim.sample_trials(task, 8000, batch=0, key=key)
falling, times, is_correct = np.linspace(0.2, 0.0, 40), [], []
for bounds in (falling, np.full(40, 0.1)):
    played = popsim.tasks.play(popsim.tasks.DecisionBounds(bounds, dt=task.dt), trials, key=key)
    responses = behaviour.environment_responses(played, trials, "stimulus on")
    times.append(responses.time)
    is_correct.append(responses.choice - 1 == np.asarray(trials.conditions["choice"]))  # 0 is to wait

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
accuracy = behaviour.conditional_accuracy(np.stack(times), np.stack(is_correct))
draw_conditional_accuracy(ax, accuracy, names=["falling bounds", "constant bounds"])
