import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim.losses import EuclideanDistance, HuberDistance, L1Distance, SquaredDistance

CASES = {
    "squared": (SquaredDistance(), 25.0, [6.0, -8.0]),
    "euclidean": (EuclideanDistance(), 5.0, [0.6, -0.8]),
    "L1": (L1Distance(), 7.0, [1.0, -1.0]),
    "near in Huber's": (HuberDistance(10.0), 12.5, [3.0, -4.0]),
    "far in Huber's": (HuberDistance(2.0), 2.0 * (5.0 - 1.0), [1.2, -1.6]),
}


@pytest.mark.parametrize("distance, value, gradient", CASES.values(), ids=CASES)
def test_a_distance_and_its_gradient(distance, value, gradient):
    difference = jnp.array([3.0, -4.0])
    np.testing.assert_allclose(distance(difference), value, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(distance)(difference), gradient, rtol=1e-6)
    many = distance(jnp.broadcast_to(difference, (2, 3, 2)))
    np.testing.assert_allclose(many, np.full((2, 3), value), rtol=1e-6)


@pytest.mark.parametrize("distance", [case[0] for case in CASES.values()], ids=CASES)
def test_at_one_point_distance_and_gradient_are_zero(distance):
    value, gradient = jax.jit(jax.value_and_grad(distance))(jnp.zeros(3))
    assert value == 0 and gradient.tolist() == [0.0, 0.0, 0.0]
    hessian = jax.hessian(distance)(jnp.zeros(3))
    assert np.all(np.isfinite(hessian))


def test_hubers_distance_is_smooth_where_it_bends():
    distance = HuberDistance(0.5)
    below, at, above = (distance(jnp.array([r, 0.0])) for r in (0.5 - 1e-3, 0.5, 0.5 + 1e-3))
    np.testing.assert_allclose([at - below, above - at], 0.5e-3, rtol=2e-3)


def test_the_bend_may_differ_between_members():
    term = 1.0 * popsim.losses.PositionError(distance=HuberDistance(popsim.PerMember([1.0, 2.0])))
    assert popsim.select_member(term, 1).terms[0].distance.delta == 2.0


@pytest.mark.parametrize("delta", [0.0, -1.0, float("nan")])
def test_a_bend_that_is_not_positive_is_refused(delta):
    with pytest.raises(ValueError, match="`delta`"):
        HuberDistance(delta)
