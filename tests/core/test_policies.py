"""Policies against the distributions of JAX, and their greedy forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_environments import CounterTask

import popsim
from popsim.policies import Bernoulli, Categorical, Gaussian
from popsim.training import TaskTrainer, sgd

KEY = jax.random.key(0)
OUTPUT = jnp.array([0.4, -1.2, 2.0])
N_DRAWS = 4000


def draws(policy, output):
    return jax.jit(jax.vmap(lambda key: policy.act(output, key=key)))(jax.random.split(KEY, N_DRAWS))


@pytest.mark.parametrize(
    "policy, probabilities",
    [
        (Categorical(2, critic=True), jax.nn.softmax(OUTPUT[:2])),
        (Categorical(3), jax.nn.softmax(OUTPUT)),
        (Bernoulli(), jnp.array([1 - jax.nn.sigmoid(0.4), jax.nn.sigmoid(0.4)])),
    ],
    ids=["critic", "three", "bernoulli"],
)
def test_choices_are_drawn_with_their_probability(policy, probabilities):
    output = OUTPUT[: policy.n_outputs]
    drawn = draws(policy, output)
    frequency = np.bincount(drawn.value, minlength=len(probabilities)) / N_DRAWS
    error = np.sqrt(probabilities * (1 - probabilities) / N_DRAWS)
    assert np.all(np.abs(frequency - probabilities) < 4 * error)
    np.testing.assert_allclose(drawn.log_probability, jnp.log(probabilities)[drawn.value], rtol=1e-5)
    np.testing.assert_allclose(drawn.entropy[0], -jnp.sum(probabilities * jnp.log(probabilities)), rtol=1e-5)
    assert int(policy.best(output)) == int(jnp.argmax(probabilities))


@pytest.mark.parametrize(
    "policy, output, entropy",
    [
        (Categorical(3), [1.0, -jnp.inf, 1.0], np.log(2)),
        (Categorical(2, critic=True), [-jnp.inf, 0.0, 2.0], 0.0),
        (Bernoulli(), [jnp.inf], 0.0),
        (Bernoulli(), [-jnp.inf], 0.0),
    ],
)
def test_a_forbidden_action_is_never_taken_and_leaves_entropy_and_derivatives_finite(policy, output, entropy):
    output = jnp.array(output)

    def drawn(output, key):
        action = policy.act(output, key=key)
        return action.log_probability + action.entropy, action

    mapped = jax.jit(jax.vmap(jax.value_and_grad(drawn, has_aux=True), in_axes=(None, 0)))
    (_, actions), slopes = mapped(output, jax.random.split(KEY, 50))
    np.testing.assert_allclose(actions.entropy, entropy, atol=1e-6)
    assert np.all(np.isfinite(actions.log_probability)) and np.all(np.isfinite(slopes))


@pytest.mark.parametrize("std", [0.5, [0.5, 2.0]])
def test_vectors_are_normal_and_have_no_gradient_but_that_of_their_probability(std):
    policy = Gaussian(2, std=std, mean_fn=jnp.tanh, critic=True)
    drawn, stds = draws(policy, OUTPUT), np.broadcast_to(std, 2)
    mean = jnp.tanh(OUTPUT[:2])
    assert np.all(np.abs(drawn.value.mean(0) - mean) < 4 * stds / np.sqrt(N_DRAWS))
    np.testing.assert_allclose(drawn.value.std(0), stds, rtol=0.05)
    expected = jax.scipy.stats.norm.logpdf(drawn.value, mean, jnp.asarray(stds, float)).sum(1)
    np.testing.assert_allclose(drawn.log_probability, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(drawn.entropy[0], np.log(stds).sum() + np.log(2 * np.pi * np.e), rtol=1e-6)
    assert not np.any(jax.grad(lambda y: policy.act(y, key=KEY).value.sum())(OUTPUT))
    score = jax.grad(lambda y: policy.act(y, key=KEY).log_probability)(OUTPUT)
    value = policy.act(OUTPUT, key=KEY).value
    np.testing.assert_allclose(score[:2], (value - mean) / stds**2 * (1 - mean**2), rtol=1e-4)
    np.testing.assert_array_equal(policy.greedy().act(OUTPUT, key=KEY).value, mean)


def test_a_standard_deviation_is_learned_only_if_told():
    for learns, expected in ((False, 0), (True, 1)):
        policy = Gaussian(2, learns_std=learns)
        assert len(jax.tree.leaves(eqx.filter(policy, popsim.is_parameter(policy)))) == expected


@pytest.mark.full
def test_validation_is_greedy_if_asked():
    """The loss of validation is minus the number of steps at which the better action was taken."""
    bias = jnp.array([0.0, 1.0])
    network = popsim.networks.LeakyRNN(1, 2, 2, tau=0.05, key=KEY)
    places = lambda n: (n.readout.weight, n.readout.bias)  # noqa: E731
    network = eqx.tree_at(places, network, (jnp.zeros((2, 2)), bias))
    model = popsim.NetworkModel(network, policy=Categorical(2), dt=0.01)
    task = CounterTask(1.0 * popsim.losses.PolicyGradient())

    def rewards(is_greedy):
        trainer = TaskTrainer(sgd(1e-12), greedy_validation=is_greedy)
        _, history = trainer(task, model, 1, 2, lambda m: m, log_step=1, disable_tqdm=True, key=KEY)
        return float(history.validation_loss.total[-1])

    assert rewards(True) == -4.5  # four and five steps, all with action 1
    assert rewards(False) > -4.5
