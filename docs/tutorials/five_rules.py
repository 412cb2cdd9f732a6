# %% [markdown]
# # One task, five rules
#
# Networks learn to remember by five rules, from the same first weights and with the same trials. All five
# lower the error. What they leave in the weights differs, and that is what an experimenter could look for.
# The computing takes about two minutes.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim import networks, tasks, training
from popsim.analysis import learning
from popsim.analysis.figures import STYLE_SHEET, draw_learning_bands
from popsim.training import rules

plt.style.use(STYLE_SHEET)

# %% [markdown]
# ## The task and the networks
#
# Pulses come at random times, up or down, and the network has to put out the sign of the last one until the
# next comes. Three members, so that luck with the first weights shows.

# %%
task = tasks.FlipFlop(n_bits=1, duration=1.0, dt=0.02, pulse_probability=0.06)


def build(key):
    return popsim.NetworkModel(networks.LeakyRNN(1, 32, 1, tau=0.1, dt=0.02, key=key), dt=0.02)


ensemble = popsim.make_ensemble(build, n_members=3, key=jax.random.key(0))

# %% [markdown]
# ## Five rules
#
# - **Back-propagation** knows how each weight affects the loss, through all units and all times.
# - **E-prop** leaves out what goes through other units: each weight keeps a trace of what it did to its own
#   unit, and learns when an error arrives (Bellec et al. 2020).
# - **Random feedback** is back-propagation in which errors enter the network through fixed random weights,
#   not through those of the readout (Lillicrap et al. 2016).
# - **RFLO** is e-prop with random feedback (Murray 2019).
# - **The readout alone** is back-propagation, but nothing else learns.
#
# `gradient=` of the trainer takes the rule. The feedback weights are given, to look at them later; without
# them each member draws its own.

# %%
feedback = popsim.PerMember(jax.random.normal(jax.random.key(5), (3, 1, 32)) / 32**0.5)
gradients = {
    "back-propagation": training.BackpropThroughTime(),
    "e-prop": rules.EProp(),
    "random feedback": rules.FeedbackAlignment(training.BackpropThroughTime(), feedback),
    "RFLO": rules.RFLO(feedback=feedback),
    "readout alone": training.BackpropThroughTime(),
}


def whole_network(model):
    return model.network


def readout(model):
    return model.network.readout


trained, histories = {}, {}
for name, gradient in gradients.items():
    trained[name], histories[name] = training.TaskTrainer(training.adam(3e-3), gradient=gradient)(
        task,
        ensemble,
        n_batches=400,
        batch_size=32,
        where_train=readout if name == "readout alone" else whole_network,
        ensembled=True,
        disable_tqdm=True,
        log_step=400,
        key=jax.random.key(1),
    )
    print(f"{name:<17} loss {np.asarray(histories[name].loss.total)[-50:].mean(axis=0).round(2)}")

# %% alt="Loss over training by five rules"
figure, ax = plt.subplots(figsize=(4.6, 3.0), layout="constrained")
for number, (name, history) in enumerate(histories.items()):
    curve = learning.learning_curve(learning.moving_average(history.loss.total, 20))
    draw_learning_bands(ax, history.batch, curve, label=name, color=f"C{number}")
ax.legend()
plt.show()

# %% [markdown]
# The more a rule knows, the faster it learns. All rules that change the recurrent weights get below what the
# readout alone can do with the first ones.
#
# ## What differs in the weights?
#
# Compare the change of the recurrent weights with that by back-propagation, in the same member: the cosine
# of the two, and over how many dimensions it is spread. Networks that learned by back-propagation from other
# trials are the comparison.


# %%
def change(members):
    """How the recurrent weights of each member have changed, with axes (member, post, pre)."""
    return np.asarray(members.network.recurrent_weights - ensemble.network.recurrent_weights)


def cosine(one, other):
    """The cosine of the angle between two changes, for each member."""
    norms = np.linalg.norm(one, axis=(1, 2)) * np.linalg.norm(other, axis=(1, 2))
    return np.sum(one * other, axis=(1, 2)) / norms


other_trials, _ = training.TaskTrainer(training.adam(3e-3))(
    task,
    ensemble,
    n_batches=400,
    batch_size=32,
    where_train=whole_network,
    ensembled=True,
    disable_tqdm=True,
    log_step=400,
    key=jax.random.key(7),
)
exact = change(trained["back-propagation"])
changes = {name: change(members) for name, members in trained.items() if name != "readout alone"}
for name, own in {**changes, "other trials": change(other_trials)}.items():
    values = np.linalg.svd(own, compute_uv=False)
    dimensions = np.sum(values**2, axis=1) ** 2 / np.sum(values**4, axis=1)
    size = np.linalg.norm(own, axis=(1, 2))
    numbers = f"size {size.round(1)}  dimensions {dimensions.round(1)}"
    print(f"{name:<17} cosine {cosine(own, exact).round(2)}  {numbers}")

# %% alt="Cosine of the change of recurrent weights by each rule with that by back-propagation"
compared = {name: cosine(own, exact) for name, own in changes.items() if name != "back-propagation"}
compared["other trials"] = cosine(change(other_trials), exact)
figure, ax = plt.subplots(figsize=(4.2, 2.4), layout="constrained")
for row, values in enumerate(compared.values()):
    ax.plot(values, np.full(3, row), "o", color="#0072B2")
ax.axvline(0, color="0.7", lw=0.8, zorder=0)
ax.set(yticks=range(len(compared)), yticklabels=compared, xlabel="cosine with back-propagation")
ax.invert_yaxis()
plt.show()

# %% [markdown]
# **The readout turns towards the feedback.** With random feedback the error arrives wrongly at first. It
# becomes useful because the readout learns to agree with the feedback (Lillicrap et al. 2016): the angle
# between the two gets smaller than 90°.


# %%
def angle_to_feedback(members):
    """The angle between readout and feedback weights of each member, in degrees."""
    weights, given = members.network.readout.weight[:, 0], jnp.asarray(feedback.values)[:, 0]
    products = jnp.sum(weights * given, axis=1)
    norms = jnp.linalg.norm(weights, axis=1) * jnp.linalg.norm(given, axis=1)
    return np.degrees(np.arccos(np.asarray(products / norms))).round()


print("before:         ", angle_to_feedback(ensemble))
for name in ("random feedback", "RFLO", "back-propagation"):
    print(f"{name:<17}", angle_to_feedback(trained[name]))

# %% [markdown]
# What to make of it:
#
# - All rules change the recurrent weights along about two dimensions, and by about as much. A low-dimensional
#   change says that something was learned, not by which rule.
# - The *direction* of the change tells the rules apart. Other trials turn it a little (cosine above .9), the
#   rule turns it far (e-prop about .3, RFLO about .1). But one has to know the first weights to see it.
# - With RFLO the readout turns towards the feedback weights in all three networks, by 4° to 11°. Where the
#   exact gradient goes through random weights it does so in one of three: the recurrent weights learn enough.
#
# ## What to try next
#
# - **More batches:** the rules come closer to each other, and so does the alignment.
# - **A body:** `rules.EProp(body=lambda state: state.plant)` learns to reach, see [learning
#   rules](../how_to/learning_rules.md#a-body).
# - **Recordings:** the changes above are of weights, which nobody records. Compare the *activity* over
#   training instead, by `popsim.analysis.similarity`.
#
# Rules that need one number for the whole trial are in [learning rules](learning_rules.md), all of them in
# [learning rules: which one?](../how_to/learning_rules.md)
