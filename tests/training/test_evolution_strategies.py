"""Evolution strategies against their equations, and on a loss without a useful derivative."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_training import RunningSum

import popsim
from popsim.training import EvolutionStrategies, TaskTrainer, sgd


class Flat(popsim.AbstractModel):
    """Its state is the distance of its weights from 0 to 3, rounded: the derivative is zero."""

    weights: jax.Array

    def init(self, trial, *, key):
        return jnp.zeros(1)

    def step(self, step_input, state, *, key):
        away = jnp.sum((self.weights - jnp.arange(4.0)) ** 2)
        return jnp.round(100 * away)[None] / 100


def test_a_step_function_is_minimised_and_the_search_narrows():
    task = RunningSum(1.0 * popsim.FunctionTerm("away", lambda states, trial, model: states[-1, 0]))
    trainer = TaskTrainer(sgd(1.0), gradient=EvolutionStrategies(16, std=0.5))
    model = Flat(jnp.zeros(4))
    trained, history = trainer(
        task, model, 150, 2, lambda model: model.weights, disable_tqdm=True, key=jax.random.key(0)
    )
    np.testing.assert_allclose(trained.weights, jnp.arange(4.0), atol=0.1)
    assert history.loss.total[0] > 10 and history.loss.total[-1] < 0.05


def distance(weights):
    return jnp.sum((weights - 1) ** 2, axis=-1)


LOSSES = {
    "distinct": distance,
    "with ties": lambda weights: jnp.round(distance(weights)),
    **{
        f"{lost}": lambda weights, lost=lost: jnp.where(weights[..., 0] > 1, lost, distance(weights))
        for lost in (jnp.nan, jnp.inf, -jnp.inf)
    },
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_batch_is_the_equations_written_out(loss, as_users_run):
    """Utilities are means over all orders in which equal losses, and those that are not finite, may come."""
    loss = LOSSES[loss]
    gradient = EvolutionStrategies(6, std=0.2, std_rate=0.3)
    params, key = {"w": jnp.array([1.0, -2.0]), "fixed": None}, jax.random.key(1)
    carry = {"w": jnp.log(jnp.array([0.2, 0.4])), "fixed": jnp.zeros(3)}

    class Run:
        """A loss of the weights, as the run of a batch."""

        def __call__(self, params):
            return Batch(loss(params["w"]))

        def map_minibatches(self, function):
            return function(self)

    class Batch(eqx.Module):
        mean_loss: jax.Array

    gradients, batch, after = gradient(Run(), params, carry, key=key)
    draws = np.asarray(jax.random.normal(key, (6, 2)))
    std = np.array([0.2, 0.4])
    losses = np.asarray(loss(jnp.asarray(np.array([1.0, -2.0]) + std * draws)))
    losses = np.where(np.isfinite(losses), losses, np.inf)
    by_rank = np.maximum(0, np.log(4) - np.log(np.arange(1, 7)))
    places = [np.lexsort((order, losses)).argsort() for order in itertools.permutations(range(6))]
    utilities = (by_rank / by_rank.sum() - 1 / 6)[np.array(places)].mean(axis=0)
    np.testing.assert_allclose(gradients["w"], -std * (utilities @ draws), rtol=1e-5)
    expected = np.log(std) + 0.15 * (utilities @ (draws**2 - 1))
    np.testing.assert_allclose(after["w"], expected, rtol=1e-5)
    np.testing.assert_array_equal(after["fixed"], carry["fixed"])
    assert gradients["fixed"] is None and float(batch.mean_loss) == 9.0


def test_a_flat_loss_moves_no_weights_and_no_deviations():
    task = RunningSum(1.0 * popsim.FunctionTerm("flat", lambda states, trial, model: 0.0 * states[-1, 0]))
    trainer = TaskTrainer(sgd(1.0), gradient=EvolutionStrategies(6, std=0.5))
    trained, history = trainer(
        task, Flat(jnp.zeros(4)), 20, 2, lambda model: model.weights, disable_tqdm=True, key=jax.random.key(0)
    )
    np.testing.assert_array_equal(trained.weights, 0.0)
