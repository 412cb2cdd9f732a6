"""The loss along a line: a parabola, and the losses of an evaluation at its ends."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small_training
from quadratic_loss import Constant, nearness

import popsim
from popsim.analysis.trainables import loss_along_line


def test_of_a_quadratic_loss_it_is_a_parabola_for_every_member_with_its_own_weight():
    start, end = np.array([[0.0, 0.0], [2.0, 1.0]]), np.array([[2.0, 2.0], [1.0, 1.0]])
    task = nearness(popsim.PerMember(jnp.array([1.0, 3.0])))
    both = [Constant(jnp.asarray(weights, jnp.float32)) for weights in (start, end)]
    positions = np.array([-0.5, 0.0, 0.25, 0.5, 1.0, 1.5])
    line = loss_along_line(*both, task, positions=positions, key=jax.random.key(0))
    x = positions[:, None]
    expected = np.concatenate([2 * (1 - 2 * x) ** 2, 3 * (1 - x) ** 2], axis=1)
    np.testing.assert_allclose(line.loss, expected, atol=1e-5)
    np.testing.assert_array_equal(line.positions, positions)


def test_another_structure_is_refused():
    task = nearness(1.0)
    for end in (Constant(jnp.zeros((2, 3))), Constant(jnp.zeros((3, 2)))):
        with pytest.raises(ValueError, match="`end`"):
            loss_along_line(Constant(jnp.zeros((2, 2))), end, task, key=jax.random.key(0))


def test_only_parameters_move_and_constants_where_they_are_picked():
    class Scaled(Constant):
        scale: jax.Array = eqx.field(default_factory=lambda: jnp.ones(1))
        constants = ("scale",)

        def step(self, step_input, state, *, key):
            return self.scale * self.weights

    start, end = Scaled(jnp.zeros((1, 2))), Scaled(jnp.ones((1, 2)), scale=2 * jnp.ones(1))
    with pytest.raises(ValueError, match="`where` must pick all that differs .* also scale"):
        loss_along_line(start, end, nearness(1.0), key=jax.random.key(0))
    both, places = lambda m: (m, m.scale), np.array([0.0, 0.5, 1.0])  # noqa: E731
    line = loss_along_line(start, end, nearness(1.0), where=both, positions=places, key=jax.random.key(0))
    np.testing.assert_allclose(line.loss[:, 0], [2.0, 2 * (1 - 0.75) ** 2, 2.0], atol=1e-6)


@pytest.mark.slow
def test_at_its_ends_it_is_the_loss_of_an_evaluation_with_the_same_noise():
    ensembles = [popsim.make_ensemble(small_training.build, 2, key=jax.random.key(i)) for i in range(2)]
    task, key = small_training.RunningSum(), jax.random.key(4)
    line = loss_along_line(*ensembles, task, positions=np.array([0.0, 0.5, 1.0]), key=key)
    for row, ensemble in ((0, ensembles[0]), (2, ensembles[1])):
        losses = popsim.evaluate_ensemble(ensemble, task, key=key).losses.total.mean(axis=1)
        np.testing.assert_allclose(line.loss[row], losses, rtol=1e-5)
    again = loss_along_line(*ensembles, task, positions=np.array([0.0, 0.5, 1.0]), key=key)
    np.testing.assert_array_equal(line.loss, again.loss)
    assert line.loss.dtype == np.float64
