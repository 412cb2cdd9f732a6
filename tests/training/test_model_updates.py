import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_training import KEY, OPTIMIZER, RunningSum, assert_same, build, train

import popsim
from popsim.training import AbstractModelUpdate, TaskTrainer

pytestmark = pytest.mark.slow

NO_GRADIENT = optax.inject_hyperparams(optax.sgd)(learning_rate=0.0)


def bias_update(model, value):
    nothing = jax.tree.map(lambda _: None, model)
    return eqx.tree_at(lambda m: m.network.bias, nothing, value, is_leaf=lambda leaf: leaf is None)


def add_mean_activity(model, states):
    """A plain function as the seeds have it: (trial, time, unit) to an update."""
    return bias_update(model, jnp.mean(states.network.hidden, axis=(0, 1)))


def double_bias(model, states):
    return bias_update(model, model.network.bias)


class Recorded(AbstractModelUpdate):
    """Writes what it is shown into the bias: loss of the trials, their inputs, a draw, its count."""

    def init(self, model):
        return jnp.asarray(0.0)

    def __call__(self, model, batch, state, *, key):
        by_hand = jnp.stack(
            [
                jnp.sum(batch.losses.total),
                jnp.sum(batch.trials.inputs),
                jax.random.normal(key),
                state,
                jnp.sum(batch.states.network.output),
            ]
        )
        return bias_update(model, by_hand - model.network.bias), state + 1.0


def trainer(*updates, optimizer=NO_GRADIENT, **options):
    return TaskTrainer(optimizer, model_update_funcs=updates, **options)


def states_of_batch(batch, ensemble, n_trials=4):
    """The states of a batch, member by member, from the public functions alone."""
    batch_key = jax.random.fold_in(KEY, batch)
    for index in range(popsim.n_members(ensemble)):
        model = popsim.member(ensemble, index)
        trials = popsim.training.training_trials(
            RunningSum(), n_trials, batch=batch, member_id=index, key=batch_key
        )
        evaluation = popsim.evaluate(model, RunningSum(), trials=trials, member_id=index, key=batch_key)
        yield trials, evaluation


def test_a_function_of_model_and_states_updates_each_member_from_its_own_states():
    ensemble, _ = train(1, trainer=trainer(add_mean_activity))
    before = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    for index, (_, evaluation) in enumerate(states_of_batch(0, before)):
        expected = np.mean(evaluation.states.network.hidden, axis=(0, 1))
        np.testing.assert_allclose(ensemble.network.bias[index], expected, rtol=1e-5)


def test_a_learning_rule_sees_trials_losses_a_key_and_what_it_carried():
    ensemble, history = train(3, trainer=trainer(Recorded()), save_model_trainables=True)
    rows = history.model_trainables.network.bias
    assert rows.shape == (3, 2, 5) and history.model_trainables.network.tau is None  # no parameter
    np.testing.assert_array_equal(rows[:, :, 3], [[0, 0], [1, 1], [2, 2]])
    assert len(np.unique(rows[:, :, 2])) == 6
    np.testing.assert_allclose(rows[:, :, 0], 4 * history.loss.total, rtol=1e-5)
    before = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    for index, (trials, evaluation) in enumerate(states_of_batch(0, before)):
        np.testing.assert_allclose(rows[0, index, 1], np.sum(trials.inputs), rtol=1e-4)
        np.testing.assert_allclose(rows[0, index, 4], np.sum(evaluation.states.network.output), rtol=1e-4)


def test_updates_are_made_in_order_after_the_optimizer():
    one, _ = train(1, trainer=trainer(add_mean_activity, double_bias, optimizer=OPTIMIZER))
    other, _ = train(1, trainer=trainer(double_bias, add_mean_activity, optimizer=OPTIMIZER))
    plain, _ = train(1, trainer=TaskTrainer(OPTIMIZER))
    activity, _ = train(1, trainer=trainer(add_mean_activity))
    added, descended = activity.network.bias, plain.network.bias
    np.testing.assert_allclose(one.network.bias, 2 * (descended + added), rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(other.network.bias, 2 * descended + added, rtol=1e-4, atol=1e-7)


def test_what_updates_change_is_recorded_whether_trained_or_not():
    _, history = train(
        3,
        trainer=trainer(add_mean_activity, optimizer=OPTIMIZER),
        where_train=lambda model: model.network.readout,
        save_model_trainables=True,
    )
    rows = history.model_trainables.network
    assert rows.bias.shape == (3, 2, 5) and rows.recurrent_weights is None
    assert np.all(rows.bias[1] != rows.bias[0]) and np.all(rows.readout.bias[1] != rows.readout.bias[0])


def test_toggles_choose_the_batches_of_each_update():
    options = {"trainer": trainer(add_mean_activity, double_bias), "save_model_trainables": True}
    _, history = train(4, toggle_model_update_funcs=(np.array([1, 2]), np.array([2])), **options)
    bias = history.model_trainables.network.bias
    assert np.all(bias[0] == 0) and np.all(bias[1] != 0)
    np.testing.assert_array_equal(bias[3], bias[2])
    model, _ = train(4, toggle_model_update_funcs=False, **options)
    assert_same(model, popsim.make_ensemble(build, 2, key=jax.random.key(0)))


def test_updates_in_a_mapping_are_toggled_by_a_mapping():
    by_name = TaskTrainer(NO_GRADIENT, model_update_funcs={"add": add_mean_activity, "double": double_bias})
    toggles = {"add": np.array([0]), "double": np.array([], int)}
    model, _ = train(1, trainer=by_name, toggle_model_update_funcs=toggles)
    expected, _ = train(1, trainer=trainer(add_mean_activity))
    assert_same(model, expected, rtol=1e-6)
    for bad in ({"add": np.array([0])}, (np.array([0]), np.array([0])), {"add": [9], "double": [0]}):
        with pytest.raises(ValueError, match="toggle_model_update_funcs"):
            train(1, trainer=by_name, toggle_model_update_funcs=bad)


@pytest.mark.full
def test_post_step_functions_come_last():
    def clip(model):
        return eqx.tree_at(lambda m: m.network.bias, model, jnp.clip(model.network.bias, -1e-3, 1e-3))

    model, _ = train(2, trainer=trainer(add_mean_activity, optimizer=OPTIMIZER, post_step_fns=(clip,)))
    assert float(jnp.max(jnp.abs(model.network.bias))) == np.float32(1e-3)


class BadCarry(Recorded):
    def init(self, model):
        return jnp.zeros(3)

    def __call__(self, model, batch, state, *, key):
        return bias_update(model, model.network.bias), jnp.asarray(0.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model_update_funcs": (3,)}, "model_update_funcs"),
        ({"model_update_funcs": (lambda model, states: (1, 2),)}, "model_update_funcs.*None"),
        ({"model_update_funcs": (lambda model, s: bias_update(model, jnp.zeros(3)),)}, "model_update_funcs"),
        ({"post_step_fns": (lambda model: model.network,)}, r"post_step_fns\[0\]"),
        ({"post_step_fns": (lambda m: eqx.tree_at(network_bias, m, jnp.zeros(3)),)}, "post_step_fns"),
        ({"loss_update_func": lambda loss, values, gradients: values}, "loss_update_func"),
        ({"model_update_funcs": (BadCarry(),)}, "state of BadCarry"),
    ],
)
def test_what_returns_something_else_than_it_must_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        train(1, trainer=TaskTrainer(OPTIMIZER, **options))


def network_bias(model):
    return model.network.bias
