# %% [markdown]
# # Fitting a recording
#
# You have recorded neurons, and want a network whose units do what these neurons do. Does it tell anything
# that is not in the data that it was given? Here you fit networks to half of the neurons of a recording, and
# predict the other half in responses to stimuli that were not used. Then you compare with what nobody can
# beat, the noise of the recording, and with controls that should fail. The computing takes about two minutes.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim import losses, networks, tasks, training
from popsim.analysis.figures import STYLE_SHEET

plt.style.use(STYLE_SHEET)

# %% [markdown]
# ## A recording
#
# The animal of this lesson is a network, so that nothing has to be downloaded: it remembers the signs of the
# last pulses on two channels, and has learned that by practice. You would load a file here instead.

# %%
dt = 0.02
memory = tasks.FlipFlop(n_bits=2, dt=dt)


def build(key, n_units=60, noise_std=0.0):
    network = networks.GRUNetwork(2, n_units, 2, noise_std=noise_std, key=key)
    return popsim.NetworkModel(network, dt=dt)


animal, _ = training.TaskTrainer(training.adam(1e-2))(
    memory,
    build(jax.random.key(0), n_units=100, noise_std=0.01),
    n_batches=300,
    batch_size=64,
    where_train=lambda model: model.network,
    disable_tqdm=True,
    key=jax.random.key(1),
)

# %% [markdown]
# It gets 60 sequences of pulses, each ten times. Of 60 of its 100 units we see spikes: counts in each time
# step, drawn from a Poisson distribution with up to 40 spikes/s.

# %%
n_sequences, n_repeats = 60, 10
sequences = popsim.sample_trials(memory, n_sequences, batch=0, key=jax.random.key(2))
trials = popsim.repeat_trials(sequences, n_repeats)
hidden = popsim.evaluate(animal, memory, trials=trials, key=jax.random.key(3)).states.network.hidden
numbers = np.random.default_rng(0)
neurons = numbers.choice(100, size=60, replace=False)


def rate_of(activity):
    """Rates in spikes/s of units with an activity from -1 to 1."""
    return 20.0 * (1 + activity)


expected = dt * np.maximum(rate_of(np.asarray(hidden)[:, :, neurons]), 0)
spikes = numbers.poisson(expected)  # (trial, time, neuron)
pulses = np.asarray(trials.inputs["pulses"])  # (trial, time, channel)
sequence = np.repeat(np.arange(n_sequences), n_repeats)  # (trial,)
print("trials, time steps, neurons:", spikes.shape)
print(f"mean rate: {spikes.mean() / dt:.1f} spikes/s")

# %% [markdown]
# ## A task of arrays
#
# `tasks.StoredTrials` makes a task of arrays with the axes (trial, time, feature). Networks are to see the
# pulses, and 30 of their units are to fire as the first 30 neurons do: `losses.SpikeCountLikelihood` is the
# Poisson log likelihood of the spike counts, negative. The last twelve sequences are held out.

# %%
given, hidden_neurons = spikes[:, :, :30], spikes[:, :, 30:]
held_out = np.arange(48, 60)


def recorded(stimulus):
    return tasks.StoredTrials(
        {"pulses": stimulus},
        conditions={"sequence": sequence},
        dt=dt,
        recordings={"spikes": given},
        validation={"sequence": held_out},
        loss=1.0 * losses.SpikeCountLikelihood(units=range(30), rate_fn=rate_of),
    )


recorded(pulses)

# %% [markdown]
# Two controls: networks that are not trained, and networks that are trained on shuffled trials, in which the
# pulses are those of another trial. The latter can learn the neurons' mean rates, and nothing of what pulses
# do to them.

# %%
untrained = popsim.make_ensemble(build, n_members=3, key=jax.random.key(4))
shuffled_pulses = pulses[numbers.permutation(len(pulses))]


def fit(task):
    return training.TaskTrainer(training.adam(training.cosine_decay(5e-3, 1000)))(
        task,
        untrained,
        n_batches=1000,
        batch_size=64,
        where_train=lambda model: model.network,
        ensembled=True,
        log_step=100,
        disable_tqdm=True,
        key=jax.random.key(5),
    )


fitted, history = fit(recorded(pulses))
shuffled, shuffled_history = fit(recorded(shuffled_pulses))

# %% alt="Loss in training and on held-out sequences, of networks fitted to real and to shuffled trials"
figure, ax = plt.subplots(figsize=(4.6, 2.4), layout="constrained")
for each, label, color in ((history, "fitted", "C0"), (shuffled_history, "shuffled", "0.6")):
    ax.plot(each.batch, each.loss.total.mean(axis=1), color=color, alpha=0.4, linewidth=0.7)
    ax.plot(each.validation_batch, each.validation_loss.total.mean(axis=1), color=color, label=label)
ax.set(xlabel="training batch", ylabel="nats per time step\nand neuron")
_ = ax.legend(frameon=False)

# %% [markdown]
# Held-out sequences (dark) are fitted as well as those of training (light): the network has found how the
# neurons respond, and not only which responses there were.
#
# ## The other half
#
# Is the activity of the other 30 neurons in the networks? Their rates are read from the units by a linear fit
# with a small penalty, made on the 48 sequences of training, and tested on those that were held out. All
# rates are in bins of 0.1 s, means over the trials of a sequence, and relative to the mean over sequences:
# what all responses share is no success. A third control reads, from the fitted networks, responses that are
# shuffled among the sequences of training.


