import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import popsim
from popsim import PerMember, select_member
from popsim.per_member import ScaledLearningRate, has_per_member


def test_times_an_array_each_member_has_the_array_times_its_number():
    product = PerMember([1.0, 3.0]) * np.array([1.0, 10.0, 100.0])
    assert product.values.tolist() == [[1.0, 10.0, 100.0], [3.0, 30.0, 300.0]]


def test_products_keep_the_precision_of_the_values(float64):
    values = np.asarray([1.0, 3.0], np.float32)
    assert (2.0 * PerMember(values)).values.dtype == jnp.float32
    assert (jnp.asarray(2.0) * PerMember([1.0, 3.0])).values.dtype == jnp.float64
    for factor in (2, np.float64(2.0), jnp.asarray(2)):
        for product in (PerMember([1, 3]) * factor, factor * PerMember([1, 3])):
            assert isinstance(product, PerMember) and product.values.tolist() == [2.0, 6.0]


def test_times_a_schedule_it_is_a_schedule_of_each_member():
    falling = optax.linear_schedule(1.0, 0.0, 4)
    for scaled in (PerMember([1.0, 3.0]) * falling, falling * PerMember([1.0, 3.0])):
        assert isinstance(scaled, ScaledLearningRate)
        np.testing.assert_allclose([select_member(scaled, i)(1) for i in range(2)], [0.75, 2.25])
        with pytest.raises(ValueError, match="inject_hyperparams"):
            scaled(1)


def test_any_array_leaf_of_a_task_may_differ_between_members():
    high = np.array([[0.1, 0.1], [0.2, 0.3], [0.3, 0.3]])
    task = popsim.tasks.RandomReaches(popsim.plants.PointMass().workspace, duration=0.1)
    values = PerMember(high), PerMember([1.0, 2.0, 3.0])
    task = eqx.tree_at(lambda t: (t.workspace.high, t.loss.weights["effort"]), task, values)
    assert has_per_member(task)
    for i in range(3):
        own = select_member(task, i)
        assert not has_per_member(own)
        np.testing.assert_allclose(own.workspace.high, high[i])
        np.testing.assert_allclose(own.validation_trials().init.position[0], (high[i] - 0.1) / 2, atol=1e-7)
        np.testing.assert_allclose(own.loss.weights["effort"], i + 1.0)
