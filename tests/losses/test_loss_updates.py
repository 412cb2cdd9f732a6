import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_training import train

from popsim.training import TaskTrainer, sgd

pytestmark = pytest.mark.slow


def keep_by_gradient(loss, values, gradients):
    """Writes what it is shown into the weights."""
    norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradients)))
    return eqx.tree_at(
        lambda own: (own.weights["squared_error"], own.weights["activity"]), loss, (values.total, norm)
    )


def test_a_loss_update_sees_the_losses_and_the_gradients_of_its_member():
    """With plain descent at rate 1 the gradients are the change of the parameters."""
    trainer = TaskTrainer(sgd(1.0), loss_update_func=keep_by_gradient)
    _, history = train(2, trainer=trainer, save_model_trainables=True, n_members=2)
    np.testing.assert_allclose(history.loss_weights["squared_error"][1], history.loss.total[0], rtol=1e-6)
    again, other = train(1, trainer=TaskTrainer(sgd(1.0)), save_model_trainables=True)
    start = train(1, trainer=TaskTrainer(sgd(1e-30)))[0]
    steps = [
        np.sum((np.asarray(a) - np.asarray(b)) ** 2, axis=tuple(range(1, np.ndim(a))))
        for a, b in zip(
            jax.tree.leaves(eqx.filter(again.network, eqx.is_inexact_array)),
            jax.tree.leaves(eqx.filter(start.network, eqx.is_inexact_array)),
            strict=True,
        )
    ]
    np.testing.assert_allclose(history.loss_weights["activity"][1], np.sqrt(sum(steps)), rtol=1e-4)
    assert other.loss_weights is None
