"""Targets, recordings and outputs that a loss is not defined for: refused in tasks of one's own, too."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
import small_training
from small_environments import Counter

import popsim
from popsim import losses
from popsim.networks import EncodedNetwork, StackedNetwork, VanillaRNN
from popsim.trial import RecordedActivity

KEY, N_STEPS = jax.random.key(0), 4
LATE = losses.InWindow(popsim.windows.InEpoch("late"))


class Own(popsim.AbstractTask):
    """A task that was not made by popsim, all of whose trials have the same targets and recordings."""

    loss: popsim.Loss
    values: jax.Array = eqx.field(converter=jnp.asarray)
    counts: jax.Array = eqx.field(converter=jnp.asarray, default=(1.0,) * N_STEPS)
    spikes: float = 1.0
    environment: Counter | None = None
    validating: jax.Array | None = None

    def trial(self, *, batch, key):
        return self.of(self.values, key)

    def validation_trials(self):
        values = self.values if self.validating is None else self.validating
        return jax.vmap(lambda key: self.of(values, key))(jax.random.split(KEY, 2))

    def of(self, values, key):
        inputs = {"noise": jax.random.normal(key, (N_STEPS, 1))}
        targets = popsim.OutputTarget(jnp.broadcast_to(values, (N_STEPS, values.shape[-1])), self.counts)
        recorded = RecordedActivity(jnp.full((N_STEPS, 3), self.spikes), self.counts[:, None])
        timeline = popsim.Timeline(0.01, N_STEPS, epochs={"late": jnp.array([4, 4])})
        both = {"spikes": recorded, "rates": recorded}
        return popsim.Trial((), inputs, targets, timeline, environment=self.environment, recordings=both)


def model(n_outputs, network=None, policy=None, **options):
    n_inputs = 1 if policy is None else 2
    network = network or VanillaRNN(n_inputs, 3, n_outputs, key=KEY, **options)
    return popsim.NetworkModel(network, policy=policy, dt=0.01)


def own(term, values, **options):
    return Own(1.0 * term, values, **options)


def likely(values, **options):
    policy = popsim.policies.Categorical(2)
    return own(losses.ChoiceLikelihood(), values, environment=Counter(jnp.asarray(9.0)), **options), policy


CHOICE, ZERO = r"`targets` of choices must be 1 for the right one and 0 for others", (0.0,) * N_STEPS
NOTHING = r"`trial` of `task` must return something that counts for the term '{}'"
WRONG = {
    "minus one": (own(losses.CrossEntropy(), [-1.0]), CHOICE + ".*got -1"),
    "class": (own(losses.CrossEntropy(), [2.0]), CHOICE + ".*got 2"),
    "spikes": (own(losses.SpikeCountLikelihood(), [1.0], spikes=0.5), "spikes'\\]` must be spike counts"),
    "only validation": (own(losses.CrossEntropy(), [1.0], validating=-jnp.ones(1)), CHOICE),
    "no weight": (own(losses.CrossEntropy(), [1.0], counts=ZERO), NOTHING.format("cross entropy")),
    "empty window": (own(losses.OutputError(profile=LATE), [1.0]), NOTHING.format("output error")),
}


@pytest.mark.parametrize("task, message", WRONG.values(), ids=WRONG)
def test_targets_that_the_loss_is_not_defined_for_are_refused(task, message):
    network = model(task.values.shape[-1])
    with pytest.raises(ValueError, match=message):
        small_training.train(task=task, ensemble=network, n_members=0)
    if "something" in message or task.validating is not None:
        return  # evaluated, too, as nothing need count in a trial
    with pytest.raises(ValueError, match=message):
        popsim.evaluate(network, task, key=KEY)


@pytest.mark.parametrize("values", [[0.5, 0.5], [0.0, 0.0], [1.0, -1.0]])
def test_a_likelihood_needs_one_action_where_targets_count(values):
    task, policy = likely(values)
    with pytest.raises(ValueError, match="`targets` of actions must be 1 for the one taken and 0 for others"):
        popsim.evaluate(model(2, policy=policy), task, key=KEY)


BOUNDED = {
    "sigmoid": lambda n: model(n, output_fn=jax.nn.sigmoid),
    "stacked": lambda n: model(
        n,
        StackedNetwork(
            [VanillaRNN(1, 3, 3, key=KEY), VanillaRNN(3, 3, n, output_fn=jax.nn.sigmoid, key=KEY)]
        ),
    ),
    "wrapped": lambda n: model(
        n, EncodedNetwork(VanillaRNN(1, 3, n, output_fn=jax.nn.softmax, key=KEY), jnp.tanh, n_inputs=1)
    ),
}


@pytest.mark.parametrize("build", BOUNDED.values(), ids=BOUNDED)
def test_probabilities_are_refused_where_logits_are_read(build):
    for term in (losses.CrossEntropy(), losses.ChoiceError()):
        message = f"`output_fn` of the network must be None for the term '{term.name}'"
        with pytest.raises(ValueError, match=message):
            popsim.evaluate(build(2), own(term, [1.0, 0.0]), key=KEY)


def test_what_a_loss_is_defined_for_is_taken():
    given, policy = likely([0.0, 1.0])
    assert jnp.all(popsim.evaluate(model(2, policy=policy), given, key=KEY).losses.total > 0)
    assert popsim.evaluate(BOUNDED["sigmoid"](2), own(losses.OutputError(), [1.0, 0.0]), key=KEY)
    uneven = jnp.asarray([[-3.0], [1.0], [0.25], [0.0]])  # soft, and anything where nothing counts
    counts = jnp.array([0.0, 1.0, 2.0, 0.0])
    for output_fn in (None, lambda output: jax.nn.relu(output) - jnp.mean(output) / 2):
        network = model(1, output_fn=output_fn)
        task = own(losses.CrossEntropy(), uneven, counts=counts)
        assert jnp.all(jnp.isfinite(popsim.evaluate(network, task, key=KEY).losses.total))
