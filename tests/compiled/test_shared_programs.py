"""Programs are shared by what they compute, never by less, and let go when they are not used."""

import dataclasses
import gc
import json
import subprocess
import sys
import weakref
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import small_training
from repository import ROOT

import popsim
from popsim._compiled import _programs, jit
from popsim.training import TaskTrainer, adam, cosine_decay, inject_hyperparams, sgd

X = jnp.linspace(-1.0, 2.0, 7)
GAIN = 2.0
MANY = np.random.default_rng(0).normal(size=100_000).astype(np.float32)


def closure(gain):
    return lambda x: gain * jnp.tanh(x)


def bound(gain):
    return Scaled(jnp.asarray(gain)).scaled


def of_class(gain):
    """Return an object of a class that has the name and fields of another, and another method."""

    class Scaling(eqx.Module):
        def __call__(self, x):
            return gain * jnp.tanh(x)

    return Scaling()


def of_table(gain):
    table = MANY.copy()
    table[54_321] = gain  # the middle of a constant that no one prints in full
    return lambda x: x * jnp.sum(jnp.asarray(table))


def of_inner(gain):
    inner = closure(gain)
    return lambda x: jax.lax.scan(lambda carry, _: (inner(carry), carry), x, length=3)[0]


def of_callback(gain):
    shape = jax.ShapeDtypeStruct(X.shape, X.dtype)
    return lambda x: jax.pure_callback(lambda y: np.float32(gain) * y, shape, x)


def of_global(gain):
    def function(x):
        return GAIN * jnp.tanh(x)

    globals()["GAIN"] = gain
    return function


class Scaled(eqx.Module):
    gain: jax.Array

    def scaled(self, x):
        return self.gain * jnp.tanh(x)


MAKERS = [closure, bound, of_class, of_table, of_inner, of_callback, of_global]


@jit
def applied(function, x):
    return function(x)


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_equal_functions_share_a_program_and_others_never(maker, count_compilations):
    function = maker(2.0)
    expected = np.asarray(eqx.filter_jit(function)(X))
    first = applied(function, X)
    np.testing.assert_array_equal(first, expected)
    with count_compilations() as compiled:
        again = applied(maker(2.0), X)
    assert not compiled or maker is of_callback
    np.testing.assert_array_equal(again, first)
    function = maker(3.0)
    np.testing.assert_array_equal(applied(function, X), np.asarray(eqx.filter_jit(function)(X)))
    assert not np.array_equal(applied(function, X), first)
    function = maker(2.0)
    np.testing.assert_array_equal(applied(function, X), first)


def test_what_is_no_array_is_that_of_the_call():
    """Two functions that compute the same on arrays, and return other names and functions with them."""
    returned = [applied(lambda x, name=name: (2 * x, name, closure), X) for name in ("a", "b")]
    assert [name for _, name, _ in returned] == ["a", "b"]
    for nonlinearity in (lambda x: jnp.tanh(x), lambda x: jnp.tanh(x)):
        assert applied(lambda x, own=nonlinearity: eqx.nn.Lambda(own), X).fn is nonlinearity


class Holder(eqx.Module):
    value: object = eqx.field(static=True)


@dataclasses.dataclass(frozen=True)
class Plain:
    value: object


def signed(holder, x):
    """Return an array, and what cannot be told from it, by the sign and the type of a number."""
    while not isinstance(holder, float | int):
        holder = holder.value if hasattr(holder, "value") else holder[0]
    return jnp.copysign(x, float(holder)), jnp.asarray(holder).dtype


HOLDERS = [lambda x: Holder((x,)), lambda x: Holder(Plain(x)), lambda x: x]


@pytest.mark.parametrize(
    "hold, way", [*((hold, "alone") for hold in HOLDERS), (HOLDERS[1], "within"), (HOLDERS[1], "debugged")]
)
def test_numbers_that_are_equal_and_not_the_same_have_programs_of_their_own(hold, way):
    run, x = jit(signed), jnp.ones(2)
    with jax.debug_nans(way == "debugged"):
        for number, sign in ((0.0, 1), (-0.0, -1), (1, 1), (1.0, 1), (True, 1)):
            held = hold(number)
            within = eqx.filter_jit(lambda x, held=held: run(held, x))
            values, dtype = within(x) if way == "within" else run(held, x)
            assert values.tolist() == [sign, sign] and dtype == jnp.asarray(number).dtype


@jit
def first_or_second(which, x, y):
    return x if which == "x" else y


def test_arguments_that_are_not_used_are_told_apart():
    x, y = X, X + 1
    np.testing.assert_array_equal(first_or_second("x", x, y), x)
    np.testing.assert_array_equal(first_or_second("y", x, y), y)


OTHER_FLAGS = {
    "jax_enable_x64": True,
    "jax_numpy_dtype_promotion": "standard",
    "jax_debug_nans": True,
    "jax_disable_jit": True,
}


