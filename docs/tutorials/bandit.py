# %% [markdown]
# # A network that learns a bandit
#
# In a bandit a player chooses among arms again and again, and does not know how often each of them pays. You
# train networks on reward, on many bandits. Then you hold their weights fixed, and let them play new bandits:
# they find the better arm by their activity alone (Wang et al. 2018, Nat Neurosci 21:860). You compare them
# with ideal players, and look for what they remember. The computing takes about two minutes.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim import losses, networks, schedules, tasks, training
from popsim.analysis import neural_activity
from popsim.analysis.figures import STYLE_SHEET
from popsim.policies import Categorical

plt.style.use(STYLE_SHEET)

# %% [markdown]
# ## A task that answers
#
# A trial of this task has no inputs. It has an environment, which shows the last action and the last reward,
# and pays each choice with the probability of the chosen arm. These probabilities are drawn anew in each
# trial. See [tasks that answer](../concepts/environment.md).
#
# The loss is that of [reinforcement learning](../how_to/reinforcement_learning.md): a policy gradient, a
# critic, and a reward for exploring that falls to zero.

# %%
n_choices, n_batches = 50, 1000
loss = (
    losses.PolicyGradient(discount=0.9)
    + 0.05 * losses.ValueRegression(discount=0.9)
    + schedules.LinearSchedule(1.0, 0.0, last_batch=n_batches) * losses.Entropy()
)
task = tasks.BernoulliBandit(n_choices=n_choices, loss=loss)
trial = task.trial(batch=0, key=jax.random.key(0))
print("probabilities of reward:", trial.environment.probabilities.round(2))

# %% [markdown]
# ## Training
#
# The network puts out two preferences and one estimate of the rewards to come. The policy draws an action
# from the preferences.

# %%
policy = Categorical(2, critic=True)
n_inputs = popsim.n_network_inputs(task.validation_trials())


def build(key):
    network = networks.GRUNetwork(n_inputs, 48, policy.n_outputs, key=key)
    return popsim.NetworkModel(network, policy=policy, dt=task.dt)


untrained = popsim.make_ensemble(build, n_members=3, key=jax.random.key(0))
players, history = training.TaskTrainer(training.adam(3e-3))(
    task,
    untrained,
    n_batches=n_batches,
    batch_size=64,
    where_train=lambda model: model.network,
    ensembled=True,
    disable_tqdm=True,
    key=jax.random.key(1),
)

# %% [markdown]
# The curve of the policy gradient is minus the reward, and thus shows what the networks earn.

# %% alt="The reward of three networks in a trial of 50 choices, over training batches"
earned = -history.loss.terms["minus reward"]
smooth = earned.reshape(-1, 20, 3).mean(axis=1)
figure, ax = plt.subplots(figsize=(4.6, 2.4), layout="constrained")
ax.plot(np.arange(len(smooth)) * 20 + 10, smooth)
ax.axhline(n_choices / 2, color="0.6", linestyle="--")
ax.axhline(n_choices * 2 / 3, color="0.6", linestyle=":")
ax.set(xlabel="training batch", ylabel="reward of a trial")

# %% [markdown]
# The dashed line is guessing, the dotted line always the better arm.
#
# ## New bandits, fixed weights
#
# Regret is by how much the better arm would have paid more. Thompson sampling and a greedy player know the
# rules of the task, and count what each arm has paid.

# %%
fresh = popsim.sample_trials(task, 1000, batch=n_batches, key=jax.random.key(2))
key = jax.random.key(3)


def regret_of(interaction):
    return np.asarray(interaction.record["regret"])


states = popsim.evaluate_ensemble(players, task, trials=fresh, key=key).states
regret = {"networks": regret_of(states.interaction).mean(axis=0)}
for name, player in {
    "Thompson sampling": tasks.ThompsonSampling(2),
    "greedy player": tasks.GreedyBandit(2),
    "guessing": tasks.RandomPlayer(2),
}.items():
    regret[name] = regret_of(tasks.play(player, fresh, key=key))
for name, each in regret.items():
    print(f"{name:18} regret of a trial: {each.sum(axis=-1).mean():.2f}")

