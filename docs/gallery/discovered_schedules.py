import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim import networks, tasks, training
from popsim.analysis.figures import draw_discovered_schedules

task = tasks.FlipFlop(n_bits=1, duration=0.3)


def build(key):
    return popsim.NetworkModel(networks.GRUNetwork(1, 12, 1, key=key), dt=task.dt)


rates, key = jnp.geomspace(1e-4, 1e-1, 12), jax.random.key(0)
optimizer = training.adam(popsim.PerMember(rates), clip_norm=1.0)
trainer = training.TaskTrainer(optimizer, population_updates=[training.PopulationBasedTraining(every=20)])
ensemble = popsim.make_ensemble(build, 12, key=key)
_, history = trainer(task, ensemble, 200, 32, lambda m: m.network, ensembled=True, disable_tqdm=True, key=key)
best, done = int(np.argmin(history.validation_loss.total[-1])), history.updates["selection"]

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
found, label = done["hyperparameter.learning_rate"], "learning rate"
draw_discovered_schedules(
    ax, history.updates["selection"]["batch"], found, done["parent"], label=label, start=rates, best=best
)
