# %% [markdown]
# # A task of your own, with catch trials
#
# You write a task that is in no library: wait for a go cue, then reach. In some trials the cue never comes.
# These *catch trials* tell whether a network waits for the cue, or has learned when it usually comes.
#
# At the end you write a decision, a task without a body. You need what
# [the first lesson](first_population.md) shows. The computing takes about two minutes.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim import losses, networks, plants, training
from popsim.analysis import behaviour
from popsim.analysis.figures import STYLE_SHEET, draw_task_trials, task_trial_rows

plt.style.use(STYLE_SHEET)

# %% [markdown]
# ## When things happen
#
# A plan says which epochs a trial has and how long each lasts. Here the waiting lasts between 0.1 and 0.4 s,
# drawn anew in every trial, and ends with the event "go cue". In a fifth of the trials the cue does not
# happen, and the waiting lasts to the end.

# %%
plan = popsim.TrialPlan(
    (
        popsim.Epoch("wait", popsim.distributions.Uniform(0.1, 0.4)),  # s
        popsim.Epoch("move", event="go cue"),
    ),
    duration=1.0,
    dt=0.01,
    catch_event="go cue",
    catch_probability=0.2,
)

# %% [markdown]
# ## The task
#
# A task is a class with three parts: a `loss`, a method that draws one training trial from a random key, and
# a method that makes the fixed validation trials. Both call `reach`, which makes a trial from a direction and
# a timeline.
#
# A trial says where the hand starts (`init`), what the network is told (`inputs`), where the hand should be
# at each time (`targets`), and by what you want to sort trials later (`conditions`). The target is shown from
# the start; only the cue says when to go. In a catch trial `since("go cue")` is false throughout, so the hand
# should stay.
#
# JAX runs `trial` once and turns it into a program for all trials. So draw from `key`, and choose with
# `jnp.where`, not with `if`.


# %%
class CuedReach(popsim.AbstractTask):
    """Wait for the go cue, then move to the target; without the cue, stay."""

    workspace: popsim.Workspace
    plan: popsim.TrialPlan = plan
    loss: popsim.Loss = losses.PositionError(profile=losses.PowerProfile(0)) + 1e-6 * losses.Effort()

    def trial(self, *, batch, key):
        angle = jax.random.uniform(popsim.key_stream(key, "angle"), maxval=2 * jnp.pi)
        return self.reach(angle, self.plan.draw(key=key))

    def validation_trials(self):
        angles = jnp.linspace(0, 2 * jnp.pi, 8, endpoint=False)
        return jax.vmap(lambda angle: self.reach(angle, self.plan.nominal()))(angles)

    def reach(self, angle, timeline):
        start = self.workspace.center
        target = start + 0.1 * jnp.array([jnp.cos(angle), jnp.sin(angle)])
        go = timeline.since("go cue")[:, None]  # (time, 1)
        where = jnp.where(go, target, start)  # (time, 2)
        return popsim.Trial(
            init=popsim.HandState(start, jnp.zeros(2)),
            inputs={"go": go.astype(float), "target": jnp.broadcast_to(target, where.shape)},
            targets=popsim.HandState(where, jnp.zeros_like(where)),
            timeline=timeline,
            conditions={"direction": angle, "catch": ~timeline.happens("go cue")},
        )


plant = plants.PointMass()
task = CuedReach(plant.workspace)
task

# %% [markdown]
# The description is made from trials that your methods drew. Read it as a check: two inputs, a cue between
# 0.1 and 0.4 s in about 80 % of the trials, and a condition "catch".
#
# Then look at single trials. Draw some until one is a catch trial:

# %% alt="Inputs and targets of three trials, of which one is a catch trial"
drawn = popsim.sample_trials(task, 200, batch=0, key=jax.random.key(0))
is_catch = np.asarray(drawn.conditions["catch"])
shown = np.concatenate([np.flatnonzero(~is_catch)[:2], np.flatnonzero(is_catch)[:1]])
few = jax.tree.map(lambda leaf: leaf[shown], drawn)

rows = len(task_trial_rows(few))
figure, axes = plt.subplots(
    rows, 3, sharex=True, sharey="row", squeeze=False, figsize=(7, 0.9 + 0.85 * rows), layout="constrained"
)
draw_task_trials(axes, few)
figure.align_ylabels(axes[:, 0])
plt.show()
print(f"{is_catch.mean():.0%} of the drawn trials are catch trials")

