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
from popsim._shared.user_code import (
    code_of_modules,
    different_names,
    is_installed,
    users_code,
    users_modules,
)
from popsim.store import load_model, save_model
from popsim.sweeps.folder import SweepFolder

CELL = """
GAIN = {gain}
class Update:
    size = {size}
    def __call__(self, x):
        return x * {factor} * GAIN
    @property
    def half(self):
        return {half}
def scaled(x):
    '''{said}'''
    {variable} = [each for each in 2 * x]
    return {variable} if x in ("one", "two") else scaled(Update()(x))
"""
VALUES = {"gain": 2.0, "size": 1, "factor": 2, "half": 0.5, "said": "Twice.", "variable": "result"}


@pytest.fixture
def typed(monkeypatch):
    """A module whose source is nowhere, as in a notebook."""

    def make(name="typed", **changes):
        module = types.ModuleType(name)
        module.__file__ = "typed.py"
        exec(CELL.format(**VALUES | changes), vars(module))
        monkeypatch.setitem(sys.modules, name, module)
        return module

    return make


@pytest.mark.parametrize(
    ("changes", "changed"),
    [
        ({"size": 3}, {"Update"}),
        ({"factor": 3}, {"Update.__call__"}),
        ({"half": 0.6}, {"Update.half"}),
        ({"gain": 3.0}, {"GAIN"}),
        ({"said": "Two times."}, set()),
        ({"variable": "doubled"}, set()),
    ],
)
def test_what_is_typed_counts_by_its_methods_and_values(changes, changed, typed):
    before = code_of_modules([typed().__name__])
    of_function = users_code(typed().scaled)
    now = code_of_modules([typed(**changes).__name__])
    assert {name for name in before if before[name] != now[name]} == changed
    assert before.keys() == now.keys() == {"Update", "Update.__call__", "Update.half", "scaled", "GAIN"}
    assert of_function == before, "what a function names counts with it"


HELD = """
import functools
import equinox as eqx
import jax
import numpy as np
TABLE = {table}
WEIGHTS = {{"of": np.ones(3) * {weight}}}
class Outer:
    sizes = [{size}]
    class Inner:
        @eqx.filter_jit
        def doubled(self, x):
            return x * {factor}
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


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        ({"table": (1, {"a": 3.0})}, "TABLE"),
        ({"weight": 2}, "WEIGHTS"),
        ({"size": 2}, "Outer"),
        ({"factor": 3}, "Outer.Inner.doubled"),
        ({"default": 2}, "with_default"),
        ({"keyword": 2}, "with_default"),
        ({"enclosed": 2}, "closed"),
        ({"unread": 2}, None),
    ],
)
def test_default_arguments_tables_and_what_is_under_decorators_count(change, changed, monkeypatch):
    names = ("weight", "size", "factor", "default", "keyword", "enclosed", "unread")
    values = {**dict.fromkeys(names, 1), "table": (1, {"a": 2.0})}
    codes = []
    for each in (values, values, values | change):
        module = types.ModuleType("holding")
        module.__file__ = "holding.py"
        monkeypatch.setitem(sys.modules, "holding", module)
        exec(HELD.format(**each), vars(module))
        codes.append(code_of_modules(["holding"]))
        of_objects = users_code(
            {name: vars(module)[name] for name in ("Outer", "looked_up", "closed", "part")}
        )
        assert of_objects == {name: digest for name, digest in codes[-1].items() if name != "closing"}
    assert codes[0] == codes[1] and {"looked_up"} < {*codes[0]}
    assert different_names(codes[0], codes[2]) == ([changed] if changed else [])


def test_code_of_two_versions_of_python_is_not_compared(typed, monkeypatch, tmp_path):
    folder, path = SweepFolder(tmp_path), tmp_path / "model.safetensors"
    save_model(path, typed().scaled)
    before = code_of_modules([typed().__name__])
    assert folder.note_code(before) == []
    with monkeypatch.context() as context, warnings.catch_warnings(action="error"):
        context.setattr(user_code, "PYTHON", "3.99")
        of_other_version = code_of_modules([typed(factor=3).__name__])
        assert different_names(before, of_other_version) == [] == folder.note_code(of_other_version)
        load_model(path, typed(factor=3).scaled)
    assert folder.note_code(code_of_modules([typed(factor=3).__name__])) == ["Update.__call__"]
    with pytest.warns(UserWarning, match="`Update.__call__`: there, the code"):
        load_model(path, typed(factor=3).scaled)


def test_modules_that_define_the_same_names_both_count(typed):
    typed("one"), typed("other")
    before = code_of_modules(["one", "other"])
    typed("other", factor=3)
    assert before != code_of_modules(["one", "other"])


def test_what_is_loaded_besides_the_users_modules_is_left_alone(monkeypatch):
    class Classes(types.ModuleType):
        __file__ = "_classes.py"

        def __getattr__(self, name):
            raise RuntimeError(name)

    monkeypatch.setitem(sys.modules, "blocked", None)
    monkeypatch.setitem(sys.modules, "classes", Classes("classes"))
    assert not {"blocked", "classes"} & {*users_modules()}
    code_of_modules(users_modules())
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
