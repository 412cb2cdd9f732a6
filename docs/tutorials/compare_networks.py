# %% [markdown]
# # One task, six networks
#
# Do networks of different kinds find the same solution? You train six kinds of network to hold two bits,
# compare how well they do it, and ask what they have in common: the states in which they rest, and their
# activity in the same trials. The computing takes two to three minutes.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim import networks, tasks, training
from popsim.analysis import dynamics, similarity
from popsim.analysis.figures import STYLE_SHEET, draw_member_map

plt.style.use(STYLE_SHEET)

# %% [markdown]
# ## Six networks by name
#
# The task is that of [dynamics and fixed points](dynamics.md): two channels carry short pulses, and the
# network must always say the sign of the last pulse in each.
#
# `build_network` makes a network by the name that the command line takes. `networks.NETWORKS` lists all
# names, also those that you register.

# %%
task = tasks.FlipFlop(n_bits=2)
task

# %%
trials = task.validation_trials()
n_inputs, n_outputs = popsim.n_network_inputs(trials), trials.targets.values.shape[-1]
names = ["vanilla", "tanh", "low-rank", "two-areas", "gru", "lstm"]


def ensemble_of(name):
    options = {"tau": 0.02} if name in ("tanh", "low-rank", "two-areas") else {}

    def build(key):
        network = networks.build_network(name, n_inputs, 24, n_outputs, dt=0.01, key=key, **options)
        return popsim.NetworkModel(network, dt=0.01)

    return popsim.make_ensemble(build, n_members=3, key=jax.random.key(0))


# %% [markdown]
# ## Training
#
# All kinds learn by the same trainer with the same settings. A fair comparison would search for the learning
# rate of each, as [a sweep](sweeps.md) does.

# %%
trainer = training.TaskTrainer(training.adam(training.cosine_decay(1e-2, 600)))
fresh = popsim.sample_trials(task, 64, batch=0, key=jax.random.key(2))
counts = np.asarray(fresh.targets.counts) > 0  # the time steps that count
trained, states, right = {}, {}, {}
for name in names:
    trained[name], _ = trainer(
        task,
        ensemble_of(name),
        n_batches=600,
        batch_size=32,
        where_train=lambda model: model.network,
        ensembled=True,
        disable_tqdm=True,
        key=jax.random.key(1),
    )
    states[name] = popsim.evaluate_ensemble(trained[name], task, trials=fresh, key=jax.random.key(3)).states
    is_right = np.sign(states[name].network.output) == np.sign(fresh.targets.values)
    right[name] = is_right[:, counts].mean(axis=(1, 2))
    print(f"{name:10} correct bits of each member: {right[name].round(3)}")

# %% alt="Wrong bits of three networks of each kind"
figure, ax = plt.subplots(figsize=(4.6, 2.4), layout="constrained")
for row, name in enumerate(names):
    ax.plot(100 * (1 - right[name]), [row] * 3, "o", alpha=0.6)
ax.set(yticks=range(len(names)), yticklabels=names, xlabel="wrong bits (%)")
plt.show()

# %% [markdown]
# ## Do they rest in the same places?
#
# Two bits can be held by four stable states. `find_fixed_points` looks for states in which a network stays
# without input, and counts those without an unstable direction. A state is one vector: of the LSTM, whose
# hidden state is a pair, it is both arrays, joined.

# %%
for name in names:
    hidden = np.concatenate(jax.tree.leaves(states[name].network.hidden), axis=-1)
    starts = dynamics.mixtures_of_states(hidden, 512, key=jax.random.key(4))
    points = dynamics.find_fixed_points(trained[name], starts).fixed
    print(f"{name:10} stable states of each member: {[int(row[0]) for row in points.counts()]}")

# %% [markdown]
# Networks that hold both bits have the four stable states, whatever their kind.
#
# ## Is their activity alike?
#
# The distance of two networks is 1 - the mean canonical correlation of their activity in the same trials. It
# is the same for any rotation and scaling of the units, so that kinds with different units can be compared.
# The map puts networks that are alike near each other.

# %% alt="A map of eighteen networks, three of each kind"
activity = [
    similarity.principal_patterns(member)
    for name in names
    for member in np.asarray(networks.unit_activity(trained[name], states[name]))
]
distances = similarity.pairwise(activity, similarity.cca_distance)
kinds = np.repeat(names, 3)
within = kinds[:, None] == kinds
np.fill_diagonal(within, False)
between = kinds[:, None] != kinds
print("mean distance within a kind:", distances[within].mean().round(3))
print("mean distance between kinds:", distances[between].mean().round(3))

figure, ax = plt.subplots(figsize=(4.6, 3.6), layout="constrained")
chart = similarity.member_map(distances)
draw_member_map(ax, chart.positions, groups=kinds, fraction=chart.fraction)
plt.show()

# %% [markdown]
# The states in which networks rest are those that the task needs. Their activity depends on the kind as
# well: members of one kind are nearer to each other. Maheswaranathan et al. (2019) found the same with more
# networks. `examples/flip_flop_fixed_points.py` repeats their comparison with gates and controls, see
# [paper figures](../paper_figures.md).
#
# ## Go on
#
# - [Choose a network](../how_to/networks.md): equations, states and when to take which.
# - [Train a network with two areas](../how_to/recipes/two_areas.md).
# - Replace the task: every task of the library takes every network.
