# %% [markdown]
# # Sweeps and sharing
#
# One training answers one question: how do these networks do with these settings? A sweep trains every
# combination of some settings, with the same seeds in each. You make one, see what the settings do, and give
# the results to somebody else. The computing takes about a minute.

# %%
import shutil
import tempfile
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim.analysis.figures import STYLE_SHEET, draw_setting_map, draw_setting_scores
from popsim.analysis.statistics import paired_comparison
from popsim.experiments import CenterOut, load_ensemble, save_ensemble
from popsim.report import report_sweep
from popsim.sweeps import Sweep, make_sweep, open_sweep, run_sweep, verify_sweep

plt.style.use(STYLE_SHEET)
folder = Path(tempfile.mkdtemp())  # in your own work: a folder that stays, such as Path("sweeps")

# %% [markdown]
# ## A plan
#
# How much does noise in vision cost, and does a larger network cope better with it? Two axes with three and
# two values, and four seeds: 24 networks. A plan trains nothing.
#
# Settings that only change numbers, such as noise, become members of one ensemble and train together. Sizes
# cannot: so each size is a *cell* of its own, an ordinary run.

# %%
base = CenterOut(plant="point-mass", n_batches=200, batch_size=16, learning_rate=1e-2)
axes = {
    "vision_noise": [(0.002, 0.02), (0.006, 0.06), (0.018, 0.18)],  # m and m/s
    "n_units": [8, 32],
}
plan = Sweep(base, axes, seeds=range(4))
print(f"{plan.n_members} networks in {plan.n_cells} cells:")
for cell in plan.cells():
    print(f"  cell {cell.number}: {cell}")

# %% [markdown]
# ## Train it
#
# The folder comes first, then the cells. If this stops half-way, run the same line again: finished cells are
# left alone, and a started one continues. On the command line it is `popsim sweep center-out --grid
# n-units=8,32 ... --out sweeps/noise`, and a script for SLURM gives the cells to the nodes of a cluster.

# %%
make_sweep(plan, folder / "noise")
run_sweep(folder / "noise")
sweep = open_sweep(folder / "noise")
print(sweep.counts)

# %% [markdown]
# ## The table
#
# A row for each network: its settings, its seed, its losses, and the metrics of the experiment. It is an
# ordinary table of pandas.

# %%
table = sweep.summary()
shown = ["n_units", "vision_noise", "seed", "training_loss", "validation_loss"]
table[shown].round(5).head(8)

# %% [markdown]
# ## What do the settings do?
#
# A point for each network. The horizontal line is the mean of a setting, with its 95 % interval.

# %% alt="Validation loss against the noise of vision, for networks of 8 and of 32 units"
noise = np.array([1000 * value[0] for value in table["vision_noise"]])  # mm
levels = np.unique(noise)
score = table["validation_loss"].to_numpy()
figure, panels = plt.subplots(1, 2, figsize=(7, 2.7), sharey=True, layout="constrained")
for ax, size in zip(panels, axes["n_units"], strict=True):
    of_size = (table["n_units"] == size).to_numpy()
    scores = [score[of_size & (noise == level)] for level in levels]
    names = [f"{level:.0f} mm" for level in levels]
    draw_setting_scores(ax, scores, names=names, axis="noise of vision", label="validation loss")
    ax.set(title=f"{size} units", yscale="log")
plt.show()

# %% alt="Mean validation loss at each combination of noise and size"
means = [
    [score[(table["n_units"] == size) & (noise == level)].mean() for level in levels] for size in (8, 32)
]
figure, ax = plt.subplots(figsize=(4.2, 2.4), layout="constrained")
draw_setting_map(
    ax,
    np.array(means),
    rows=["8", "32"],
    columns=[f"{level:.0f}" for level in levels],
    axes=("units", "noise of vision (mm)"),
    label="validation loss",
)
plt.show()

# %% [markdown]
# ## Is it so, or is it chance?
#
# The same seed has the same trials in every combination, and for one size the same first weights. So networks
# of one seed are pairs. Compare logarithms: a mean of losses is decided by the worst network.

# %%
large = table[table["n_units"] == 32]
pairs = [
    np.log10(
        large[[value == level for value in large["vision_noise"]]].sort_values("seed")["validation_loss"]
    )
    for level in (axes["vision_noise"][0], axes["vision_noise"][-1])
]
result = paired_comparison(*(pair.to_numpy() for pair in pairs), key=jax.random.key(0))
factor, low, high = (10**value for value in (result.difference, result.low, result.high))
print(f"32 units, most noise against least: the loss is {factor:.1f} times as high ({low:.1f} to {high:.1f})")

# %% [markdown]
# ## Networks of a selection
#
# `where` selects by settings, and `ensemble` returns the trained networks, stacked. They behave as any
# ensemble: evaluate them, analyse them, train them further.

# %%
large = sweep.where(n_units=32, vision_noise=axes["vision_noise"][0])
members = large.ensemble()
print("members:", popsim.n_members(members))
members

# %% [markdown]
# ## Share it
#
# Nothing in a folder refers to where it lies, and opening one runs no code. So send the folder. Who gets it
# can check that nothing was damaged on the way, and open it. For a reader, write a report, one page; for
# other software, a table.

# %%
archive = shutil.make_archive(str(folder / "noise"), "zip", folder / "noise")
shutil.unpack_archive(archive, folder / "received")
received = open_sweep(folder / "received")
print("damaged:", verify_sweep(folder / "received") or "nothing")

report_sweep(received, folder / "report")
received.summary().to_csv(folder / "noise.csv")
for path in (archive, folder / "report" / "report.html", folder / "noise.csv"):
    print(f"{Path(path).name}: {Path(path).stat().st_size / 1e6:.2f} MB")

# %% [markdown]
# The networks alone are one small file. It holds their settings too, so that who opens it needs no code of
# yours:

# %%
run = received.run(1)
save_ensemble(folder / "networks.safetensors", run.ensemble, run.experiment)
experiment, networks = load_ensemble(folder / "networks.safetensors")
same = jax.tree.map(np.array_equal, run.ensemble, networks)
print("the same to the bit:", all(jax.tree.leaves(same)), "- size", experiment.n_units, "units")

# %% [markdown]
# ## What to try next
#
# - **How is it divided?** `popsim sweep ... --dry-run` prints the cells beforehand.
# - **More seeds:** a second sweep with `range(4, 20)`. Its networks are those that the first would have had.
# - **A cluster:** `popsim sweep script sweeps/noise --slurm`, see [a sweep on a
#   cluster](../experiments/slurm_sweep.md).
# - **Search instead of a grid:** members may take the weights of better ones, see
#   [selection](../how_to/selection.md).
# - **An experiment of your own** has axes too: see [an experiment of your own](../how_to/own_experiment.md).
#
# This was the last lesson. For one question at a time there are [recipes](../how_to/recipes/index.md).