@pytest.mark.parametrize("flag", OTHER_FLAGS)
def test_flags_of_jax_are_those_of_the_call(flag):
    seen, before, x = [], getattr(jax.config, flag), np.float64(2.0) ** 0.5

    def function(x):
        seen.append(getattr(jax.config, flag))
        return jnp.asarray(1.0) * jnp.sum(x)

    plain = applied(function, x)
    jax.config.update(flag, OTHER_FLAGS[flag])
    try:
        assert applied(function, x).dtype == jax.jit(function)(x).dtype
    finally:
        jax.config.update(flag, before)
    assert (seen[0], seen[-1]) == (before, OTHER_FLAGS[flag])
    assert applied(function, x).dtype == plain.dtype


def test_numbers_that_not_a_number_meets_are_still_reported():
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        applied(lambda x: jnp.log(x), X)


def test_values_of_members_are_arguments():
    values = [popsim.PerMember(jnp.asarray([1.0, gain])) for gain in (2.0, 3.0)]
    scaled = [applied(lambda x, own=own: own.values * x, jnp.ones(2)) for own in values]
    assert [each[1] for each in scaled] == [2.0, 3.0]


def test_programs_that_are_not_used_are_let_go():
    programs = _programs.Programs(lambda function, x: function(x), None, donates_rest=False)
    functions = [closure(float(gain)) for gain in range(2, _programs.MOST_PROGRAMS + 12)]
    for function in functions:
        programs.call(applied, (function, X), {})
    gc.collect()
    assert len(programs._executables) == _programs.MOST_PROGRAMS
    used = [weakref.ref(function) for function in functions]
    del function, functions
    gc.collect()
    assert sum(reference() is not None for reference in used) == _programs.MOST_PROGRAMS


def test_donated_arrays_are_those_of_the_later_arguments():
    @lambda function: jit(function, donate="all-except-first")
    def step(kept, state):
        return kept + state

    kept, state = jnp.ones(3), jnp.arange(3.0)
    np.testing.assert_array_equal(step(kept, state), [1, 2, 3])
    assert state.is_deleted() and not kept.is_deleted()


def test_equal_optimizers_are_one():
    assert adam(1e-2) is adam(1e-2) and adam(1e-2) is not adam(2e-2)
    assert sgd(1e-2) is not adam(1e-2) and adam(1e-2, clip_norm=1.0) is not adam(1e-2)
    assert adam(1) is not adam(1.0) and cosine_decay(1e-2, 10) is cosine_decay(1e-2, 10)
    assert adam(cosine_decay(1e-2, 10)) is not adam(cosine_decay(1e-2, 11))
    assert adam(popsim.PerMember([1e-2, 1e-3])) is not adam(popsim.PerMember([1e-2, 1e-3]))


def fresh_training(scale=1.0):
    """Train with an optimizer, a loss, a model and a constraint that are new functions each time."""
    error = popsim.FunctionTerm(
        "error", lambda states, trial, model: scale * jnp.mean((states.network.output - trial.targets) ** 2)
    )
    optimizer = inject_hyperparams(lambda learning_rate: optax.adam(learning_rate))(1e-2)

    def shrunk(model):
        return eqx.tree_at(lambda own: own.network.bias, model, 0.9 * model.network.bias)

    ensemble = popsim.make_ensemble(lambda key: small_training.build(key), 2, key=jax.random.key(0))
    task = small_training.RunningSum(loss=1.0 * error)
    trainer = TaskTrainer(optimizer, post_step_fns=[shrunk])
    return small_training.train(task=task, ensemble=ensemble, trainer=trainer)


@pytest.mark.slow
def test_an_equal_training_compiles_nothing_and_another_is_not_mistaken_for_it(count_compilations):
    trained, history = fresh_training()
    with count_compilations() as compiled:
        again, same_history = fresh_training()
    assert not compiled
    small_training.assert_same(jax.tree.leaves(again), jax.tree.leaves(trained))
    np.testing.assert_array_equal(same_history.loss.total, history.loss.total)
    _, other = fresh_training(scale=2.0)
    assert not np.array_equal(other.loss.total, history.loss.total)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize(
    ("way", "n"),
    [("by the API", 30), ("cells", 30), ("selections", 12)],
)
@pytest.mark.full
def test_memory_is_flat_over_trainings(way, n):
    """Without sharing, each training adds 56 MB or more, and cells 71 MB."""
    script = ROOT / "benchmarks" / "many_trainings.py"
    command = [sys.executable, str(script), "--way", way, "--n", str(n)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    memory, compiled = np.asarray(json.loads(ran.stdout)).T
    tenth = min(9, memory.size - 2)
    assert memory[-1] - memory[tenth] < 40 and compiled[-1] - compiled[tenth] < 8
