import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from short_form import every_nth_row

from popsim.training import TrainState, accumulate_gradients, sgd


@pytest.fixture(params=["loop", "scan"])
def use_scan(request):
    return request.param == "scan"


def regression(getkey):
    state = TrainState.initial_state(eqx.nn.MLP(3, 2, 8, 1, key=getkey()), sgd(0.1), getkey())
    inputs = jax.random.normal(getkey(), (24, 3))
    batch = {"inputs": inputs, "labels": jnp.sin(inputs[:, :2])}

    def loss_fn(params, minibatch, rng):
        model = eqx.combine(params, state.model_without_params)
        errors = (jax.vmap(model)(minibatch["inputs"]) - minibatch["labels"]) ** 2
        metrics = {"loss": jnp.sum(jnp.mean(errors, axis=1)), "examples": jnp.asarray(len(errors))}
        return jnp.mean(errors), (metrics, {"first": minibatch["inputs"][0], "draw": jax.random.normal(rng)})

    return state, batch, loss_fn


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_minibatches", "precision"),
    every_nth_row([(2, "float64"), (1, "float64"), (4, "float32"), (4, "float64"), (8, "float64")], 4),
)
def test_the_gradient_is_that_of_the_whole_batch(getkey, use_scan, num_minibatches, precision):
    with jax.enable_x64(precision == "float64"):
        state, batch, loss_fn = regression(getkey)
        whole = jax.jit(jax.grad(loss_fn, has_aux=True))(state.params, batch, jax.random.key(0))[0]
        accumulated, metrics, _ = eqx.filter_jit(accumulate_gradients)(
            state, batch, jax.random.key(0), num_minibatches, loss_fn, use_scan
        )
        tolerance = 1e-6 if precision == "float32" else 1e-12
        for one, other in zip(jax.tree.leaves(accumulated), jax.tree.leaves(whole), strict=True):
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
        assert int(metrics["examples"]) == 24


def test_each_part_hands_out_its_mutables_and_draws_from_its_own_key(getkey, use_scan):
    state, batch, loss_fn = regression(getkey)
    _, _, mutables = accumulate_gradients(state, batch, jax.random.key(0), 3, loss_fn, use_scan)
    if use_scan:
        firsts, draws = mutables["first"], mutables["draw"]
    else:
        firsts, draws = (np.stack([part[name] for part in mutables]) for name in ("first", "draw"))
    np.testing.assert_array_equal(firsts, batch["inputs"][::8])
    assert len(np.unique(draws)) == 3


@pytest.mark.parametrize("num_minibatches", [5, 0, 48])
def test_a_batch_that_does_not_divide_raises(getkey, use_scan, num_minibatches):
    state, batch, loss_fn = regression(getkey)
    with pytest.raises(ValueError, match="minibatches"):
        accumulate_gradients(state, batch, jax.random.key(0), num_minibatches, loss_fn, use_scan)
