import dataclasses
import functools
import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from optax import contrib
from quadratic_loss import Constant, nearness
from short_form import mostly_in_full

import popsim
from popsim.training import TaskTrainer, TrainState, adam, build_train_step_fn, sgd
from popsim.training.loop.change_checks import check_changes
from popsim.training.steps.member_step import MemberStep
from popsim.training.steps.optimizers import learning_rate_of

pytestmark = [
    pytest.mark.filterwarnings("ignore:the optimizer does not tell its learning rate"),
    pytest.mark.filterwarnings("ignore:.* is deprecated:DeprecationWarning"),
]

RATE = 0.05
N_BATCHES = 6


def listed():
    """From names to builders: all of optax and optax.contrib that has a learning rate, and what wraps it."""
    builders = {}
    for module in (optax, contrib):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name[0] != "_" and "learning_rate" in inspect.signature(function).parameters:
                builders[name] = functools.partial(function, learning_rate=RATE)
    steps, ascent = optax.sgd(RATE), optax.chain(contrib.normalize(), optax.sgd(RATE))
    return builders | {
        "optimistic_adam": lambda: optax.optimistic_adam(RATE, 1.0),
        "prodigy": lambda: contrib.prodigy(1.0, estim_lr0=RATE),
        "dadapt_adamw": lambda: contrib.dadapt_adamw(1.0, estim_lr0=RATE),
        "dpsgd": lambda: contrib.dpsgd(RATE, 1.0, 0.1, 0),
        "noisy_sgd": lambda: optax.noisy_sgd(RATE, key=0),
        "lbfgs": optax.lbfgs,
        "lbfgs, backtracking": lambda: optax.lbfgs(linesearch=optax.scale_by_backtracking_linesearch(10)),
        "polyak_sgd": lambda: optax.polyak_sgd(1.0),
        "lookahead": lambda: optax.lookahead(steps, 3, 0.5),
        "sam": lambda: contrib.sam(steps, ascent),
        "sam, opaque": lambda: contrib.sam(steps, ascent, opaque_mode=True),
        "mechanize": lambda: contrib.mechanize(steps),
        "reduce_on_plateau": lambda: optax.chain(steps, contrib.reduce_on_plateau(patience=1)),
        "schedule_free": lambda: contrib.schedule_free(steps, RATE),
        "MultiSteps": lambda: optax.MultiSteps(steps, 2).gradient_transformation(),
        "apply_if_finite": lambda: optax.apply_if_finite(steps, 2),
    }


OPTIMIZERS = listed()
REFUSED = {
    "dpsgd": r"`optimizer` .*shape \(\) was returned for a parameter of shape \(2,\).*optax.contrib.dpsgd",
    "lookahead": r"`optimizer` cannot train this model: .*fast",
}
SHORT = ("lbfgs", "sam, opaque")  # which are given the loss as a function


@pytest.mark.parametrize("clip_norm", [None, 1.0])
def test_the_learning_rate_of_a_schedule_can_be_read(clip_norm):
    optimizer = adam(optax.linear_schedule(1.0, 0.0, 4), clip_norm=clip_norm)
    params = jnp.ones(3)
    state = optimizer.init(params)
    rates = []
    with jax.numpy_dtype_promotion("standard"):
        for _ in range(4):
            _, state = optimizer.update(params, state, params)
            rates.append(float(learning_rate_of(state)))
    np.testing.assert_allclose(rates, [1.0, 0.75, 0.5, 0.25])
    assert np.isnan(learning_rate_of(optax.adam(1e-3).init(params)))  # which does not tell it


def test_clipping_bounds_the_gradient_norm():
    optimizer = sgd(1.0, clip_norm=2.0)
    params = jnp.zeros(4)
    updates, _ = optimizer.update(jnp.full(4, 3.0), optimizer.init(params), params)
    np.testing.assert_allclose(jnp.linalg.norm(updates), 2.0, rtol=1e-6)


def constant(key):
    return Constant(2 * jax.random.normal(key, (2,)))


def distance(weights):
    return jnp.sum((weights - 1) ** 2)


@pytest.fixture(scope="module")
def ensemble():
    return popsim.make_ensemble(constant, 2, key=jax.random.key(0))


def train(ensemble, optimizer, where_train=lambda model: model, **options):
    """Train two constants, in batches of two equal trials."""
    options = {"log_step": 100, "disable_tqdm": True, "key": jax.random.key(1), **options}
    trainer = TaskTrainer(optimizer, n_minibatches=options.pop("n_minibatches", 1))
    return trainer(nearness(1.0), ensemble, N_BATCHES, 2, where_train, ensembled=True, **options)[0].weights


def train_alone(weights, name):
    """With nothing of popsim, as the pages of optax say."""
    optimizer, value_and_grad = OPTIMIZERS[name](), jax.value_and_grad(distance)
    needs = {
        "lbfgs": ("value", "grad", "value_fn"),
        "lbfgs, backtracking": ("value", "grad", "value_fn"),
        "sam, opaque": ("grad_fn",),
        "sophia": ("obj_fn",),
        **dict.fromkeys(("polyak_sgd", "momo", "momo_adam", "reduce_on_plateau"), ("value",)),
    }

    @jax.jit
    def step(weights, state):
        value, grad = value_and_grad(weights)
        offered = {"value": value, "grad": grad, "value_fn": distance, "obj_fn": distance}
        offered["grad_fn"] = lambda weights, _: jax.grad(distance)(weights)
        extra = {key: offered[key] for key in needs.get(name, ())}
        updates, state = optimizer.update(grad, state, weights, **extra)
        return optax.apply_updates(weights, updates), state

    with jax.numpy_dtype_promotion("standard"):
        state = optimizer.init(weights)
        for _ in range(N_BATCHES):
            weights, state = step(weights, state)
    return weights


@pytest.mark.parametrize("name", mostly_in_full(sorted(set(OPTIMIZERS) - set(REFUSED)), SHORT))
def test_every_optimizer_trains_each_member_as_alone(ensemble, name):
    trained = train(ensemble, OPTIMIZERS[name]())
    for own, start in zip(trained, ensemble.weights, strict=True):
        np.testing.assert_allclose(own, train_alone(start, name), rtol=2e-5, atol=1e-6)
        assert not np.array_equal(own, start)


def test_every_optimizer_is_taken_or_refused_by_name(ensemble):
    assert len(OPTIMIZERS) > 50
    model, step = popsim.member(ensemble, 0), MemberStep(nearness(1.0), batch_size=1)
    for name, build in OPTIMIZERS.items():
        state = TrainState.initial_state(model, build(), jax.random.key(0))
        state = dataclasses.replace(
            state, loss_fn_state=step.initial_carry(model, state.params, key=state.root_rng)
        )
        if name in REFUSED:
            with pytest.raises(ValueError, match=REFUSED[name]):
                check_changes(step, state, None, [None])
        else:
            check_changes(step, state, None, [None])


def test_a_train_step_of_a_loss_function_hands_it_to_the_optimizer(getkey):
    def loss_fn(model, state, rng):
        return distance(model.bias), state, None

    model = eqx.nn.Linear(1, 2, key=getkey())
    state = TrainState.initial_state(model, optax.lbfgs(), getkey(), where_train=lambda m: m.bias)
    step = build_train_step_fn(loss_fn)
    for _ in range(2):
        state, _ = step(state)
    np.testing.assert_allclose(state.model.bias, 1, rtol=1e-5)
