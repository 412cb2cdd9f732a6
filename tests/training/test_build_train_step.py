import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from popsim.training import TrainState, build_train_step_fn, sgd


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


@pytest.mark.parametrize("kind", ["not compiled", "compiled", "donated", "sharded"])
def test_the_loss_function_is_called_by_keyword(regression, kind):
    """Its parameters may stand in any order; that of the step is called `train_state`."""

    def in_another_order(labels, inputs, model, rng, state):
        return supervised(model, state, rng, inputs=inputs, labels=labels)

    options = {
        "not compiled": {"jit": False},
        "compiled": {},
        "donated": {"donate_params_and_state": True},
        "sharded": {"aux_output_shardings": jax.sharding.SingleDeviceSharding(jax.devices()[0])},
    }[kind]
    state, data = regression
    expected, outputs = build_train_step_fn(supervised, jit=False)(state, **data)
    after, own = build_train_step_fn(in_another_order, **options)(train_state=state, **data)
    assert int(after.loss_fn_state) == 1
    np.testing.assert_array_equal(own["rng"], outputs["rng"])
    np.testing.assert_allclose(own["loss"], outputs["loss"], rtol=1e-6)
    np.testing.assert_allclose(
        after.params.layers[0].weight, expected.params.layers[0].weight, rtol=1e-5, atol=1e-7
    )


def test_a_step_is_one_step_of_gradient_descent(regression):
    state, data = regression
    state = TrainState.initial_state(state.model, sgd(0.1), jax.random.key(0), jnp.asarray(0))
    after, _ = build_train_step_fn(supervised)(state, **data)
    gradients = eqx.filter_grad(lambda m: supervised(m, 0, jax.random.key(0), **data)[0])(state.model)
    expected = eqx.apply_updates(state.model, jax.tree.map(lambda g: -0.1 * g, gradients))
    for new, by_hand in zip(
        jax.tree.leaves(after.params), jax.tree.leaves(eqx.filter(expected, eqx.is_array)), strict=True
    ):
        np.testing.assert_allclose(new, by_hand, rtol=1e-6)


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
