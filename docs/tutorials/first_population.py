# %% [markdown]
# # A first population
#
# You train five networks to reach with the hand to eight targets, then look at how they learned and at how
# they move. Five, not one: what all five do is a property of the task and the training, and what one does may
# be chance.
#
# You need `popsim` and nothing else. The computing takes less than a minute on a laptop.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim import networks, plants, tasks, training
from popsim.analysis import behaviour, learning
from popsim.analysis.figures import STYLE_SHEET, draw_hand_paths, draw_learning_curves, draw_speed_profiles

plt.style.use(STYLE_SHEET)

# %% [markdown]
# ## The task
#
# A task makes trials. In each trial of this one the hand starts in the middle of a workspace, and a target
# appears 10 cm away. The body is a point mass in the plane: a hand of 1 kg that is pushed by forces, the
# simplest body there is.
#
# A task shown as the last line of a cell describes itself: the inputs of the network in their order, what is
# asked for, and what the loss counts.

# %%
plant = plants.PointMass()
task = tasks.CenterOutReaches(plant.workspace, duration=0.8)
task

# %% [markdown]
# The fixed trials on which networks are tested are the *validation trials*. Here they are the eight
# directions.

# %%
trials = task.validation_trials()
trials

# %% [markdown]
# ## The networks
#
# The network does not see the hand as it is now. Vision arrives 50 ms late, and with noise of 2 mm in
# position and 2 cm/s in velocity. `build` makes one model from a random key: a recurrent network of 32 units
# and the body that it moves. `make_ensemble` makes five that differ in their first weights, and stacks them.
# In popsim each of them is a *member*, and all of them are the *ensemble*.

# %%
seen = popsim.GaussianNoise([0.002, 0.002, 0.02, 0.02])  # m, m, m/s, m/s
channels = {"vision": popsim.SensoryChannel(popsim.vision, delay=0.05, noise=seen)}
n_inputs = popsim.n_network_inputs(trials, plant, channels)


def build(key):
    network = networks.GRUNetwork(n_inputs, 32, plant.n_commands, key=key)
    return popsim.SensorimotorLoop(network, plant, channels, dt=0.01)


ensemble = popsim.make_ensemble(build, n_members=5, key=jax.random.key(0))
ensemble

# %% [markdown]
# ## Training
#
# The trainer draws 16 trials for each member, computes the gradient of the loss back through time, and takes
# one step of Adam. It does that 300 times, for all five members at once. `where_train` says what may change:
# the network, and not the body.
#
# The key decides all that is random. With the same key you get the same networks.

# %%
trainer = training.TaskTrainer(training.adam(1e-2, clip_norm=1.0))
trained, history = trainer(
    task,
    ensemble,
    n_batches=300,
    batch_size=16,
    where_train=lambda model: model.network,
    ensembled=True,
    key=jax.random.key(1),
)
history

# %% [markdown]
# ## Did they learn?
#
# `history.loss.total` has the axes (batch, member). The loss is mostly a sum of squared distances between
# hand and target, in m². A line for each member, and their geometric mean:

# %% alt="Loss of five members over 300 training batches"
figure, ax = plt.subplots(figsize=(4.5, 2.8), layout="constrained")
draw_learning_curves(ax, history.batch, history.loss.total)
ax.legend()
plt.show()

# %%
curve = learning.learning_curve(history.loss.total)
print(f"loss before training {curve.mean[0]:.2f}, at the end {curve.mean[-1]:.4f}")
print("at the end, each member:", np.round(history.loss.total[-1], 4))

# %% [markdown]
# ## How do they move?
#
# A loss is one number. Always look at the behaviour too. `evaluate_ensemble` runs all members on the
# validation trials; `states` has everything that happened, with the axes (member, trial, time, ...).

# %%
states = popsim.evaluate_ensemble(trained, task, key=jax.random.key(2)).states
hand = np.asarray(states.hand.position)  # m
print("axes of the positions (member, trial, time, x and y):", hand.shape)

starts, targets = np.asarray(trials.init.position), np.asarray(trials.targets.position[:, -1])
error = np.linalg.norm(hand[:, :, -1] - targets, axis=-1)  # (member, trial)
print("end-point error of each member (mm):", np.round(1000 * error.mean(axis=1), 1))

# %% alt="Hand paths of five members to eight targets, and the speed of the hand over time"
speed = np.asarray(behaviour.hand_speed(states.hand))  # m/s
figure, (left, right) = plt.subplots(1, 2, figsize=(7, 2.9), layout="constrained")
draw_hand_paths(left, hand, starts, targets)
draw_speed_profiles(right, speed, dt=0.01)
plt.show()

# %% [markdown]
# The paths are nearly straight and the speeds have one peak, as in people (Morasso 1981). Nobody asked for
# straight paths: they follow from a loss that wants the hand at the target soon and the forces small.
#
# Compare with the networks before training, to be sure that the training did it:

# %%
untrained = popsim.evaluate_ensemble(ensemble, task, key=jax.random.key(2)).states
missed = jnp.linalg.norm(untrained.hand.position[:, :, -1] - targets, axis=-1)
print("end-point error before training (mm):", np.round(1000 * np.asarray(missed.mean(axis=1))))

# %% [markdown]
# ## What to try next
#
# - A later view: `delay=0.15`. What happens to the speed profiles?
# - More noise: ten times the numbers in `seen`.
# - Another body: `plants.TwoLinkArm.arm26_skeleton()`, an arm with a shoulder and an elbow. Nothing else
#   changes.
# - More members: `n_members=20` takes little longer than five.
#
# The next lesson is [a task of your own](own_task.md). The ideas and words are in
# [concepts](../concepts/ensemble.md).