# %% [markdown]
# ## Two groups of networks
#
# Does a network that has this loss wait for the cue? It is paid for being at the target from the cue on, so
# it may gain by leaving early. Compare two groups: three members with the loss above, and three that also pay
# for leaving the start before the cue. A weight that is a `PerMember` has a value for each member, so that
# both groups train in one program.

# %%
hold = losses.Hold(popsim.windows.Before("go cue"))
paid = popsim.PerMember([0.0, 0.0, 0.0, 20.0, 20.0, 20.0])
groups = {"plain loss": slice(0, 3), "pays for leaving": slice(3, 6)}
both = CuedReach(plant.workspace, loss=task.loss + paid * hold)
print(both.loss)

# %% [markdown]
# The rest is as with a task of the library: models, trainers and analyses know nothing of yours but its
# trials.

# %%
channels = {"vision": popsim.SensoryChannel(popsim.vision, delay=0.05)}
n_inputs = popsim.n_network_inputs(task.validation_trials(), plant, channels)


def build(key):
    network = networks.GRUNetwork(n_inputs, 32, plant.n_commands, key=key)
    return popsim.SensorimotorLoop(network, plant, channels, dt=0.01)


ensemble = popsim.make_ensemble(build, n_members=6, key=jax.random.key(1))
trainer = training.TaskTrainer(training.adam(training.cosine_decay(1e-2, 300), clip_norm=1.0))
trained, history = trainer(
    both,
    ensemble,
    n_batches=300,
    batch_size=24,
    where_train=lambda model: model.network,
    ensembled=True,
    key=jax.random.key(2),
)
print("loss at the start:", history.loss.total[0].round(2))
print("loss at the end:  ", history.loss.total[-1].round(3))

# %% [markdown]
# ## Do they wait?
#
# The validation trials have no catch trials, so use the 200 trials from above. Go trials and catch trials are
# told apart by their condition.

# %%
states = popsim.evaluate_ensemble(trained, both, trials=drawn, key=jax.random.key(3)).states
start = np.asarray(plant.workspace.center)
distance = 100 * np.linalg.norm(np.asarray(states.hand.position) - start, axis=-1)  # cm from the start
for name, group in groups.items():
    farthest = distance[group][:, is_catch].max(axis=2).mean(axis=1)
    reached = distance[group][:, ~is_catch, -1].mean(axis=1)
    print(f"{name}: in catch trials up to {farthest.round(1)} cm from the start, on average")
    print(f"{name}: at the end of go trials {reached.round(1)} cm, should be 10")

# %% [markdown]
# ## When do they move?
#
# `align_to_event` puts the cue of all trials at time zero. The reaction time runs from the cue to the onset
# of the movement, here the first moment above a tenth of the peak speed; a negative one means that the hand
# left before the cue.

# %% alt="Speed of the hand around the go cue, and distance from the start in catch trials, for both groups"
speed = np.asarray(behaviour.hand_speed(states.hand))  # (member, trial, time), m/s
around = np.asarray(popsim.analysis.align_to_event(speed, drawn, "go cue", before=0.3, after=0.4))
time = np.linspace(-0.3, 0.4, around.shape[-1])
figure, (left, right) = plt.subplots(1, 2, figsize=(7, 2.6), layout="constrained")
for (name, group), color in zip(groups.items(), ("#D55E00", "#0072B2"), strict=True):
    left.plot(time, np.nanmean(around[group][:, ~is_catch], axis=1).T, color=color, label=name)
    in_catch = distance[group][:, is_catch].mean(axis=1)
    right.plot(0.01 * np.arange(1, 101), in_catch.T, color=color)
left.axvline(0, color="0.6", lw=0.7)
left.set(xlabel="time from the go cue (s)", ylabel="speed (m/s)")
left.legend(*(handles[::3] for handles in left.get_legend_handles_labels()))
right.set(xlabel="time in the trial (s)", ylabel="distance in catch trials (cm)")
plt.show()

# %%
onset = np.asarray(behaviour.movement_onset(speed, behaviour.FractionOfPeak(0.1), dt=0.01))  # s
cue = 0.01 * np.asarray(drawn.timeline.events["go cue"])
for name, group in groups.items():
    reaction = 1000 * (onset[group] - cue)[:, ~is_catch]
    print(f"{name}: median reaction time {np.nanmedian(reaction, axis=1).round()} ms")

