# %% [markdown]
# # Fitting a recording
#
# You have a file with the spikes of many neurons, and know what the animal was shown. Does a network that is
# fitted to some of these neurons tell anything about the others? Here you write a small NWB file, read it,
# fit networks to half of its neurons, and predict the spikes of the other half in trials that were held out.
# Three controls say what such a score is worth. The computing takes about two minutes.

# %%
import dataclasses

import h5py
import jax
import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim import losses, networks, tasks, training
from popsim.analysis.figures import STYLE_SHEET, draw_raster
from popsim.analysis.neural_activity import bits_per_spike

plt.style.use(STYLE_SHEET)

# %% [markdown]
# ## A recording
#
# The animal of this lesson is a network, so that nothing has to be downloaded. It remembers the signs of the
# last pulses on two channels, and has learned that by practice.

# %%
dt = 0.02  # s
memory = tasks.FlipFlop(n_bits=2, dt=dt)


def train(task, models, n_batches, learning_rate, where=lambda model: model.network, **options):
    return training.TaskTrainer(training.adam(training.cosine_decay(learning_rate, n_batches)))(
        task,
        models,
        n_batches=n_batches,
        batch_size=64,
        where_train=where,
        disable_tqdm=True,
        key=jax.random.key(1),
        **options,
    )


brain = networks.GRUNetwork(2, 100, 2, noise_std=0.01, key=jax.random.key(0))
animal, _ = train(memory, popsim.NetworkModel(brain, dt=dt), n_batches=300, learning_rate=1e-2)

# %% [markdown]
# It gets 60 sequences of pulses, each ten times, in trials of 1 s. We record from 60 of its 100 units. Their
# rates, in spikes/s, are an exponential of their activity. Spikes come at random, and are all that we keep.

# %%
n_sequences, n_repeats = 60, 10
trials = popsim.sample_trials(memory, n_sequences, batch=0, key=jax.random.key(2))
trials = popsim.repeat_trials(trials, n_repeats)
hidden = popsim.evaluate(animal, memory, trials=trials, key=jax.random.key(3)).states.network.hidden
rates = 5 * np.exp(2 * np.asarray(hidden, float)[:, :, :60])  # (trial, time, neuron)
numbers = np.random.default_rng(0)
counts = numbers.poisson(dt * rates)
starts = 100 + 2.0 * np.arange(len(counts))  # s: when trials begin in the session

# %% [markdown]
# ## An NWB file
#
# NWB is a form of HDF5 in which many laboratories share recordings. It has no time steps: of each neuron it
# has the times of its spikes, in seconds of the session, and of each trial a row in a table. Half of our
# neurons get the label "A", the others "B", as if they came from two probes. Your own file has all of this
# already.

# %%
trial, step, neuron = np.repeat(np.argwhere(counts), counts[counts > 0], axis=0).T
times = starts[trial] + dt * (step + numbers.random(len(step)))
spike_times = [np.sort(times[neuron == number]) for number in range(60)]
shown = np.zeros((len(counts), 100, 2))  # with 0.5 s of nothing before and after each trial
shown[:, 25:75] = trials.inputs["pulses"]

with h5py.File("session.nwb", "w") as file:
    file.attrs["nwb_version"] = "2.9.0"
    columns = {"start_time": starts, "stop_time": starts + 1}
    columns |= {"id": np.arange(len(counts)), "sequence": np.repeat(np.arange(n_sequences), n_repeats)}
    for name, column in columns.items():
        file[f"intervals/trials/{name}"] = column
    file["units/id"], file["units/probe"] = np.arange(60), ["A"] * 30 + ["B"] * 30
    file["units/spike_times"] = np.concatenate(spike_times)
    file["units/spike_times_index"] = np.cumsum([len(each) for each in spike_times])
    file["stimulus/presentation/pulses/data"] = shown.reshape(-1, 2)
    file["stimulus/presentation/pulses/starting_time"] = starts[0] - 0.5 + dt / 2
    file["stimulus/presentation/pulses/starting_time"].attrs["rate"] = 1 / dt

