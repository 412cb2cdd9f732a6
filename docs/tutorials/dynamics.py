# %% [markdown]
# # Dynamics and fixed points
#
# How does a network remember? You train networks to hold two bits, find the states in which they rest, and
# see how a memory is kept and how it is changed. After Sussillo & Barak (2013). The computing takes about a
# minute.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim import networks, tasks, training
from popsim.analysis import dynamics, neural_activity
from popsim.analysis.figures import (
    STYLE_SHEET,
    draw_channels,
    draw_fixed_points,
    draw_jacobian_eigenvalues,
    draw_time_constants,
)

plt.style.use(STYLE_SHEET)

# %% [markdown]
# ## A task of memory
#
# Two channels carry short pulses, up or down. The network must say, at all times, the sign of the last pulse
# in each channel. Between pulses there is no input at all: what it says then comes from its own state.

# %%
task = tasks.FlipFlop(n_bits=2)
task

# %%
trials = task.validation_trials()
n_inputs, n_outputs = popsim.n_network_inputs(trials), trials.targets.values.shape[-1]


def build(key):
    return popsim.NetworkModel(networks.GRUNetwork(n_inputs, 24, n_outputs, key=key), dt=0.01)


ensemble = popsim.make_ensemble(build, n_members=3, key=jax.random.key(0))
trainer = training.TaskTrainer(training.adam(training.cosine_decay(1e-2, 700)))
trained, history = trainer(
    task,
    ensemble,
    n_batches=700,
    batch_size=32,
    where_train=lambda model: model.network,
    ensembled=True,
    key=jax.random.key(1),
)

# %% [markdown]
# ## Does it remember?
#
# Look at behaviour before dynamics: the fixed points of a network that cannot do the task explain nothing.

# %% alt="Pulses, targets and outputs of one network in one trial"
fresh = popsim.sample_trials(task, 64, batch=0, key=jax.random.key(2))
states = popsim.evaluate_ensemble(trained, task, trials=fresh, key=jax.random.key(3)).states
is_right = np.sign(states.network.output) == np.sign(fresh.targets.values)
counts = np.asarray(fresh.targets.counts) > 0  # the time steps that count
print("correct bits of each member:", is_right[:, counts].mean(axis=(1, 2)).round(4))

figure, (above, below) = plt.subplots(2, 1, figsize=(6, 2.8), sharex=True, layout="constrained")
draw_channels(above, np.asarray(jax.tree.leaves(fresh.inputs)[0][0]), dt=0.01)
draw_channels(
    below, np.asarray(states.network.output[0, 0]), dt=0.01, targets=np.asarray(fresh.targets.values[0])
)
above.set(ylabel="pulses", xlabel="")
below.set(ylabel="outputs")
plt.show()

# %% [markdown]
# ## Where does it rest?
#
# A *fixed point* is a state that the network, left alone, maps to itself. The search begins at 300 mixtures
# of states that the network visited, and walks from each downhill on the speed.
#
# Each bit may be +1, −1, or undecided between them, so two independent bits have 3 × 3 = 9 points. A state
# near a stable point returns to it. A point with one unstable direction is a saddle: along that direction
# states fall to one side or the other.

# %%
hidden = np.asarray(states.network.hidden)  # (member, trial, time, unit)
starts = dynamics.mixtures_of_states(hidden, 300, key=jax.random.key(4))
found = dynamics.find_fixed_points(trained, starts).fixed
print("points of each member with 0, 1, 2, ... unstable directions:")
print(found.counts())

# %% [markdown]
# **Were all of them found?** In a bounded network the indices of all fixed points add up to 1. If they do
# not, search from more starts.

# %%
for member in range(found.n_members):
    print(f"member {member}: indices add up to {found.select_member(member).index.sum()}")

# %% [markdown]
# ## What does each point stand for?
#
# Ask the readout of the network, at the points of the first member:

# %%
points = found.select_member(0)
network = popsim.member(trained, 0).network
outputs = np.asarray(jax.vmap(network.read_out)(points.state.astype(np.float32)))
for place in np.argsort(points.n_unstable):
    first, second = outputs[place]
    print(f"{points.n_unstable[place]} unstable directions: outputs {first:+.1f} and {second:+.1f}")

# %% [markdown]
# The four stable points are the four memories. Between each two of them that differ in one bit lies a saddle,
# at which this bit is undecided.
#
# ## The picture
#
# Fixed points and some trials in the plane of the first two principal components. A pulse carries the state
# from one corner to the next, past the saddle between them.

# %% alt="Nine fixed points of one network in the plane of two components, with the paths of trials"
components = neural_activity.principal_components(hidden, n_components=2)
projected = (points.state - components.mean[0]) @ components.components[0].T
figure, ax = plt.subplots(figsize=(4.6, 3.2), layout="constrained")
draw_fixed_points(ax, projected, points.n_unstable, paths=components.projections[0][:24])
ax.set(xlabel="PC 1", ylabel="PC 2")
plt.show()

# %% [markdown]
# ## How fast?
#
# Near a point the network is almost linear. The eigenvalues of its Jacobian say how fast each pattern of
# activity decays (inside the circle) or grows (outside), per time step of 10 ms.

# %% alt="Eigenvalues of the Jacobians at the fixed points, and the time constants of the slowest modes"
tau = dynamics.time_constants(points.eigenvalues, dt=0.01)  # s, (point, mode)
figure, (left, right) = plt.subplots(1, 2, figsize=(7, 2.9), layout="constrained")
draw_jacobian_eigenvalues(left, points.eigenvalues, points.n_unstable)
draw_time_constants(right, tau, points.n_unstable)
plt.show()

stable = tau[points.n_unstable == 0]
print(f"slowest decay at a stable point: {1000 * np.nanmax(stable):.0f} ms")

# %% [markdown]
# A memory lasts for ever, though no pattern of activity lasts longer than the slowest decay: the network does
# not hold activity, it returns to a point.
#
# ## What to try next
#
# - **Three bits:** `n_bits=3` has 27 points; train for three times as long, and draw with `projection="3d"`.
# - **A line of points:** `tasks.ContextIntegration()` asks to sum evidence. Its memory is a quantity, kept
#   along a line of slow points: `dynamics.slow_directions`.
# - **With an input held constant:** `find_fixed_points(..., inputs=...)`.
# - **Another network:** `networks.LeakyRNN`. Do all networks find the same solution?
#
# The next lesson is [force fields](force_field.md). All functions are in [dynamics](../analysis/dynamics.md).
