"""Optimizers whose hyperparameters differ between members, against each member trained alone."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from short_form import every_nth

from popsim import PerMember, make_ensemble
from popsim.training import TrainState, adam, inject_hyperparams, sgd
from popsim.training.steps.optimizers import learning_rate_of
from popsim.training.train_steps import TrainStep

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("float64"),  # Adam makes much of roundings of small gradients
]

N_STEPS = 12
RATES = [0.3, 0.1, 0.03]
COSINE = optax.cosine_decay_schedule(1.0, N_STEPS, alpha=0.1)
COSINE_VALUES = 0.1 + 0.9 * (1 + np.cos(np.pi * np.arange(N_STEPS) / N_STEPS)) / 2
INPUTS = np.random.default_rng(1).normal(size=(16, 3))


def loss_fn(model, state, rng):
    loss = jnp.mean((jax.vmap(model)(INPUTS) - jnp.sin(INPUTS[:, :2])) ** 2)
    return loss, state, loss


def linear(key):
    return eqx.nn.Linear(3, 2, key=key)


@pytest.fixture
def ensemble():
    return make_ensemble(linear, 3, key=jax.random.key(0))


def train_together(ensemble, optimizer):
    """The trained ensemble, and the learning rate of each (step, member)."""
    state = TrainState.initial_ensemble(ensemble, optimizer, jax.random.key(2))

    @jax.jit
    @jax.vmap
    def step(params, opt_state):
        own = dataclasses.replace(state, params=params, opt_state=opt_state)
        own, _ = TrainStep(loss_fn)(own)
        return own.params, own.opt_state, learning_rate_of(own.opt_state)

    params, opt_state, rates = state.params, state.opt_state, []
    for _ in range(N_STEPS):
        params, opt_state, rate = step(params, opt_state)
        rates.append(rate)
    return eqx.combine(params, state.model_without_params), np.stack(rates)


def train_alone(model, optimizer):
    """With nothing of popsim."""
    params, static = eqx.partition(model, eqx.is_array)
    gradient = jax.jit(jax.grad(lambda p: loss_fn(eqx.combine(p, static), None, None)[0]))
    with jax.numpy_dtype_promotion("standard"):
        opt_state = optimizer.init(params)
        for _ in range(N_STEPS):
            updates, opt_state = optimizer.update(gradient(params), opt_state, params)
            params = optax.apply_updates(params, updates)
    return eqx.combine(params, static)


def assert_each_is_as_alone(trained, ensemble, optimizers):
    for i, optimizer in enumerate(optimizers):
        model = jax.tree.map(lambda leaf, i=i: leaf[i], ensemble)
        alone = train_alone(model, optimizer)
        np.testing.assert_allclose(trained.weight[i], alone.weight, rtol=1e-7)
        np.testing.assert_allclose(trained.bias[i], alone.bias, rtol=1e-7)
        assert not np.allclose(alone.weight, model.weight, atol=1e-3)


BUILDERS = {"adam": (adam, optax.adam), "sgd": (sgd, optax.sgd)}


@pytest.mark.parametrize("name", every_nth(BUILDERS, 2))
def test_three_rates_under_one_schedule(ensemble, name):
    ours, plain = BUILDERS[name]
    trained, rates = train_together(ensemble, ours(PerMember(RATES) * COSINE))
    assert_each_is_as_alone(trained, ensemble, [plain(lambda n, r=r: r * COSINE(n)) for r in RATES])
    np.testing.assert_allclose(rates, np.outer(COSINE_VALUES, RATES), rtol=1e-9)


def test_gradients_are_clipped_to_the_norm_of_each_member(ensemble):
    norms = [0.5, 0.1, 10.0]
    trained, _ = train_together(ensemble, sgd(PerMember(RATES) * COSINE, clip_norm=PerMember(norms)))
    alone = [
        optax.chain(optax.clip_by_global_norm(norm), optax.sgd(lambda n, r=rate: r * COSINE(n)))
        for norm, rate in zip(norms, RATES, strict=True)
    ]
    assert_each_is_as_alone(trained, ensemble, alone)


def test_any_hyperparameter_within_any_chain(ensemble):
    """Numbers, one of them under a schedule that is not the rate's; the rate shared, under a schedule."""
    firsts, decays = [0.5, 0.8, 0.95], [0.0, 0.1, 1.0]
    falling = optax.linear_schedule(1.0, 0.0, 16)  # optax divides in single precision: here without rounding
    optimizer = inject_hyperparams(optax.adamw)(
        COSINE, b1=PerMember(firsts), weight_decay=PerMember(decays) * falling
    )
    trained, rates = train_together(ensemble, optax.chain(optax.scale(2.0), optimizer, optax.scale(0.1)))
    alone = [
        optax.chain(
            optax.scale(2.0),
            optax.inject_hyperparams(optax.adamw)(COSINE, b1=b1, weight_decay=lambda n, d=d: d * falling(n)),
            optax.scale(0.1),
        )
        for b1, d in zip(firsts, decays, strict=True)
    ]
    assert_each_is_as_alone(trained, ensemble, alone)
    np.testing.assert_allclose(rates, np.outer(COSINE_VALUES, np.ones(3)), rtol=1e-9)


def test_hyperparameters_take_the_type_of_the_parameters(ensemble):
    optimizer = adam(PerMember(np.float32(RATES)) * COSINE, clip_norm=PerMember(np.float32(RATES)))
    state = TrainState.initial_ensemble(ensemble, optimizer, jax.random.key(2))
    types = {leaf.dtype.name for leaf in jax.tree.leaves(state.opt_state)}
    assert types == {"int32", "float64"}
    np.testing.assert_allclose(learning_rate_of(state.opt_state), RATES, rtol=1e-6)


@pytest.mark.parametrize("rate", [PerMember([0.1, 0.2]), PerMember([0.1, 0.2]) * COSINE])
def test_a_wrong_number_of_values_is_refused_by_name_and_a_single_model_has_one(ensemble, rate, as_users_run):
    with pytest.raises(ValueError, match="`learning_rate` of the optimizer.* 3 members, got 2"):
        TrainState.initial_ensemble(ensemble, adam(rate), jax.random.key(2))
    with pytest.raises(ValueError, match="`weight_decay` of the optimizer.* 3 members, got 2"):
        optimizer = inject_hyperparams(optax.adamw)(PerMember(RATES), weight_decay=rate)
        TrainState.initial_ensemble(ensemble, optimizer, jax.random.key(2))
    model = linear(jax.random.key(0))
    with pytest.raises(ValueError, match="`learning_rate` of the optimizer.*single model"):
        TrainState.initial_state(model, adam(rate), jax.random.key(2))
    with jax.numpy_dtype_promotion("standard"), pytest.raises(ValueError, match="initial_ensemble"):
        train_alone(model, adam(rate))
    with pytest.raises(ValueError, match="learning_rate.*PerMember"):
        adam([1e-3, 1e-2])
