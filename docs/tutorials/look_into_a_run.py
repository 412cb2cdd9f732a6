# %% [markdown]
# # Looking into a run
#
# So far, results lived in the notebook and were lost with it. A *run* is a folder with all of a training:
# settings, networks, history and results. You train one, open it as a stranger would, and ask when in
# training the networks learned what. The computing takes about a minute.

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim.analysis import behaviour, neural_activity, trainables
from popsim.analysis.figures import STYLE_SHEET, draw_learning_curves, draw_state_space, draw_weight_history
from popsim.experiments import CenterOut, Recording, run_experiment, verify_run
from popsim.report import report_run

plt.style.use(STYLE_SHEET)
folder = Path(tempfile.mkdtemp())  # in your own work: a folder that stays, such as Path("runs")

# %% [markdown]
# ## An experiment
#
# An experiment is a set of plain values: everything that is needed to train again. What you do not say has
# its default. `recording` chooses when the weights are kept; here after 20 batches, more of them early, when
# learning is fast.
#
# On the command line the same is `popsim train center-out --plant point-mass --members 3 --n-units 32
# --n-batches 300 --batch-size 32 --keep "log 20"`.

# %%
settings = CenterOut(plant="point-mass", n_members=3, n_units=32, n_batches=300, batch_size=32)
trained = run_experiment(settings, folder / "first", recording=Recording("log 20"), draws_figures=False)

# %% [markdown]
# ## Open it
#
# Everything else needs the folder alone. An unfinished run opens too.

# %%
run = popsim.open_run(folder / "first")
run

# %%
print(run.results())

# %% [markdown]
# ## The history
#
# The history is an [xarray](https://docs.xarray.dev) dataset, read from disk when you use it. Axes have
# names: `history.loss.sel(member=2)`.

# %%
run.history

# %% alt="Total loss and its four terms over 300 training batches"
terms = run.history.loss.mean("member")  # (batch, term)
figure, (left, right) = plt.subplots(1, 2, figsize=(7, 2.6), layout="constrained")
draw_learning_curves(left, run.history.batch.values, run.history.total_loss.values)
left.legend()
for term in terms.term.values:
    right.loglog(terms.batch + 1, terms.sel(term=term), label=str(term))
right.set(xlabel="training batch", ylabel="weighted loss")
right.legend()
plt.show()

# %% [markdown]
# The hand learns first to be near the target (position error). To stop there precisely (final velocity) takes
# about 100 batches, and costs stronger commands: the effort rises when the errors fall.
#
# ## The networks at any kept batch
#
# `run.models(batch=...)` returns all members as they were after that batch; -1 is before training. So any
# question that you can ask of a trained network you can ask of its past. How far from the target did the hand
# end, in the course of training?

# %% alt="End-point error of three members over training"
trials = run.task.validation_trials()
starts, targets = np.asarray(trials.init.position), np.asarray(trials.targets.position[:, -1])
kept = [-1, *run.history.trainables_batch.values.tolist()][::2]
errors = []
for batch in kept:
    members = popsim.without_noise(run.models(batch=batch))
    hand = np.asarray(run.evaluate(members).states.hand.position)
    errors.append(1000 * np.linalg.norm(hand[:, :, -1] - targets, axis=-1).mean(axis=1))
figure, ax = plt.subplots(figsize=(4.2, 2.6), layout="constrained")
ax.loglog(np.array(kept) + 2, errors, "o-", ms=3)  # + 2: the untrained networks, batch -1, are at 1
ax.set(xlabel="trained batches + 1", ylabel="end-point error (mm)")
ax.legend([f"member {index}" for index in range(3)])
plt.show()

# %% [markdown]
# ## How far did the weights move?
#
# Distances of each weight matrix from its start, relative to its size. Groups name arrays by their place in
# the model.

# %% alt="Relative distance of the recurrent and the readout weights from their start over training"
groups = {"between units": ["network.cell.weight_hh"], "to the output": ["network.readout.weight"]}
untrained = run.models(batch=-1)
distances = trainables.distance_from_start(
    run.history.dataset, groups=groups, initial=trainables.arrays_by_name(untrained)
)
figure, ax = plt.subplots(figsize=(4.2, 2.6), layout="constrained")
for (name, distance), color in zip(distances.items(), ("#0072B2", "#D55E00"), strict=True):
    batches = run.history.trainables_batch.values
    draw_weight_history(ax, batches, distance.relative, label=name, color=color)
ax.set(ylabel="distance from the start")
ax.legend()
plt.show()

# %% [markdown]
# ## What do the units do?
#
# The activity of the 32 units of a network in the plane of its first two principal components, a line for
# each direction of the target:

# %% alt="Activity of one network in two principal components, coloured by the direction of the target"
states = run.evaluate(popsim.without_noise(run.ensemble)).states
components = neural_activity.principal_components(np.asarray(states.network.hidden), n_components=2)
figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
draw_state_space(ax, components.projections[0], direction=np.asarray(trials.conditions["direction"]))
plt.show()
speed = np.asarray(behaviour.hand_speed(states.hand))
print("peak speed of each member (m/s):", speed.max(axis=-1).mean(axis=1).round(2))

# %% [markdown]
# ## Trust, and a report
#
# `verify_run` compares what has a checksum with it, and returns what is damaged. `report_run` writes one
# page with settings, results and figures that opens in any browser; on the command line, `popsim show`.

# %%
print("damaged:", verify_run(folder / "first") or "nothing")
report = report_run(run, folder / "report")
print("the report:", sorted(path.name for path in (folder / "report").iterdir()))

# %% [markdown]
# ## What to try next
#
# - **Interrupt it:** stop a training with Ctrl-C, and continue it with `popsim resume`. The result is the
#   same, to the bit.
# - **Your own training:** `TaskTrainer(..., chkpt_dir="trainings/first")` saves the same for a task and model
#   of your own; `popsim.open_run(path, task=task, build=build)` opens it.
# - **Compare two runs:** `popsim compare runs/first runs/second`.
# - **Other software:** `popsim export` writes NetCDF, safetensors and figures.
#
# The next lesson is [dynamics and fixed points](dynamics.md). All about runs is in [runs](../how_to/runs.md).
