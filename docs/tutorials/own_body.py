# %% [markdown]
# # A body and a muscle of your own
#
# You build a body from its equation of motion, put muscles of your own law on it, and check both against
# physics. Then networks learn to move it.
#
# The body is a handle on rails, as in robots for experiments on reaching: the hand holds a handle that is
# heavier to move sideways than forwards. The computing takes about a minute.

# %%
import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim import muscles, networks, plants, tasks, training
from popsim.analysis import neural_activity
from popsim.analysis.figures import STYLE_SHEET, draw_hand_paths, draw_preferred_directions

plt.style.use(STYLE_SHEET)

# %% [markdown]
# ## The body
#
# A body without muscles is a *skeleton*. The state of this one is a position and a velocity, and its equation
# is, for each of the two axes,
#
# mass × acceleration = force − damping × velocity.
#
# `dynamics` returns the rate of change of the state: of the position, the velocity; of the velocity, the
# acceleration. The solver does the rest. All numbers are in SI units, and all arrays are constants: training
# does not change a body unless you ask for it.


# %%
class Handle(plants.AbstractSkeleton):
    """A handle that slides in the plane, with another mass along each axis."""

    mass: jax.Array  # kg, of each axis
    damping: float = 5.0  # N s/m
    workspace: popsim.Workspace = popsim.Workspace.around(jnp.zeros(2), 0.2)
    solver: diffrax.AbstractSolver = diffrax.Heun()
    n_substeps: int = eqx.field(static=True, default=1)
    n_commands: int = eqx.field(static=True, default=2)

    def dynamics(self, state, force, external_force):
        position, velocity = state
        return velocity, (force + external_force - self.damping * velocity) / self.mass

    def rest_state(self, position):
        return position, jnp.zeros(2)

    def coordinates(self, state):
        return state

    def hand(self, state):
        position, velocity = state
        return popsim.HandState(position, velocity)

    def enforce_limits(self, state):
        return state

    def is_reachable(self, position):
        return jnp.array(True)


handle = Handle(mass=jnp.array([3.0, 1.0]))

# %% [markdown]
# **Check it before you use it.** `simulate_plant` moves a body without any network. Push with 6 N to the
# right for a second. The speed must approach force / damping with the time constant mass / damping.

# %%
pushed = plants.simulate_plant(handle, jnp.tile(jnp.array([6.0, 0.0]), (100, 1)), dt=0.01)
time = 0.01 * np.arange(1, 101)  # the first state is that after the first step
expected = 6 / 5 * (1 - np.exp(-time * 5 / 3))
difference = np.abs(np.asarray(pushed.hand.velocity[:, 0]) - expected).max()
print(
    f"speed after a second {pushed.hand.velocity[-1, 0]:.3f} m/s, largest error {1000 * difference:.3f} mm/s"
)

# %% [markdown]
# ## The muscle
#
# A muscle pulls less when it shortens fast (Hill 1938), and less when its fibres are far from their optimal
# length. `force_share` is that law: the force as a fraction of the largest isometric force, from the
# activation, the length in optimal lengths, and the velocity in optimal lengths per second. The class that it
# extends does what belongs to every muscle on a stiff tendon. Activation follows excitation with a delay,
# here by popsim's default, the equation of Thelen (2003).


# %%
class SimpleMuscle(muscles.AbstractRigidTendonMuscle):
    """A bell-shaped curve of force over length; force falls linearly with the speed of shortening."""

    max_isometric_force: jax.Array  # N
    optimal_length: jax.Array  # m
    tendon_length: jax.Array  # m
    activation: muscles.AbstractActivation = muscles.FirstOrderActivation()

    def force_share(self, activation, length, velocity):
        by_length = jnp.exp(-(((length - 1) / 0.5) ** 2))
        by_velocity = jnp.clip(1 + velocity / 10, 0.0, 1.5)  # no force at 10 optimal lengths/s
        return activation * by_length * by_velocity


# %% alt="Force of the muscle against its length, and against its velocity"
lengths, velocities = jnp.linspace(0.3, 1.7, 100), jnp.linspace(-12, 12, 100)
one = SimpleMuscle(jnp.array(100.0), jnp.array(0.2), jnp.array(0.0))
figure, (left, right) = plt.subplots(1, 2, figsize=(6, 2.2), sharey=True, layout="constrained")
for activation in (0.25, 0.5, 1.0):
    left.plot(lengths, 100 * one.force_share(activation, lengths, 0.0), label=f"activation {activation}")
    right.plot(velocities, 100 * one.force_share(activation, 1.0, velocities))
left.set(xlabel="length (optimal lengths)", ylabel="force (N)")
right.set(xlabel="velocity (optimal lengths/s), shortening on the left")
left.legend()
plt.show()

# %% [markdown]
# ## Muscles on the body
#
# A path says where a muscle runs. Here four straight muscles run from anchors in the world (segment 0) to the
# handle (segment 1). With the handle in the middle each has its optimal length. Muscles that pull to the
# right and to the left are twice as strong.