# %% [markdown]
# ## From the file to a task
#
# `tasks.StoredTrials.from_nwb` makes a task of the file. It finds the series "pulses" by its name, wherever
# it is. `align` names the event at which a trial begins, and `units` selects neurons by a column. Spikes are
# counted in each time step. The last twelve sequences are held out: they validate, and do not train.
#
# The loss is about the outputs of a network. Each of the 30 is to be the logarithm of the rate of a neuron.
# `losses.SpikeCountLikelihood` is the negative log likelihood of the counts, if they are drawn from a Poisson
# distribution with these rates.

# %%
held_out = np.arange(48, 60)


def read(probe):
    return tasks.StoredTrials.from_nwb(
        "session.nwb",
        inputs=["pulses"],
        conditions=["sequence"],
        align="start_time",
        dt=dt,
        units={"probe": probe},
        validation={"sequence": held_out},
        loss=1.0 * losses.SpikeCountLikelihood(of="output", log_rates=True),
    )


half, other_half = read("A"), read("B")
half

# %% [markdown]
# Look at what was read before you fit anything. On the left is one trial, on the right one neuron in four
# sequences, each of which was shown ten times.

# %% alt="Spikes of 30 neurons in one trial, and of one neuron in forty trials of four sequences"
spikes = np.asarray(half.recordings["spikes"].values)
figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 2.4), layout="constrained")
draw_raster(left, spikes[0], dt=dt)
draw_raster(right, spikes[:40, :, 0].T, dt=dt)
for first_of_sequence in (10, 20, 30):
    right.axhline(first_of_sequence + 0.5, color="C1", linewidth=0.7)
left.set(ylabel="neuron")
_ = right.set(ylabel="trial")

# %% [markdown]
# ## Fit one half
#
# The network gets the pulses, and begins every trial in the same state. Its outputs start near the mean rates
# of the neurons, so that it has to learn only what differs from these. A second training sees shuffled
# trials: the pulses are those of another trial. It can learn mean rates, and nothing of what pulses do to
# them.

# %%
mean_rates = spikes[:480].mean(axis=(0, 1)) / dt


def build(key):
    network = networks.GRUNetwork(2, 60, 30, output_bias=np.log(mean_rates), key=key)
    return popsim.NetworkModel(network, dt=dt)


untrained = popsim.make_ensemble(build, n_members=3, key=jax.random.key(4))
order = numbers.permutation(len(counts))


def shuffle(task):
    return dataclasses.replace(task, inputs={"pulses": task.inputs["pulses"][order]})


options = {"ensembled": True, "log_step": 50}
first_fit = {"n_batches": 600, "learning_rate": 5e-3}
fitted, history = train(half, untrained, **first_fit, **options)
fitted_to_shuffled, shuffled_history = train(shuffle(half), untrained, **first_fit, **options)

# %% alt="Loss in training and on held-out sequences, of networks fitted to real and to shuffled trials"
figure, ax = plt.subplots(figsize=(4.6, 2.4), layout="constrained")
for each, label, color in ((history, "fitted", "C0"), (shuffled_history, "shuffled", "0.6")):
    ax.plot(each.batch, each.loss.total.mean(axis=1), color=color, alpha=0.4, linewidth=0.7)
    ax.plot(each.validation_batch, each.validation_loss.total.mean(axis=1), color=color, label=label)
ax.set(xlabel="training batch", ylabel="nats per time step\nand neuron")
_ = ax.legend(frameon=False)

# %% [markdown]
# Held-out sequences (dark) have a higher loss than those of training (light) in both fits, since neurons
# happen to fire a little more in them. The gap between the fits is as large in the dark as in the light
# curves: the network has found how the neurons respond, and not only which responses there were.
#
# ## Predict the other half
#
# Is the activity of the other 30 neurons in the network? Let its outputs be the rates of these. Nothing but
# the readout is trained, on the same 48 sequences, so that the units stay as they were fitted to the first
# half. Untrained networks and those of shuffled trials get such a readout as well. In the last control the
# readout of the fitted networks is trained on shuffled trials.

# %%
readouts = {
    "fitted": (fitted, other_half),
    "untrained": (untrained, other_half),
    "shuffled trials": (fitted_to_shuffled, other_half),
    "shuffled readout": (fitted, shuffle(other_half)),
}
predictions = {}
for name, (models, task) in readouts.items():
    read_out, _ = train(
        task, models, 300, learning_rate=1e-2, where=lambda model: model.network.readout, **options
    )
    states = popsim.evaluate_ensemble(read_out, other_half, key=jax.random.key(5)).states
    predictions[name] = np.exp(np.asarray(states.network.output, float))  # (member, trial, time, neuron)

