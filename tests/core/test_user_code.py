"""What identifies the user's code, and the programs that are made of it."""

import sys
import types
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas

from popsim._compiled import program_text
from popsim._shared import user_code
from popsim._shared.user_code import different_names, is_installed, users_code
from popsim.store import load_model, save_model

SOURCE = """
import functools
import equinox as eqx
import jax
import numpy as np
GAIN, TABLE, WEIGHTS = {gain}, {table}, {{"of": np.ones(3) * {weight}}}
class Update:
    sizes = [{size}]
    def __call__(self, x):
        return x * {factor} * GAIN
    @property
    def half(self):
        return {half}
    class Inner:
        @eqx.filter_jit
        def doubled(self, x):
            return x * {inner}
class Derived(Update):
    pass
def scaled(x):
    '''{said}'''
    {variable} = [each for each in 2 * x]
    return {variable} if x in ("one", "two") else scaled(Update()(x))
def closing(gain):
    return lambda x: x * gain
def with_default(x, n={default}, *, m=({keyword},)):
    return x
@functools.partial(jax.jit, static_argnames="x")
def looked_up(x):
    return TABLE[x], WEIGHTS, x.unread
closed, part = closing([{enclosed}]), functools.partial(with_default, n=1)
unread = [{unread}]
"""
ONES = ("gain", "weight", "size", "factor", "half", "inner", "default", "keyword", "enclosed", "unread")
VALUES = {**dict.fromkeys(ONES, 1), "table": (1, {"a": 2.0}), "said": "Twice.", "variable": "result"}


@pytest.fixture
def typed(monkeypatch):
    """A module whose source is nowhere, as in a notebook."""

    def make(name="typed", **changes):
        module = types.ModuleType(name)
        module.__file__ = f"{name}.py"
        monkeypatch.setitem(sys.modules, name, module)
        exec(SOURCE.format(**VALUES | changes), vars(module))
        return module

    return make


def code_of(module):
    return users_code(
        {name: vars(module)[name] for name in ("Derived", "scaled", "looked_up", "closed", "part")}
    )


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        ({"size": 3}, "Update"),
        ({"factor": 3}, "Update.__call__"),
        ({"half": 0.6}, "Update.half"),
        ({"inner": 3}, "Update.Inner.doubled"),
        ({"gain": 3.0}, "GAIN"),
        ({"table": (1, {"a": 3.0})}, "TABLE"),
        ({"weight": 2}, "WEIGHTS"),
        ({"default": 2}, "with_default"),
        ({"keyword": 2}, "with_default"),
        ({"enclosed": 2}, "closed"),
        ({"said": "Two times."}, None),
        ({"variable": "doubled"}, None),
        ({"unread": 2}, None),
    ],
)
def test_what_is_typed_counts_by_its_code_and_values_and_what_a_function_names_counts_with_it(
    change, changed, typed
):
    before, again, now = (code_of(typed(**own)) for own in ({}, {}, change))
    assert before == again and different_names(before, now) == ([changed] if changed else [])
    assert {"Update.__call__", "Update.half", "with_default", "GAIN"} <= {*before}


def test_code_of_two_versions_of_python_is_not_compared(typed, monkeypatch, tmp_path):
    path = tmp_path / "model.safetensors"
    save_model(path, typed().scaled)
    before = code_of(typed())
    with monkeypatch.context() as context, warnings.catch_warnings(action="error"):
        context.setattr(user_code, "PYTHON", "3.99")
        of_other_version = code_of(typed(factor=3))
        assert different_names(before, of_other_version) == []
        load_model(path, typed(factor=3).scaled)
    assert different_names(before, code_of(typed(factor=3))) == ["Update.__call__"]
    with pytest.warns(UserWarning, match="`Update.__call__`: there, the code"):
        load_model(path, typed(factor=3).scaled)


def test_modules_that_define_the_same_names_both_count(typed):
    one, other, changed = typed("one"), typed("other"), typed("other", factor=3)
    assert users_code(one.Update, other.Update) != users_code(one.Update, changed.Update)


def test_what_is_installed_is_not_the_users():
    assert is_installed("numpy.linalg") and is_installed("popsim.task") and not is_installed("__main__")


def table(n, error=0.0):
    numbers = np.linspace(1, 2, n, dtype=np.float32)
    numbers[n // 2] *= 1 + error
    return program_text(lambda x: x + jnp.asarray(numbers), jax.ShapeDtypeStruct((n,), np.float32))


@pytest.mark.parametrize("n", [3, 300])
def test_constants_are_no_part_of_the_digest(n):
    exact, rounded, other = table(n), table(n, 1e-6), table(n, 0.5)
    assert exact.digest == rounded.digest == other.digest and not exact.calls_python
    np.testing.assert_allclose(exact.numbers[-1], rounded.numbers[-1], rtol=1e-5)
    assert not np.allclose(exact.numbers[-1], other.numbers[-1], rtol=1e-5)


def test_a_kernel_for_other_machines_has_no_text_and_no_error():
    def kernel(read, written):
        written[...] = read[...]

    def copied(x):
        return pallas.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    assert program_text(copied, jnp.zeros(8)).digest == ""
