# %% [markdown]
# # Learning rules
#
# Networks usually learn by back-propagation, which needs to know how every weight affects the error. Brains
# have no such table. Here networks learn a decision by a rule that needs one number, the error of the trial;
# then you write a rule of your own. The computing takes about a minute.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

import popsim
from popsim import networks, tasks, training
from popsim.analysis import behaviour, learning
from popsim.analysis.figures import STYLE_SHEET, draw_learning_bands, draw_psychometric_curves
from popsim.training import rules

plt.style.use(STYLE_SHEET)

# %% [markdown]
# ## A decision
#
# Two noisy streams of evidence; at the end the network says which was stronger. The coherence sets how hard
# that is. The noise of the task sets a limit: a perfect observer is right in 85 % of the trials.

# %%
task = tasks.PerceptualDecision()
task

# %% [markdown]
# A network of leaky rate units, with weights for the inputs, between the units, and for the output. Four
# members, so that luck with the first weights shows.

# %%
trials = task.validation_trials()
n_inputs, n_outputs = popsim.n_network_inputs(trials), trials.targets.values.shape[-1]


def build(key):
    network = networks.LeakyRNN(n_inputs, 24, n_outputs, tau=0.1, dt=0.05, key=key)
    return popsim.NetworkModel(network, dt=0.05)


ensemble = popsim.make_ensemble(build, n_members=4, key=jax.random.key(0))


def train(trainer, task, n_batches=300):
    return trainer(
        task,
        ensemble,
        n_batches=n_batches,
        batch_size=64,
        where_train=lambda model: model.network,
        ensembled=True,
        key=jax.random.key(1),
    )


# %% [markdown]
# ## Node perturbation
#
# In each trial a little noise is added to the input of every unit. If the error was smaller than without the
# noise, the weights change so that the unit does more of what the noise made it do; if larger, less. On
# average over many trials this follows the gradient (Fiete & Seung 2006), without computing it.
#
# A rule is a *model update* of the trainer. The optimizer `set_to_zero` throws the gradient away, so that the
# rule alone changes the weights. The synapses say which weights a rule acts on.

# %%
synapses = (rules.input_synapses(), rules.recurrent_synapses(), rules.readout_synapses())
perturbation = tuple(rules.NodePerturbation(each, 0.03, std=0.05) for each in synapses)
by_rule, rule_history = train(
    training.TaskTrainer(optax.set_to_zero(), model_update_funcs=perturbation), task
)

# %% [markdown]
# Back-propagation, at the same learning rate, is the comparison. All other things are equal: the same first
# weights, and because the key is the same, the same trials.

# %%
by_gradient, gradient_history = train(training.TaskTrainer(training.sgd(0.03)), task)

# %% alt="Loss over training by node perturbation and by back-propagation"
figure, ax = plt.subplots(figsize=(4.2, 2.8), layout="constrained")
courses = (("node perturbation", rule_history, "#D55E00"), ("back-propagation", gradient_history, "#0072B2"))
for name, history, color in courses:
    curve = learning.learning_curve(history.loss.total)
    draw_learning_bands(ax, history.batch, curve, label=name, color=color)
ax.legend()
plt.show()

# %% [markdown]
# The rule learns nearly as fast here. Its loss is a little higher on average; with four members the bands
# overlap.
#
# **A control.** Does the rule follow the error, or does any change help? Turn the loss around, for a few
# batches only, because it must diverge:

# %%
perturbed = training.TaskTrainer(optax.set_to_zero(), model_update_funcs=perturbation)
_, wrong_history = train(perturbed, tasks.PerceptualDecision(loss=-1.0 * task.loss), n_batches=20)
wrong = -wrong_history.loss.total.mean(axis=1)
print(f"with the wrong sign the error grows from {wrong[0]:.2f} to {wrong[-1]:.2f} in 20 batches")

# %% [markdown]
# ## What do they decide?
#
# A loss is not a behaviour. Draw fresh trials and count correct choices.

# %%
fresh = popsim.sample_trials(task, 1000, batch=0, key=jax.random.key(2))
outputs = {}
for name, members in (("rule", by_rule), ("gradient", by_gradient), ("untrained", ensemble)):
    states = popsim.evaluate_ensemble(members, task, trials=fresh, key=jax.random.key(3)).states
    outputs[name] = states.network.output
    accuracy = np.asarray(popsim.choice_accuracy(outputs[name], fresh.targets), float)
    print(f"{name:<10} fraction correct of each member: {accuracy.round(2)}")

# %% alt="Psychometric curves of four networks that learned by node perturbation"
coherence = np.asarray(fresh.conditions["coherence"])
chose_second = np.asarray(popsim.output_choice(outputs["rule"], fresh.targets)) == 1  # (member, trial)
shares = behaviour.choice_fractions(coherence, chose_second)
figure, ax = plt.subplots(figsize=(4.2, 2.8), layout="constrained")
draw_psychometric_curves(ax, shares, behaviour.fit_psychometric(coherence[:, None], chose_second))
plt.show()

# %% [markdown]
# ## A rule of your own
#
# A rule that uses only the activity on both sides of a synapse is a class with one method. `change` gets the
# activity before (`pre`) and after (`post`) the synapse, with axes (trial, time, unit), and returns the
# change of the weights W[post, pre].
#
# This is Hebb's rule with forgetting: what is active together is wired together, and all weights decay. It
# knows nothing of the error, so it cannot learn the task. What does it do?


# %%
class HebbWithForgetting(rules.AbstractLocalRule):
    """dW = rate (<post pre> - W / 4)."""

    def change(self, pre, post, weights):
        return rules.mean_product(post, pre) - 0.25 * weights


hebb = HebbWithForgetting(rules.recurrent_synapses(), rate=0.02)
by_hebb, hebb_history = train(training.TaskTrainer(optax.set_to_zero(), model_update_funcs=(hebb,)), task)


# %%
def largest_share(members):
    """The share of the largest singular value of the recurrent weights in the sum of all."""
    values = jnp.linalg.svd(members.network.recurrent_weights, compute_uv=False)
    return np.asarray(values[:, 0] / values.sum(axis=1)).round(2)


states = popsim.evaluate_ensemble(by_hebb, task, trials=fresh, key=jax.random.key(3)).states
accuracy = popsim.choice_accuracy(states.network.output, fresh.targets)
print("fraction correct:", np.asarray(accuracy, float).round(2))
print("share of the largest mode, before:", largest_share(ensemble))
print("share of the largest mode, after: ", largest_share(by_hebb))

# %% [markdown]
# The networks still guess. But the recurrent weights have changed in a definite way: the random part decays,
# and what is left is dominated by one pattern, the one in which the units are active together most strongly.
# Hebb's rule finds structure in activity, and no more.
#
# ## What to try next
#
# - **The noise:** `std=0.2`, or 0.01. The estimate of the gradient gets better, then worse.
# - **More units:** with 100 units one number, the error, has to be shared among more of them.
# - **Rule and gradient together:** give the trainer `training.adam(3e-3)` in place of `set_to_zero`.
# - **A reward at the end of the trial:** `rules.RewardModulatedHebb`.
#
# The next lesson is [looking into a run](look_into_a_run.md). What a rule may be is in [change and
# extend](../how_to/extending.md#a-learning-rule-and-a-constraint).
