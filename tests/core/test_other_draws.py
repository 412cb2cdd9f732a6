"""Draws of NumPy and Python in what is traced: refused at each door, with the line, in one thread."""

import dataclasses
import inspect
import random
import threading
from random import gauss

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
import small_training
from numpy.random import choice, default_rng
from small_environments import Echo, trial_with

import popsim
from popsim._shared.other_draws import refuse_other_draws, refuse_unseeded_draws
from popsim.training import TaskTrainer
from popsim.training.steps.member_step import trials_of_batch

RNG, LEGACY = np.random.default_rng(1), np.random.RandomState(1)
KEY = jax.random.key(0)


CALLED = {
    "numpy": lambda: np.random.choice([-1.0, 1.0]),
    "default_rng by name": lambda: default_rng(0).normal(),
    "python": lambda: random.random(),
    "function of closure": (lambda draw: lambda: draw())(np.random.standard_normal),
    "class of closure": (lambda kind: lambda: kind(3).normal())(np.random.RandomState),
    "library": lambda: scipy.stats.norm.rvs(random_state=0),
}
HELD = {
    "Generator": lambda: RNG.normal(),
    "RandomState": lambda: LEGACY.normal(),
    "default": lambda generator=LEGACY: generator.normal(),
    "closure": (lambda generator: lambda: generator.uniform())(RNG),
    "function": np.random.randn,
    "library": lambda: scipy.stats.norm.rvs(),
}


@pytest.mark.parametrize("draw", CALLED.values(), ids=CALLED)
def test_what_calls_numpy_or_python_is_refused_with_its_line(draw):
    before = vars(np.random).copy(), vars(random).copy(), choice, gauss
    with (
        pytest.raises(ValueError, match=r"`it` must draw from a `key` alone") as refused,
        refuse_other_draws("`it`", draw),
    ):
        draw()
    assert f"in line {inspect.getsourcelines(draw)[1]} of {__file__}" in str(refused.value)
    assert before == (vars(np.random), vars(random), choice, gauss)  # all is put back


@pytest.mark.parametrize("draw", HELD.values(), ids=HELD)
def test_what_is_held_may_not_be_drawn_from(draw):
    refused = pytest.raises(
        ValueError, match=r"`it` must draw from a `key` alone, by jax.random, got (draws|`)"
    )
    with refused, refuse_other_draws("`it`", draw):
        draw()


class Task(small_training.RunningSum):
    """A running sum, whose trials or validation trials are shifted by what they draw."""

    draw: object = eqx.field(static=True, default=float)
    validating: object = eqx.field(static=True, default=float)

    def trial(self, *, batch, key):
        trial = super().trial(batch=batch, key=key)
        return eqx.tree_at(lambda t: t.inputs, trial, trial.inputs + jnp.float32(self.draw()))

    def validation_trials(self):
        trials = super().validation_trials()
        return eqx.tree_at(lambda t: t.inputs, trials, trials.inputs + jnp.float32(self.validating()))


class Answer(Echo):
    """An environment that begins with what it draws, or pays it."""

    beginning: object = eqx.field(static=True, default=float)
    paid: object = eqx.field(static=True, default=float)

    def init(self, *, key):
        return (), {"last": jnp.zeros(2) + self.beginning()}

    def step(self, state, action, *, key):
        after, outcome = super().step(state, action, key=key)
        return after, dataclasses.replace(outcome, reward=jnp.float32(self.paid()))


def model(*parts, policy=None, nonlinearity=jnp.tanh):
    sizes = (1, 3, 1) if policy is None else (2, 3, 2)
    network = popsim.networks.VanillaRNN(*sizes, nonlinearity=nonlinearity, key=KEY)
    return popsim.NetworkModel(network, parts, policy=policy, dt=0.01)


def evaluate(model, task=None, trials=None):
    popsim.evaluate(model, task or Task(), trials=trials, key=KEY)