# %%
def in_bins(series):
    """Means in bins of five time steps, of an array with the axes (..., time, feature)."""
    return series.reshape(*series.shape[:-2], -1, 5, series.shape[-1]).mean(axis=-2)


def responses_of(counts):
    """Mean rates (sequence, bin, neuron) in spikes/s."""
    return np.stack([in_bins(counts[sequence == each].mean(axis=0)) / dt for each in range(n_sequences)])


is_held_out = np.isin(np.arange(n_sequences), held_out)
responses = responses_of(hidden_neurons)
responses = responses - responses[~is_held_out].mean(axis=0)


def predict(ensemble, known=responses[~is_held_out]):
    """Rates of the other half, (member, held-out sequence, bin, neuron), read as fits what is known."""
    states = popsim.evaluate_ensemble(ensemble, memory, trials=sequences, key=jax.random.key(6)).states
    predictions = []
    for activity in in_bins(np.asarray(states.network.hidden, float)):
        units = activity - activity[~is_held_out].mean(axis=0)
        shown, target = (x.reshape(-1, x.shape[-1]) for x in (units[~is_held_out], known))
        squared = shown.T @ shown
        penalty = 1e-3 * np.trace(squared) / len(squared) * np.eye(len(squared))
        predictions.append(units[is_held_out] @ np.linalg.solve(squared + penalty, shown.T @ target))
    return np.stack(predictions)


def explained(prediction):
    """R² of each neuron in the held-out sequences, (member, neuron)."""
    target = responses[is_held_out]
    return 1 - np.sum((target - prediction) ** 2, axis=(1, 2)) / np.sum(target**2, axis=(0, 1))


predictions = {
    "fitted": predict(fitted),
    "untrained": predict(untrained),
    "shuffled trials": predict(shuffled),
    "shuffled responses": predict(fitted, numbers.permutation(responses[~is_held_out])),
}
for name, prediction in predictions.items():
    print(f"{name:20} R² of the other half: {explained(prediction).mean():.2f}")

# %% [markdown]
# ## The noise ceiling
#
# No prediction reaches 1: a mean over ten trials still holds the noise of spikes. How much of its variance is
# not noise? Correlate the means over even trials with those over odd trials, neuron by neuron. From this
# correlation r of two halves follows the reliability of the mean over all trials, 2r / (1 + r) (Spearman
# 1910, Brown 1910). A perfect model explains this fraction of the variance: it is a ceiling of R², not of the
# correlation.


# %%
halves = []
for first in (0, 1):
    counts = [hidden_neurons[sequence == each][first::2].mean(axis=0) for each in range(n_sequences)]
    rates = in_bins(np.stack(counts)) / dt
    halves.append((rates - rates[~is_held_out].mean(axis=0))[is_held_out].reshape(-1, 30))
r = np.array([np.corrcoef(a, b)[0, 1] for a, b in zip(halves[0].T, halves[1].T, strict=True)])
ceiling = 2 * r / (1 + r)
print(f"noise ceiling: {ceiling.mean():.2f}")
for name, prediction in predictions.items():
    print(f"{name:20} of the explainable variance: {explained(prediction).mean() / ceiling.mean():.0%}")

# %% alt="R² of each neuron against its noise ceiling, for fitted networks and three controls"
figure, ax = plt.subplots(figsize=(5.2, 3.0), layout="constrained")
for (name, prediction), color in zip(predictions.items(), ("C0", "C1", "0.6", "C3"), strict=True):
    ax.plot(ceiling, explained(prediction).mean(axis=0), "o", markersize=4, color=color, label=name)
ax.plot([0, 1], [0, 1], color="0.8", zorder=0)
ax.set(xlabel="noise ceiling", ylabel="R² in held-out sequences", xlim=(0, 1), ylim=(-0.7, 1))
_ = ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))

# %% [markdown]
# Each dot is a neuron that no network was fitted to. The fitted networks come near the ceiling. Untrained
# networks explain a good part, too: they see the pulses, and echo the last ones. So do networks fitted to
# shuffled trials. The difference is what the fit has found: a memory.
#
# ## One neuron
#
# The most reliable of these neurons, in four of the held-out sequences. The steps are the mean over ten
# trials.

# %% alt="Rate of a neuron in four held-out sequences, and predictions of a fitted and an untrained network"
best = int(np.argmax(ceiling))
times = 0.05 + 0.1 * np.arange(10)
figure, axes = plt.subplots(1, 4, figsize=(7.2, 1.8), sharey=True, layout="constrained")
for place, ax in enumerate(axes):
    ax.step(times, responses[is_held_out][place, :, best], where="mid", color="0.2", label="recorded")
    for name, color in (("fitted", "C0"), ("untrained", "C1")):
        ax.plot(times, predictions[name][0, place, :, best], color=color, label=name)
    ax.set(xlabel="time (s)")
axes[0].set(ylabel="spikes/s, relative\nto the mean")
_ = axes[-1].legend(frameon=False, fontsize=7)

# %% [markdown]
# ## What next
#
# - Load your own data: `tasks.StoredTrials.from_dataset("recording.nc", inputs=["pulses"],
#   recordings=["spikes"], ...)`, see [a recipe](../how_to/recipes/train_on_own_trials.md).
# - Fit rates in place of spikes: `losses.RateError`, with `unit_weights` where rates are of different sizes.
# - Let the network do the task as well: give `targets`, and `1.0 * losses.OutputError() + 0.1 *
#   losses.SpikeCountLikelihood(...)`.
# - Fit an area by its name, `units="M1"`, in a network with areas (`networks.AreaRNN`).
