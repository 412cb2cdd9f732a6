"""What identifies the user's code, and the programs that are made of it."""

import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas

from popsim._compiled import program_text
from popsim._shared.user_code import code_of_modules, is_installed, users_code, users_modules

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
