import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import reach, relay_loop

import popsim
from popsim import FunctionTerm, losses

MODEL, TRIAL = relay_loop({}), reach()


def constant(name, value):
    return FunctionTerm(name, lambda states, trial, model: jnp.asarray(value))


A, B, C = constant("a", 2.0), constant("b", 3.0), constant("c", 5.0)

COMPOSED = {
    "a term plus a term": (A + B, {"a": 2.0, "b": 3.0}),
    "a weighted term": (0.1 * A, {"a": 0.2}),
    "a term times a weight": (A * 0.1, {"a": 0.2}),
    "a + 0.1 b": (A + 0.1 * B, {"a": 2.0, "b": 0.3}),
    "0.1 a + b": (0.1 * A + B, {"a": 0.2, "b": 3.0}),
    "three": (A + 0.1 * B + C, {"a": 2.0, "b": 0.3, "c": 5.0}),
    "a sum of sums": ((A + B) + 0.5 * C, {"a": 2.0, "b": 3.0, "c": 2.5}),
    "a term plus a sum": (A + (B + C), {"a": 2.0, "b": 3.0, "c": 5.0}),
    "a weighted sum": (0.1 * (A + 2.0 * B), {"a": 0.2, "b": 0.6}),
    "an array as weight": (jnp.asarray(0.5) * A, {"a": 1.0}),
}


@pytest.mark.parametrize("loss, expected", COMPOSED.values(), ids=COMPOSED)
def test_recorded_terms_are_weighted_and_their_sum_is_the_total(loss, expected):
    values = loss((), TRIAL, MODEL)
    assert values.terms.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(values.terms[name], value, rtol=1e-6)
    np.testing.assert_allclose(values.total, sum(expected.values()), rtol=1e-6)


def test_weights_are_array_leaves_that_can_be_changed_and_differentiated():
    loss = A + 0.1 * B
    assert all(eqx.is_inexact_array(weight) for weight in loss.weights.values())
    changed = eqx.tree_at(lambda loss: loss.weights["b"], loss, jnp.asarray(10.0))
    np.testing.assert_allclose(changed((), TRIAL, MODEL).total, 32.0)
    gradient = eqx.filter_grad(lambda loss: loss((), TRIAL, MODEL).total)(loss)
    np.testing.assert_allclose([gradient.weights["a"], gradient.weights["b"]], [2.0, 3.0])


def test_a_term_sees_the_states_the_trial_and_the_model(getkey):
    def used(states, trial, model):
        return states.hand.position[-1, 0] + trial.targets.position[-1, 0] + model.plant.mass

    states = popsim.simulate(MODEL, TRIAL, key=getkey())
    value = (1.0 * FunctionTerm("used", used))(states, TRIAL, MODEL).total
    np.testing.assert_allclose(value, states.hand.position[-1, 0] + 0.1 + 1.0, rtol=1e-6)


def test_a_batch_of_trials_has_a_batch_of_losses():
    loss = FunctionTerm("start", lambda states, trial, model: states) + 2.0 * B
    values = jax.vmap(lambda state: loss(state, TRIAL, MODEL))(jnp.arange(3.0))
    np.testing.assert_allclose(values.total, [6.0, 7.0, 8.0])


def test_a_loss_shows_its_weights_and_names():
    loss = losses.PositionError() + 1e-6 * losses.Effort(name="work")
    assert "'position error': 1 * PositionError()" in repr(loss)
    assert "'work': 1e-06 * Effort(name='work')" in repr(loss)
    assert [*sum([losses.PositionError(), losses.Effort()]).weights] == ["position error", "effort"]
    rising = popsim.schedules.LinearSchedule(0.0, 1e-3, last_batch=5)
    printed = repr(popsim.PerMember([0.0, 0.1]) * losses.Effort() + rising * losses.PositionError())
    assert "PerMember(values=[0.0, 0.1])" in printed
    assert "LinearSchedule(start=0.0, stop=0.001, last_batch=5)" in printed
