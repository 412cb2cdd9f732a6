"""Weights of a loss that follow a schedule over training batches, or an update of the loss."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_training import OPTIMIZER, RunningSum, activity, assert_same, build, squared_error, train

import popsim
from popsim import PerMember
from popsim.schedules import LinearSchedule, PiecewiseSchedule
from popsim.training import TaskTrainer, sgd

RAMP = LinearSchedule(0.0, 1.0, last_batch=4)
ERROR, COST = (popsim.FunctionTerm(own.__name__, own) for own in (squared_error, activity))


def term_of(value):
    return popsim.FunctionTerm("a", lambda states, trial, model: jnp.asarray(value))


COMPOSED = {
    "schedule * term": RAMP * term_of(2.0),
    "number * (schedule * term)": 0.5 * (RAMP * term_of(4.0)),
    "schedule * (number * term)": RAMP * (0.5 * term_of(4.0)),
    "number * schedule * term": 2.0 * RAMP * term_of(1.0),
}


@pytest.fixture
def trial():
    return RunningSum().trial(batch=0, key=jax.random.key(0))


@pytest.mark.parametrize("loss", COMPOSED.values(), ids=COMPOSED)
def test_a_term_may_be_weighted_by_a_schedule(loss, trial):
    def value(own):
        return float(own((), trial, build(jax.random.key(0))).terms["a"])

    assert [value(loss.at_batch(batch)) for batch in (0, 1, 4, 100)] == [0.0, 0.5, 2.0, 2.0]
    assert value(loss) == 2.0  # that of the last batch
    both = loss + 3.0 * popsim.FunctionTerm("b", lambda *_: jnp.asarray(1.0))
    assert float(both.at_batch(1)((), trial, build(jax.random.key(0))).total) == 3.5


def test_schedules_may_differ_between_members(trial):
    model = build(jax.random.key(0))
    for loss in (PerMember([1.0, 3.0]) * RAMP * term_of(2.0), RAMP * (PerMember([1.0, 3.0]) * term_of(2.0))):
        with pytest.raises(ValueError, match="differs between members"):
            loss((), trial, model)
        of_each = [
            popsim.select_member(loss, index).at_batch(2)((), trial, model).total for index in range(2)
        ]
        np.testing.assert_allclose(of_each, [1.0, 3.0])


def costing(weight):
    """The task with this weight of the activity."""
    return RunningSum(loss=1.0 * ERROR + weight * COST)


@pytest.mark.slow
def test_a_batch_is_trained_with_its_own_weight_and_validated_with_the_last():
    """Two batches by hand: a training at the first weight of a schedule, continued at the second."""
    trained, history = train(2, task=costing(PiecewiseSchedule((0, 1, 2), [0.2, 5.0, 7.0])))
    one, first = train(1, task=costing(0.2))
    two, second = train(2, task=costing(5.0), ensemble=one, opt_state=first.opt_state, start_batch=1)
    assert_same(trained, two, rtol=1e-5, atol=1e-7)
    by_hand = [own.loss.terms["activity"][-1] for own in (first, second)]
    np.testing.assert_allclose(history.loss.terms["activity"], by_hand, rtol=1e-5)
    own, other = (own.validation_loss.terms["activity"][-1] for own in (history, second))
    np.testing.assert_allclose(own, 7.0 / 5.0 * other, rtol=1e-5)


@pytest.mark.slow
def test_an_update_of_the_loss_refuses_weights_that_follow_a_schedule():
    def keep(loss, values, gradients):
        return loss

    with pytest.raises(ValueError, match=r"`loss_update_func`.*\['activity'\].*schedule"):
        train(1, task=costing(RAMP), trainer=TaskTrainer(OPTIMIZER, loss_update_func=keep))


def keep_by_gradient(loss, values, gradients):
    """Writes what it is shown into the weights."""
    norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradients)))
    return eqx.tree_at(
        lambda own: (own.weights["squared_error"], own.weights["activity"]), loss, (values.total, norm)
    )


@pytest.mark.slow
def test_a_loss_update_sees_the_losses_and_the_gradients_of_its_member():
    """With plain descent at rate 1 the gradients are the change of the parameters."""
    trainer = TaskTrainer(sgd(1.0), loss_update_func=keep_by_gradient)
    _, history = train(2, trainer=trainer, save_model_trainables=True, n_members=2)
    np.testing.assert_allclose(history.loss_weights["squared_error"][1], history.loss.total[0], rtol=1e-6)
    again, other = train(1, trainer=TaskTrainer(sgd(1.0)), save_model_trainables=True)
    start = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    arrays = [jax.tree.leaves(eqx.filter(own.network, eqx.is_inexact_array)) for own in (again, start)]
    steps = [np.sum(np.square(a - b), axis=tuple(range(1, np.ndim(a)))) for a, b in zip(*arrays, strict=True)]
    np.testing.assert_allclose(history.loss_weights["activity"][1], np.sqrt(sum(steps)), rtol=1e-4)
    assert other.loss_weights is None
