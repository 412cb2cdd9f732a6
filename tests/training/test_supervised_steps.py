import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from popsim.training import TrainState, eval_step, sgd, train_step, train_step_post


def criterion(output, label):
    return jnp.mean((output - label) ** 2)


def metrics_fn(output, label, criterion):
    return {"loss": criterion(output, label), "largest": jnp.max(jnp.abs(output - label))}


def rate(step):
    return 0.5 / (1 + step)


@pytest.fixture
def problem(getkey):
    state = TrainState.initial_state(eqx.nn.Linear(3, 2, key=getkey()), sgd(0.1), getkey())
    images = jax.random.normal(getkey(), (16, 3))
    return state, {"image": images, "label": images @ jnp.ones((3, 2))}


def test_a_step_descends_the_criterion_and_reports_the_model_before_it(problem):
    state, batch = problem
    after, metrics = train_step(state, batch, rate, criterion, metrics_fn)
    before = eval_step(state, batch, criterion, metrics_fn)
    assert {name: float(metrics[name]) for name in before} == {n: float(v) for n, v in before.items()}
    assert eval_step(after, batch, criterion, metrics_fn)["loss"] < before["loss"]
    errors = jax.vmap(state.model)(batch["image"]) - batch["label"]
    gradient = 2 / errors.size * errors.T @ batch["image"]
    np.testing.assert_allclose(after.params.weight, state.params.weight - 0.1 * gradient, rtol=1e-5)


def test_the_rate_that_is_shown_is_not_the_rate_that_acts(problem):
    state, batch = problem
    one, metrics = train_step(state, batch, rate, criterion, metrics_fn)
    other, _ = train_step(state, batch, lambda step: 99.0, criterion, metrics_fn)
    assert float(metrics["learning_rate"]) == 0.5
    np.testing.assert_array_equal(one.params.weight, other.params.weight)
    _, metrics = train_step(one, batch, rate, criterion, metrics_fn)
    assert float(metrics["learning_rate"]) == 0.25


def test_post_processing_acts_in_order_after_the_step(problem):
    state, batch = problem

    def clip(params):
        return jax.tree.map(lambda leaf: jnp.clip(leaf, -0.1, 0.1), params)

    def double(params):
        return jax.tree.map(lambda leaf: 2 * leaf, params)

    plain, _ = train_step(state, batch, rate, criterion, metrics_fn)
    post, _ = train_step_post(state, batch, rate, criterion, train_step, metrics_fn, [clip, double])
    np.testing.assert_allclose(post.params.weight, 2 * jnp.clip(plain.params.weight, -0.1, 0.1), rtol=1e-6)
    assert int(post.step) == 1