# %% [markdown]
# With the plain loss the networks do not react, they anticipate: the target is in view, the cue comes in four
# trials of five, and to be half-way there when it comes saves more than it costs in catch trials. In catch
# trials, when the latest time of a cue is over, the hand goes back. Without catch trials you would have seen
# quick and precise movements, and would have taken them for reactions.
#
# The networks that pay for leaving wait for the cue, and then need 30 to 40 ms to start. They have less time
# to reach: after 300 batches some still overshoot at the end, which more training mends.
#
# The lesson is not that one loss is right. What a network does follows from what it is paid for, and catch
# trials show what that was.
#
# ## A decision of your own
#
# A task needs no body. Here a network sees two bumps, half a second apart, and tells which was higher: a
# delayed comparison (Romo et al. 1999, Nature 399:470). The targets are an `OutputTarget`: a one for the
# right choice, and `counts` that say when the answer is asked for. `losses.CrossEntropy` takes the outputs
# as the logarithms of probabilities, up to a constant. `init` is empty, as there is nothing to move.


# %%
class WhichIsHigher(popsim.AbstractTask):
    """Compare the heights of two bumps; answer after the second."""

    loss: popsim.Loss = 1.0 * losses.CrossEntropy()
    dt: float = 0.02
    n_steps: int = 50

    def trial(self, *, batch, key):
        heights = jax.random.uniform(popsim.key_stream(key, "heights"), (2,), minval=0.2, maxval=1.0)
        noise = 0.1 * jax.random.normal(popsim.key_stream(key, "noise"), (self.n_steps, 1))
        return self.comparison(heights, noise)

    def validation_trials(self):
        first = jnp.linspace(0.3, 0.9, 7)
        pairs = jnp.stack([jnp.repeat(first, 2), (first[:, None] + jnp.array([-0.1, 0.1])).ravel()], axis=1)
        return jax.vmap(lambda heights: self.comparison(heights, jnp.zeros((self.n_steps, 1))))(pairs)

    def comparison(self, heights, noise):
        time = self.dt * jnp.arange(self.n_steps)  # s
        shown = [(time >= 0.1) & (time < 0.2), (time >= 0.6) & (time < 0.7)]
        bumps = heights[0] * shown[0] + heights[1] * shown[1]
        choice = jax.nn.one_hot((heights[1] > heights[0]).astype(int), 2)
        return popsim.Trial(
            init=(),
            inputs={"bumps": bumps[:, None] + noise},
            targets=popsim.OutputTarget(
                values=jnp.broadcast_to(choice, (self.n_steps, 2)), counts=(time >= 0.8).astype(float)
            ),
            timeline=popsim.Timeline(self.dt, self.n_steps, epochs={"answer": (40, 50)}),
            conditions={"difference": heights[1] - heights[0]},
        )


comparison = WhichIsHigher()


def build_decider(key):
    return popsim.NetworkModel(networks.GRUNetwork(1, 32, 2, key=key), dt=comparison.dt)


deciders = popsim.make_ensemble(build_decider, n_members=3, key=jax.random.key(5))
decided, _ = trainer(
    comparison,
    deciders,
    n_batches=300,
    batch_size=64,
    where_train=lambda model: model.network,
    ensembled=True,
    key=jax.random.key(6),
)

# %% [markdown]
# A test needs trials of its own. `choice_accuracy` and `output_choice` read the choices from the outputs,
# where they count:

# %% alt="How often a network calls the second bump higher, against the difference of heights"
test = popsim.sample_trials(comparison, 2000, batch=0, key=jax.random.key(7))
states = popsim.evaluate_ensemble(decided, comparison, trials=test, key=jax.random.key(8)).states
outputs = states.network.output
print("fraction correct of each member:", popsim.choice_accuracy(outputs, test.targets))
chose_second = np.asarray(popsim.output_choice(outputs, test.targets)) == 1  # (member, trial)
edges = np.linspace(-0.8, 0.8, 17)
bins = np.digitize(np.asarray(test.conditions["difference"]), edges) - 1
figure, ax = plt.subplots(figsize=(3.4, 2.4), layout="constrained")
ax.plot(edges[:-1] + 0.05, np.stack([chose_second[:, bins == each].mean(axis=1) for each in range(16)]))
ax.set(xlabel="second minus first height", ylabel="second called higher")
plt.show()

# %% [markdown]
# The noise of the input limits what can be told: no network is right where the heights hardly differ.
#
# ## What to try next
#
# - **More catch trials:** `catch_probability=0.5`. Does anticipation stop to pay?
# - **A known time:** let the waiting always last 0.25 s.
# - **A second cue** that tells the direction, so that the target need not be shown before.
# - **Change one term of a loss:** see [the recipe](../how_to/recipes/replace_a_loss_term.md).
#
# The next lesson is [a body of your own](own_body.md). All about tasks is in [tasks](../how_to/tasks.md).