# %% alt="Regret at each choice of networks, Thompson sampling, a greedy player and guessing"
figure, ax = plt.subplots(figsize=(4.6, 2.6), layout="constrained")
for name, each in regret.items():
    ax.plot(np.arange(n_choices) + 1, each.mean(axis=0), label=name)
ax.set(xlabel="choice", ylabel="regret", ylim=(0, None))
_ = ax.legend(frameon=False)

# %% [markdown]
# The networks explore in the first choices, and then keep to the better arm. Nothing in their weights changes
# on the way.
#
# ## What they remember
#
# A player that counts needs the rate of reward of each arm. We compute what a counting player would believe
# after the same choices: the difference between the two expected rates. Can it be read from the activity? A
# linear fit is made in half of the trials and tested in the others. Untrained networks are the control: they
# play by chance, and their activity echoes the last choices and rewards, which are much of a belief at first.


# %%
def belief(interaction):
    """The difference between the expected rates of arm 1 and arm 0 before each choice."""
    chosen = jax.nn.one_hot(interaction.action, 2)
    won = jnp.cumsum(chosen * interaction.reward[..., None], axis=2)
    n = jnp.cumsum(chosen, axis=2)
    rates = (won + 1) / (n + 2)
    before = jnp.concatenate([jnp.full_like(rates[:, :, :1], 0.5), rates[:, :, :-1]], axis=2)
    return np.asarray(before[..., 1] - before[..., 0])


def fit_quality(states):
    """R² of the belief from the activity of each member, at each choice."""
    activity, beliefs = np.asarray(states.network.hidden, np.float64), belief(states.interaction)
    quality = np.zeros((len(activity), n_choices - 1))
    for member in range(len(activity)):
        for t in range(1, n_choices):
            units = np.column_stack([activity[member, :, t], np.ones(len(beliefs[member]))])
            weights = np.linalg.lstsq(units[:500], beliefs[member, :500, t], rcond=None)[0]
            error = beliefs[member, 500:, t] - units[500:] @ weights
            quality[member, t - 1] = 1 - error.var() / beliefs[member, 500:, t].var()
    return quality


untrained_states = popsim.evaluate_ensemble(untrained, task, trials=fresh, key=key).states
quality = {"trained": fit_quality(states), "untrained": fit_quality(untrained_states)}
for name, each in quality.items():
    print(f"{name:10} R² at choice 10 and {n_choices}: {each[:, 8].mean():.2f}, {each[:, -1].mean():.2f}")

# %% alt="How well the belief can be read from activity, at each choice, of trained and untrained networks"
figure, ax = plt.subplots(figsize=(4.6, 2.4), layout="constrained")
for name, color in (("trained", "C0"), ("untrained", "0.6")):
    ax.plot(np.arange(2, n_choices + 1), quality[name].T, color=color, alpha=0.7)
    ax.plot([], [], color=color, label=name)
ax.set(xlabel="choice", ylabel="R²", ylim=(0, 1))
_ = ax.legend(frameon=False)

# %% [markdown]
# ## One bandit in the plane of two components
#
# The first components of the activity show what a trial is: networks start in the middle, and end on the side
# of the arm to which they keep.

# %% alt="Paths of the activity of one network in the plane of two components, coloured by the better arm"
activity = np.asarray(states.network.hidden)
components = neural_activity.principal_components(activity, n_components=2)
paths = components.project(activity)[0]
best = np.asarray(fresh.conditions["best arm"])
figure, ax = plt.subplots(figsize=(3.6, 3.2), layout="constrained")
for trial in range(24):
    ax.plot(*paths[trial].T, color=("C0", "C1")[best[trial]], alpha=0.25, linewidth=0.7)
    ax.plot(*paths[trial, -1], "o", color=("C0", "C1")[best[trial]], markersize=3)
ax.set(xlabel="component 1", ylabel="component 2")

# %% [markdown]
# ## What next
#
# - Give the networks arms that reverse (`tasks.ReversalLearning`) or drift (`tasks.DriftingBandit`), and
#   compare them with `tasks.ReversalObserver` and `tasks.KalmanBandit`.
# - Shuffle the rewards in the loss: without them networks stay at guessing.
# - `popsim train bandit` trains this task by name.