# %%
anchors = {"right": (0.5, 0.2), "left": (-0.5, 0.2), "far": (0.1, 0.5), "near": (-0.1, -0.5)}  # m
path = muscles.paths.StraightPath(
    muscles.paths.PointMassPlacement(), [[(0, anchor), (1, (0.0, 0.0))] for anchor in anchors.values()]
)
distance = np.linalg.norm(list(anchors.values()), axis=1)
plant = plants.MusculoskeletalPlant(
    handle,
    path,
    SimpleMuscle(jnp.array([40.0, 40.0, 20.0, 20.0]), jnp.full(4, 0.2), jnp.asarray(distance - 0.2)),
    muscle_names=list(anchors),
)
course = plants.simulate_plant(plant, jnp.zeros((30, 4)).at[:, 0].set(0.5), dt=0.01)  # only "right"
right, ahead = 100 * np.asarray(course.hand.position[-1])
print(f"after 0.3 s the hand is {right:.1f} cm to the right and {ahead:.1f} cm ahead")
print("largest force of each muscle (N):", np.asarray(course.muscles.force).max(axis=0).round(1))

# %% [markdown]
# The line of the muscle points 22° forwards, but the hand moves 39° forwards: the handle is lighter that way.
#
# ## Networks that move it
#
# Excitations go from 0 to 1. The output of the network is therefore a sigmoid, and its bias lets training
# begin with muscles that are barely excited. The network sees the hand, and feels the lengths of the muscles.

# %%
task = tasks.CenterOutReaches(plant.workspace, duration=0.8)
trials = task.validation_trials()
channels = {
    "vision": popsim.SensoryChannel(popsim.vision, delay=0.05),
    "proprioception": popsim.SensoryChannel(popsim.proprioception, delay=0.02),
}
n_inputs = popsim.n_network_inputs(trials, plant, channels)


def build(key):
    network = networks.GRUNetwork(
        n_inputs, 32, plant.n_commands, output_fn=jax.nn.sigmoid, output_bias=-3.0, key=key
    )
    return popsim.SensorimotorLoop(network, plant, channels, dt=0.01)


ensemble = popsim.make_ensemble(build, n_members=3, key=jax.random.key(0))
trainer = training.TaskTrainer(training.adam(training.cosine_decay(1e-2, 300), clip_norm=1.0))
trained, history = trainer(
    task,
    ensemble,
    n_batches=300,
    batch_size=16,
    where_train=lambda model: model.network,
    ensembled=True,
    key=jax.random.key(1),
)
print("loss at the start and the end:", history.loss.total[[0, -1]].mean(axis=1).round(4))

# %% [markdown]
# ## Which muscle acts in which direction?
#
# As with electromyograms: take the activation of the first 0.3 s in each of the eight directions, and fit a
# cosine. The peak of the cosine is the *preferred direction* of the muscle.

# %% alt="Hand paths of three networks, and the preferred directions of the four muscles"
states = popsim.evaluate_ensemble(trained, task, key=jax.random.key(2)).states
hand = np.asarray(states.hand.position)
starts, targets = np.asarray(trials.init.position), np.asarray(trials.targets.position[:, -1])
error = 1000 * np.linalg.norm(hand[:, :, -1] - targets, axis=-1).mean(axis=1)
print("end-point error of each network (mm):", error.round(1))

early = np.asarray(states.plant.activation)[:, :, :30].mean(axis=2)  # (member, trial, muscle)
tuning = neural_activity.cosine_tuning(early, np.asarray(trials.conditions["direction"]))
figure = plt.figure(figsize=(7, 2.9), layout="constrained")
draw_hand_paths(figure.add_subplot(1, 2, 1), hand, starts, targets)
draw_preferred_directions(
    figure.add_subplot(1, 2, 2), tuning.preferred, tuning.depth, names=plant.muscle_names
)
plt.show()

# %%
pulls = np.degrees(np.arctan2(*np.array(list(anchors.values())).T[::-1])) % 360
for name, pull, preferred in zip(anchors, pulls, np.degrees(tuning.preferred).T % 360, strict=True):
    print(f"{name:<6} pulls towards {pull:3.0f}°, preferred directions {preferred.round()}")

# %% [markdown]
# The preferred directions need not be the directions of pull. "right" and "left" both pull a little forwards,
# because their anchors are ahead of the hand. So "far" has little left to do, and its tuning is shallow in
# all three networks, while "near" must pull against both. No recordings went into this.
#
# ## What to try next
#
# - **Equal masses:** `Handle(mass=jnp.array([1.0, 1.0]))`. Which preferred directions change?
# - **A weak muscle:** halve one `max_isometric_force` after training, with `equinox.tree_at`, and evaluate
#   again.
# - **Train the body:** `where_train=lambda m: (m.network, m.plant.muscle.max_isometric_force)`.
# - **An arm:** `plants.arm26()` has six muscles on two joints, and `with_muscle` adds another.
#
# The next lesson is on [learning rules](learning_rules.md). All bodies are in [bodies](../how_to/bodies.md).
