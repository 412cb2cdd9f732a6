"""The engine and plain JAX give the same numbers, to rounding; JAX runs what the engine does not know."""

import functools
import sys

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small_training
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from short_form import mostly_in_full
from small_experiment import Sum, stopping_after
from small_reaches import small_reach_setup

import popsim
from popsim._compiled import _operations, choice, elementwise, jit, map_trials, transformations
from popsim.engine import current_engine, plain_jax
from popsim.experiments import RunStopped, resume_run, run_experiment
from popsim.store.json_files import read_sealed_json
from popsim.training import TaskTrainer, rules, sgd

# Adam divides by the size of a gradient, and would enlarge rounding where that is near zero.
OPTIMIZER = sgd(1e-2)


def reaching():
    plant = popsim.plants.arm26(solver=diffrax.Euler(), n_substeps=1)
    return small_reach_setup(4, 0.05, plant, output_fn=jax.nn.sigmoid, output_bias=-3.0)


def summing():
    return small_training.RunningSum(), small_training.build


KINDS = {
    "arm26": (reaching, ()),
    "leaky units with noise": (summing, ()),
    "Hebbian rule": (summing, (rules.Hebb(rules.recurrent_synapses(), 0.01),)),
}


def trained(kind):
    """Weights and losses after three batches."""
    make, updates = KINDS[kind]
    task, build = make()
    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    trainer = TaskTrainer(OPTIMIZER, model_update_funcs=updates)
    trained, history = small_training.train(3, ensemble=ensemble, task=task, trainer=trainer)
    return eqx.filter(trained, eqx.is_inexact_array), history.loss


@pytest.mark.parametrize("kind", mostly_in_full(KINDS, ["Hebbian rule"]))  # of leaky units with noise
def test_a_training_is_the_same_by_plain_jax(kind):
    by_engine = trained(kind)
    with plain_jax():
        by_jax = trained(kind)
    small_training.assert_same(by_engine, by_jax, rtol=2e-4, atol=1e-6)


def test_plain_jax_is_plain_jax():
    """Programs hold nothing of the engine, and are not mistaken for those that do."""

    @elementwise
    def squashed(x):
        return jnp.tanh(x) * x

    def draw(x, key):
        return squashed(x) + jax.random.normal(key, x.shape)

    x, keys = jnp.linspace(-1.0, 1.0, 6).reshape(2, 3), jax.random.split(jax.random.key(0), 2)
    by_engine = str(jax.make_jaxpr(functools.partial(map_trials, draw))(x, keys))
    with plain_jax():
        assert current_engine() == choice.PLAIN_JAX
        by_jax = str(jax.make_jaxpr(functools.partial(map_trials, draw))(x, keys))
    assert "elementwise" in by_engine and "random_bits" not in by_engine
    assert "elementwise" not in by_jax and "random_bits" in by_jax

    traced = []

    @jit
    def run(x, keys, outer):
        traced.append(current_engine())
        return map_trials(draw, x, keys)

    for _ in range(2):
        expected = run(x, keys, jnp.tanh)
        with plain_jax():
            np.testing.assert_allclose(run(x, keys, jnp.tanh), expected, rtol=1e-5)
    assert traced == [choice.ENGINE, choice.PLAIN_JAX]


halved_p = Primitive("halved")
halved_p.def_impl(lambda x: x / 2)
halved_p.def_abstract_eval(lambda x: x)
ad.deflinear2(halved_p, lambda cotangent, x: [halved_p.bind(cotangent)])
batching.defvectorized(halved_p)
mlir.register_lowering(halved_p, mlir.lower_fun(lambda x: x / 2, multiple_results=False))


@pytest.fixture
def unknown(monkeypatch):
    """The operations of a primitive cannot be repeated by the engine, as if their parameters had changed."""
    choice._warn_once.cache_clear()
    bind = _operations.bind

    def bind_but_halved(equation, *arrays):
        if equation.primitive is halved_p:
            raise NotImplementedError("an unknown convention")
        return bind(equation, *arrays)

    monkeypatch.setattr(_operations, "bind", bind_but_halved)


def halved_tanh(x):
    return halved_p.bind(jnp.tanh(x))


def test_an_unknown_operation_runs_by_plain_jax_with_one_warning(unknown):
    def numbers(x, key):
        return halved_tanh(x) + jax.random.normal(key, x.shape)

    x, keys = jnp.linspace(-1.0, 1.0, 6).reshape(2, 3), jax.random.split(jax.random.key(0), 2)
    with pytest.warns(UserWarning, match="not know the operation 'halved' of JAX .* by jax.vmap") as warned:
        for _ in range(2):
            found = map_trials(numbers, x, keys)
    assert len(warned) == 1
    np.testing.assert_allclose(found, jax.vmap(numbers)(x, keys), rtol=1e-6)


def test_what_has_effects_is_not_run_twice(unknown):
    def function(x):
        jax.debug.callback(lambda x: None, x)
        return halved_p.bind(x)

    with pytest.raises(NotImplementedError, match="an unknown convention"):
        jax.make_jaxpr(functools.partial(map_trials, function))(jnp.ones(2))


@pytest.mark.parametrize("broken", ["popsim._compiled._trials_last", "popsim._compiled._elementwise"])
def test_with_an_unknown_jax_everything_runs_by_plain_jax_with_one_warning(broken, monkeypatch):
    choice._warn_once.cache_clear()
    transformations._problem_with_jax.cache_clear()
    monkeypatch.setitem(sys.modules, broken, None)
    monkeypatch.delattr(popsim._compiled, broken.rpartition(".")[2])
    with (
        choice.record_fallbacks(),
        pytest.warns(UserWarning, match=f"JAX {jax.__version__} .*all") as warned,
    ):
        doubled = jax.jit(functools.partial(map_trials, elementwise(lambda x: 2 * x)))
        np.testing.assert_array_equal(doubled(jnp.ones(3)), np.full(3, 2.0))
        assert current_engine() == choice.PLAIN_JAX
    assert len(warned) == 1
    transformations._problem_with_jax.cache_clear()


def test_the_engine_is_tried_with_a_jax_that_was_not_tested(monkeypatch):
    transformations._problem_with_jax.cache_clear()
    monkeypatch.setattr(transformations, "TESTED_JAX", ())
    assert transformations._problem_with_jax() == ""
    transformations._problem_with_jax.cache_clear()
    monkeypatch.setattr(_operations, "sizes_of_scan", lambda params: params["gone"])
    assert transformations._problem_with_jax() == "KeyError: 'gone'"
    transformations._problem_with_jax.cache_clear()


@pytest.mark.full
def test_a_run_continues_by_the_engine_with_which_it_began(tmp_path):
    small = Sum(n_members=2, n_batches=4, batch_size=2, log_step=2)
    with plain_jax():
        expected = run_experiment(small, tmp_path / "whole", quiet=True)
        with pytest.raises(RunStopped):
            run_experiment(small, tmp_path / "run", quiet=True, stop=stopping_after(1))
    run = resume_run(tmp_path / "run", quiet=True, build=Sum)
    description = read_sealed_json(tmp_path / "run" / "run.json")
    assert description["engine"] == choice.PLAIN_JAX and "resumed" not in description
    small_training.assert_same(run.ensemble, expected.ensemble)
