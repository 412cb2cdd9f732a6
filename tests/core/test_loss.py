"""Losses composed of terms: constant ones, so that only weights decide."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from relay import reach, relay_loop

import popsim
from popsim import FunctionTerm, PerMember, losses

MODEL, TRIAL = relay_loop({}), reach()


def constant(name, value):
    return FunctionTerm(name, lambda states, trial, model: jnp.asarray(value))


A, B, C = constant("a", 2.0), constant("b", 3.0), constant("c", 5.0)
COMPOSED = [
    (A + B, {"a": 2.0, "b": 3.0}),
    (0.1 * A, {"a": 0.2}),
    (A * 0.1, {"a": 0.2}),
    (A + 0.1 * B + C, {"a": 2.0, "b": 0.3, "c": 5.0}),
    ((A + B) + 0.5 * C, {"a": 2.0, "b": 3.0, "c": 2.5}),
    (A + (B + C), {"a": 2.0, "b": 3.0, "c": 5.0}),
    (sum([A, B]), {"a": 2.0, "b": 3.0}),
    (0.1 * (A + 2.0 * B), {"a": 0.2, "b": 0.6}),
    (jnp.asarray(0.5) * A, {"a": 1.0}),
]


def test_recorded_terms_are_weighted_and_their_sum_is_the_total():
    for loss, expected in COMPOSED:
        values = loss((), TRIAL, MODEL)
        assert values.terms.keys() == expected.keys()
        np.testing.assert_allclose([*values.terms.values()], [*expected.values()], rtol=1e-6)
        np.testing.assert_allclose(values.total, sum(expected.values()), rtol=1e-6)


def test_weights_of_members_are_multiplied_wherever_they_stand():
    for loss, weights in (
        (A + PerMember([1e-5, 1e-4]) * B, [1e-5, 1e-4]),
        ((A + 0.1 * B) * PerMember([1.0, 2.0]), [0.1, 0.2]),
        (PerMember([1.0, 10.0]) * (A + PerMember([0.1, 0.2]) * B), [0.1, 2.0]),
    ):
        np.testing.assert_allclose(loss.weights["b"].values, weights, rtol=1e-6)
        for index in range(2):
            value = popsim.select_member(loss, index)((), TRIAL, MODEL).terms["b"]
            np.testing.assert_allclose(value, 3 * weights[index], rtol=1e-6)


def test_weights_are_array_leaves_that_can_be_changed_and_differentiated():
    loss = A + 0.1 * B
    assert all(eqx.is_inexact_array(weight) for weight in loss.weights.values())
    changed = eqx.tree_at(lambda loss: loss.weights["b"], loss, jnp.asarray(10.0))
    np.testing.assert_allclose(changed((), TRIAL, MODEL).total, 32.0)
    gradient = eqx.filter_grad(lambda loss: loss((), TRIAL, MODEL).total)(loss)
    np.testing.assert_allclose([gradient.weights["a"], gradient.weights["b"]], [2.0, 3.0])


def test_a_term_sees_the_states_the_trial_and_the_model_also_in_a_batch():
    def used(states, trial, model):
        return states + trial.targets.position[-1, 0] + model.plant.mass

    loss = FunctionTerm("used", used) + 2.0 * B
    values = jax.vmap(lambda state: loss(state, TRIAL, MODEL))(jnp.arange(3.0))
    np.testing.assert_allclose(values.total, [7.1, 8.1, 9.1])


def test_a_loss_shows_its_weights_and_names():
    loss = losses.PositionError() + 1e-6 * losses.Effort(name="work")
    assert "'position error': 1 * PositionError()" in repr(loss)
    assert "'work': 1e-06 * Effort(name='work')" in repr(loss)
    rising = popsim.schedules.LinearSchedule(0.0, 1e-3, last_batch=5)
    printed = repr(PerMember([0.0, 0.1]) * losses.Effort() + rising * losses.PositionError())
    assert "PerMember(values=[0.0, 0.1])" in printed
    assert "LinearSchedule(start=0.0, stop=0.001, last_batch=5)" in printed
