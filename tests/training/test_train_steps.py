"""Train steps without a task: of any loss function, of supervised batches, with accumulated gradients."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from short_form import every_nth_row
from small_tasks import Choose
from small_training import KEY, RunningSum, assert_same, train

import popsim
from popsim.training import (
    TrainState,
    accumulate_gradients,
    build_train_step_fn,
    eval_step,
    sgd,
    supervised_batches,
    train_step,
    train_step_post,
)


def supervised(model, state, rng, *, inputs, labels):
    """A loss function that knows nothing of tasks; it counts its calls and returns its key."""
    loss = jnp.mean((jax.vmap(model)(inputs) - labels) ** 2)
    return loss, state + 1, {"loss": loss, "rng": jax.random.key_data(rng)}


@pytest.fixture
def regression(getkey):
    model = eqx.nn.MLP(2, 1, 8, 1, key=getkey())
    inputs = jax.random.normal(getkey(), (32, 2))
    data = {"inputs": inputs, "labels": inputs[:, :1] * inputs[:, 1:]}
    return TrainState.initial_state(model, optax.adam(1e-2), jax.random.key(0), jnp.asarray(0)), data


def test_the_key_of_a_step_is_folded_in_from_its_number(regression):
    state, data = regression
    step = build_train_step_fn(supervised, jit=False)
    state, _ = step(state, **data)
    _, outputs = step(state, **data)
    expected = jax.random.key_data(jax.random.fold_in(jax.random.key(0), 1))
    np.testing.assert_array_equal(outputs["rng"], expected)


@pytest.mark.parametrize("kind", ["compiled", "donated", "sharded"])
def test_the_loss_function_is_called_by_keyword(regression, kind):
    """Its parameters may stand in any order; that of the step is called `train_state`."""

    def in_another_order(labels, inputs, model, rng, state):
        return supervised(model, state, rng, inputs=inputs, labels=labels)

    options = {
        "compiled": {},
        "donated": {"donate_params_and_state": True},
        "sharded": {"aux_output_shardings": jax.sharding.SingleDeviceSharding(jax.devices()[0])},
    }[kind]
    state, data = regression
    expected, outputs = build_train_step_fn(supervised, jit=False)(state, **data)
    after, own = build_train_step_fn(in_another_order, **options)(train_state=state, **data)
    assert int(after.loss_fn_state) == 1
    np.testing.assert_array_equal(own["rng"], outputs["rng"])
    weights = [own.params.layers[0].weight for own in (after, expected)]
    np.testing.assert_allclose(*weights, rtol=1e-5, atol=1e-7)


def test_a_step_is_one_step_of_gradient_descent(regression):
    state, data = regression
    state = TrainState.initial_state(state.model, sgd(0.1), jax.random.key(0), jnp.asarray(0))
    after, _ = build_train_step_fn(supervised)(state, **data)
    gradients = eqx.filter_grad(lambda m: supervised(m, 0, jax.random.key(0), **data)[0])(state.model)
    expected = eqx.apply_updates(state.model, jax.tree.map(lambda g: -0.1 * g, gradients))
    assert_same(after.params, expected, rtol=1e-6)


def test_donation_takes_the_learnable_and_only_that(regression):
    state, data = regression
    frozen = state.model.layers[0].weight
    state = TrainState.initial_state(
        state.model, optax.adam(1e-2), jax.random.key(0), jnp.asarray(0), where_train=lambda m: m.layers[1]
    )
    undonated, _ = build_train_step_fn(supervised)(state, **data)
    old_weight, old_mean = state.params.layers[1].weight, state.opt_state[0].mu.layers[1].weight
    donated, _ = build_train_step_fn(supervised, donate_params_and_state=True)(state, **data)
    assert old_weight.is_deleted() and old_mean.is_deleted()
    assert not frozen.is_deleted() and not state.root_rng.is_deleted()
    np.testing.assert_array_equal(donated.params.layers[1].weight, undonated.params.layers[1].weight)
    np.testing.assert_array_equal(donated.model.layers[0].weight, frozen)


def criterion(output, label):
    return jnp.mean((output - label) ** 2)


def metrics_fn(output, label, criterion):
    return {"loss": criterion(output, label), "largest": jnp.max(jnp.abs(output - label))}


@pytest.fixture
def images(getkey):
    state = TrainState.initial_state(eqx.nn.Linear(3, 2, key=getkey()), sgd(0.1), getkey())
    images = jax.random.normal(getkey(), (16, 3))
    return state, {"image": images, "label": images @ jnp.ones((3, 2))}


def test_a_supervised_step_descends_the_criterion_and_reports_the_model_before_it(images):
    """The rate that is shown is not the one that acts."""
    state, batch = images
    after, metrics = train_step(state, batch, lambda step: 0.5 / (1 + step), criterion, metrics_fn)
    before = eval_step(state, batch, criterion, metrics_fn)
    assert {name: float(metrics[name]) for name in before} == {n: float(v) for n, v in before.items()}
    errors = jax.vmap(state.model)(batch["image"]) - batch["label"]
    gradient = 2 / errors.size * errors.T @ batch["image"]
    np.testing.assert_allclose(after.params.weight, state.params.weight - 0.1 * gradient, rtol=1e-5)
    _, then = train_step(after, batch, lambda step: 0.5 / (1 + step), criterion, metrics_fn)
    assert float(metrics["learning_rate"]) == 0.5 and float(then["learning_rate"]) == 0.25


def test_labels_must_be_as_many_as_inputs(images):
    state, batch = images
    batch = batch | {"label": batch["label"][:1]}
    for step, rate in ((eval_step, ()), (train_step, (lambda step: 0.1,))):
        with pytest.raises(ValueError, match="`batch` must have a label for each image"):
            step(state, batch, *rate, criterion, metrics_fn)


def test_post_processing_acts_in_order_after_the_step(images):
    state, batch = images
    functions = [
        lambda params: jax.tree.map(lambda leaf: jnp.clip(leaf, -0.1, 0.1), params),
        lambda params: jax.tree.map(lambda leaf: 2 * leaf, params),
    ]
    rate = lambda step: 0.5  # noqa: E731
    plain, _ = train_step(state, batch, rate, criterion, metrics_fn)
    post, _ = train_step_post(state, batch, rate, criterion, train_step, metrics_fn, functions)
    np.testing.assert_allclose(post.params.weight, 2 * jnp.clip(plain.params.weight, -0.1, 0.1), rtol=1e-6)
    assert int(post.step) == 1


def accumulated(getkey, num_minibatches, use_scan):
    """What is accumulated, and the gradient of the whole batch."""
    state = TrainState.initial_state(eqx.nn.MLP(3, 2, 8, 1, key=getkey()), sgd(0.1), getkey())
    inputs = jax.random.normal(getkey(), (24, 3))
    batch = {"inputs": inputs, "labels": jnp.sin(inputs[:, :2])}

    def loss_fn(params, minibatch, rng):
        model = eqx.combine(params, state.model_without_params)
        errors = (jax.vmap(model)(minibatch["inputs"]) - minibatch["labels"]) ** 2
        metrics = {"loss": jnp.sum(jnp.mean(errors, axis=1)), "examples": jnp.asarray(len(errors))}
        return jnp.mean(errors), (metrics, {"first": minibatch["inputs"][0], "draw": jax.random.normal(rng)})

    whole = jax.jit(jax.grad(loss_fn, has_aux=True))(state.params, batch, jax.random.key(0))[0]
    own = accumulate_gradients(state, batch, jax.random.key(0), num_minibatches, loss_fn, use_scan)
    return inputs, whole, own


@pytest.mark.parametrize(
    ("num_minibatches", "use_scan"), every_nth_row(itertools.product([8, 3, 1], [False, True]), 3)
)
def test_the_accumulated_gradient_is_that_of_the_whole_batch(float64, getkey, num_minibatches, use_scan):
    """Each part hands out its mutables, and draws from its own key."""
    inputs, whole, (gradients, metrics, mutables) = accumulated(getkey, num_minibatches, use_scan)
    assert_same(gradients, whole, rtol=1e-12, atol=1e-12)
    assert int(metrics["examples"]) == 24
    parts = mutables if use_scan else jax.tree.map(lambda *leaves: np.stack(leaves), *mutables)
    np.testing.assert_array_equal(parts["first"], inputs[:: 24 // num_minibatches])
    assert len(np.unique(parts["draw"])) == num_minibatches


@pytest.mark.parametrize("num_minibatches", [5, 0])
def test_a_batch_that_does_not_divide_raises(getkey, num_minibatches):
    with pytest.raises(ValueError, match="minibatches"):
        accumulated(getkey, num_minibatches, False)


def first(task, n=1, **settings):
    return list(itertools.islice(supervised_batches(task, 5, key=jax.random.key(1), **settings), n))


def test_time_comes_first_then_the_trials():
    inputs, targets, mask = first(Choose())[0]
    assert (inputs.shape, targets.shape, mask.shape) == ((20, 5, 3), (20, 5, 1), (20, 5))
    assert all(type(array) is np.ndarray and array.dtype == np.float32 for array in (inputs, targets, mask))
    go, stimulus = inputs[:, :, 0], inputs[:, :, 2]  # by name: the cues, the stimulus
    np.testing.assert_array_equal(targets[:, :, 0], np.sign(stimulus.sum(axis=0)) * go)
    np.testing.assert_array_equal(mask, np.where(stimulus != 0, 0.5, 1.0))


def test_a_reach_asks_for_position_and_velocity():
    task = popsim.tasks.RandomReaches(popsim.plants.PointMass().workspace, duration=0.1)
    inputs, targets, mask = first(task)[0]
    assert targets.shape == (10, 5, 4) and (mask == 1).all()
    np.testing.assert_array_equal(targets[:, :, :2], inputs)
    assert not targets[:, :, 2:].any()


def test_batches_differ_come_again_and_can_be_written_to():
    one, two = first(Choose(), 2)
    assert not np.array_equal(one[0], two[0])
    (again,) = first(Choose(), start_batch=1)
    np.testing.assert_array_equal(again[0], two[0])
    one[0][:] = 7.0
    assert not np.array_equal(first(Choose())[0][0], one[0])


@pytest.mark.slow
def test_they_are_the_trials_of_a_training():
    _, history = train(2, n_members=0, save_trial_specs=[1])
    inputs, targets, _ = next(supervised_batches(RunningSum(), 4, start_batch=1, key=KEY))
    trials = history.trial_specs[1]
    np.testing.assert_array_equal(inputs, np.swapaxes(trials.inputs, 0, 1))
    np.testing.assert_allclose(targets, np.swapaxes(trials.targets, 0, 1), rtol=1e-6)


def test_bad_arguments_are_refused_at_once():
    for settings, named in (({"batch_size": 0}, "batch_size"), ({"start_batch": -1}, "start_batch")):
        with pytest.raises(ValueError, match=named):
            supervised_batches(Choose(), **{"batch_size": 2, "key": KEY, **settings})