# %% [markdown]
# ## Bits per spike
#
# How good are these rates? `bits_per_spike` compares the likelihood of the spikes with that under the mean
# rate of each neuron. At 0 a prediction is as good as the mean, and below 0 it is worse. No prediction is
# perfect, as spikes are random. What the true rates reach is the ceiling. Here we know them. In an animal
# nobody does, and [Fit recordings](../experiments/fit_a_recording.md) estimates a ceiling from repeated
# trials.

# %%
is_held_out = np.isin(half.conditions["sequence"], held_out)
observed = np.asarray(other_half.recordings["spikes"].values)[is_held_out]
ceiling = bits_per_spike(rates[None, is_held_out][..., 30:], observed, dt=dt)[0]
scores = {name: bits_per_spike(predicted, observed, dt=dt) for name, predicted in predictions.items()}
print(f"{'true rates':18} {ceiling:.3f} bits/spike")
for name, score in scores.items():
    print(f"{name:18} {score.mean():.3f} bits/spike, {score.mean() / ceiling:.0%} of the ceiling")

# %% alt="Bits per spike of three networks each, fitted and in three controls, below the ceiling"
figure, ax = plt.subplots(figsize=(4.6, 2.4), layout="constrained")
for place, (score, color) in enumerate(zip(scores.values(), ("C0", "C1", "0.6", "C3"), strict=True)):
    ax.plot(np.full(3, place), score, "o", markersize=4, color=color)
for height, label in ((ceiling, "true rates"), (0, "mean rates")):
    ax.axhline(height, color="0.8", zorder=0)
    ax.annotate(label, (3.4, height), fontsize=7, ha="right", va="bottom")
ax.set_xticks(range(4), [name.replace(" ", "\n") for name in scores])
_ = ax.set(ylabel="bits per spike", xlim=(-0.4, 3.4))

# %% [markdown]
# Each dot is a network. The fitted networks come near the ceiling, for neurons that they were not fitted to.
# Untrained networks explain a part, too: they see the pulses, and echo the last ones. So do networks fitted
# to shuffled trials. The difference is what the fit has found: a memory. Always look at such controls:
# networks that were never fitted can score well above 0.
#
# ## One neuron
#
# The neuron whose rate varies most, in four of the held-out sequences. The steps are means over ten trials in
# bins of 0.1 s.

# %% alt="Rate of a neuron in four held-out sequences, and predictions of a fitted and an untrained network"
best = int(np.argmax(predictions["fitted"][0].std(axis=(0, 1))))
figure, axes = plt.subplots(1, 4, figsize=(7.2, 1.8), sharey=True, layout="constrained")
for place, ax in enumerate(axes):
    of_sequence = slice(10 * place, 10 * place + 10)
    in_bins = observed[of_sequence, :, best].mean(axis=0).reshape(10, 5).mean(axis=1) / dt
    ax.stairs(in_bins, 0.1 * np.arange(11), color="0.2", label="recorded")
    for name, color in (("fitted", "C0"), ("untrained", "C1")):
        rate = predictions[name][0, of_sequence.start, :, best]
        ax.plot(dt * (0.5 + np.arange(50)), rate, color=color, label=name)
    ax.set(xlabel="time (s)")
axes[0].set(ylabel="spikes/s")
_ = axes[2].legend(frameon=False, fontsize=7)

# %% [markdown]
# ## What next
#
# - Load your own file: [a recipe](../how_to/recipes/recorded_files.md) has NWB, MATLAB v7.3, HDF5, CSV and
#   arrays of spike times.
# - If the state in which a trial begins is not known, encode it from the spikes of that trial, as in
#   [Fit recordings](../experiments/fit_a_recording.md).
# - Let units, not outputs, fire as neurons do: `losses.SpikeCountLikelihood(units=range(30))`, or those of an
#   area, `units="M1"`, in a network with areas (`networks.AreaRNN`). Then the network can have `targets`,
#   too, and do the task by means of these units.
# - Fit rates in place of spikes: `losses.RateError`, with `unit_weights` where rates are of different sizes.
