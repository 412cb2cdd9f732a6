"""Whether members changed alike, and updates go down the gradient."""

import jax
import jax.numpy as jnp
import numpy as np
from quadratic_loss import Constant, nearness

import popsim
from popsim.analysis import trainables


def test_cosines_between_members_by_hand():
    changes = np.array([[1.0, 0.0], [2.0, 2.0], [-3.0, 0.0], [0.0, 0.0]])[..., None]
    found = trainables.member_alignment(changes)
    half = 0.5**0.5
    np.testing.assert_allclose(found[:3, :3], [[1, half, -1], [half, 1, -half], [-1, -half, 1]])
    assert np.all(np.isnan(found[3]))


def test_units_in_another_order_hide_the_same_change_except_from_outside():
    rng = np.random.default_rng(0)
    order = rng.permutation(40)
    change, readout, inputs = (rng.normal(size=shape) for shape in ((40, 40), (3, 40), (40, 4)))
    changes = np.stack([change, change[order][:, order]])
    assert abs(trainables.member_alignment(changes)[0, 1]) < 4 / 40
    seen = trainables.input_output_change(
        changes, readout=np.stack([readout, readout[:, order]]), inputs=np.stack([inputs, inputs[order]])
    )
    np.testing.assert_allclose(seen[0], readout @ change @ inputs)
    np.testing.assert_allclose(trainables.member_alignment(seen), 1.0)


def gradient(weights, weight):
    return 2 * np.asarray(weight)[:, None] * (weights - 1)


def alignment_of_steps(steps_of, n_steps=3):
    """Of members with the losses |w - 1|² and 3 |w - 1|² that take given steps."""
    weights = [np.array([[3.0, 0.0], [1.5, 5.0]])]
    for _ in range(n_steps):
        weights.append(weights[-1] + steps_of(gradient(weights[-1], [1.0, 3.0])))
    history = {"weights": np.stack(weights).astype(np.float32)}
    ensemble, task = Constant(jnp.zeros((2, 2))), nearness(popsim.PerMember(jnp.array([1.0, 3.0])))
    found = trainables.update_gradient_alignment(history, ensemble, task, key=jax.random.key(0))
    slopes = np.stack([gradient(own, [1.0, 3.0]) for own in weights[:-1]])
    return found["weights"], slopes


def test_gradient_descent_is_aligned_and_steps_by_sign_are_as_far_as_they_must_be():
    np.testing.assert_allclose(alignment_of_steps(lambda slope: -0.05 * slope)[0], 1.0, atol=1e-6)
    np.testing.assert_allclose(alignment_of_steps(lambda slope: 0.05 * slope)[0], -1.0, atol=1e-6)
    found, slopes = alignment_of_steps(lambda slope: -0.01 * np.sign(slope))  # Adam's first step
    expected = np.abs(slopes).sum(axis=2) / np.linalg.norm(slopes, axis=2) / 2**0.5
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert np.all(found < 0.99)
    across = alignment_of_steps(lambda slope: slope[:, ::-1] * [1e-3, -1e-3])[0]
    np.testing.assert_allclose(across, 0.0, atol=1e-4)
    assert np.all(np.isnan(alignment_of_steps(lambda slope: 0 * slope)[0]))