def answered(environment, mean_fn=None):
    policy = popsim.policies.Gaussian(2, mean_fn=mean_fn)
    trials = jax.tree.map(lambda leaf: leaf[None], trial_with(environment))
    evaluate(model(policy=policy), Task(1.0 * popsim.losses.PolicyGradient()), trials)


def trained(**options):
    trainer = TaskTrainer(small_training.OPTIMIZER, **options)
    small_training.train(trainer=trainer, n_members=0)


def with_bias(draw):
    return lambda key, **_: eqx.tree_at(lambda m: m.network.bias, model(), jnp.ones(3) * draw())


GRID = popsim.member_grid(2)
ONE = jnp.asarray(1)
DOORS = {
    "trial": lambda draw: trials_of_batch(
        Task(draw=draw), 2, ONE, member_ids=ONE, shared_trials=False, key=KEY
    ),
    "validation_trials": lambda draw: evaluate(model(), Task(validating=draw)),
    "environment step": lambda draw: answered(Answer(jnp.ones(()), paid=draw)),
    "policy": lambda draw: answered(Answer(jnp.ones(())), lambda output: output + draw()),
    "network": lambda draw: evaluate(model(nonlinearity=lambda x: x + draw())),
    "loss": lambda draw: evaluate(
        model(), Task(1.0 * popsim.FunctionTerm("own", lambda states, trial, model: jnp.float32(draw())))
    ),
    "build from settings": lambda draw: popsim.build_members(with_bias(draw), GRID, key=KEY),
    "post-step": lambda draw: trained(
        post_step_fns=[lambda model: jax.tree.map(lambda x: x * draw(), model)]
    ),
}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_users_functions_draw_from_their_key_wherever_they_are_traced(door):
    with pytest.raises(
        ValueError, match=r"must (draw from a `key` alone|return the same at every call).*got"
    ):
        door(lambda: RNG.normal())


def test_validation_trials_may_draw_from_a_fixed_seed_and_each_function_before_it_is_traced():
    for seeded in (lambda: default_rng(0).normal(), lambda: np.random.RandomState(3).normal()):
        with refuse_unseeded_draws("`it`", seeded):
            assert seeded() == seeded()
    for unseeded in (lambda: default_rng().normal(), lambda: random.random(), *HELD.values()):
        refused = pytest.raises(ValueError, match="`it` must return the same at every call")
        with refused, refuse_unseeded_draws("`it`", unseeded):
            unseeded()
    drawn = RNG.normal(size=3)
    with refuse_other_draws("`it`", lambda: drawn, RNG):
        assert isinstance(RNG, np.random.Generator) and not isinstance(RNG, np.random.RandomState)
        assert issubclass(np.random.PCG64, np.random.BitGenerator)
        jax.random.normal(KEY)


def test_other_threads_draw_while_one_traces_and_all_is_put_back_after_the_last():
    started, ended, drawn = threading.Event(), threading.Event(), []

    def trace():
        with refuse_other_draws("`it`", lambda: choice(3)):
            started.set()
            ended.wait(60)

    thread = threading.Thread(target=trace)
    before = np.random.choice
    with refuse_other_draws("`outer`"):
        thread.start()
        assert started.wait(60)
        with pytest.raises(ValueError, match="`inner` must draw"), refuse_other_draws("`inner`"):
            np.random.rand()
        with pytest.raises(ValueError, match="`outer` must draw"):
            np.random.rand()
    # This thread traces no more, but the other does.
    drawn += [choice(3), np.random.rand(), random.random(), np.random.default_rng(0).normal()]
    drawn += [np.random.RandomState(0).normal(), np.random.choice(3)]
    assert np.random.choice is not before
    ended.set()
    thread.join()
    assert np.random.choice is before is choice and np.all(np.isfinite(drawn))
    assert drawn[3] == np.random.default_rng(0).normal() and type(np.random.default_rng) is type(default_rng)
