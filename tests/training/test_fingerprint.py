import functools
import os
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import popsim
from popsim._comparison import describe_parts
from popsim._fingerprint import fingerprint, source_fingerprint
from popsim.hand import Workspace
from popsim.tasks import RandomReaches
from popsim.training import adam


def scaled(factor):
    return lambda x: x * factor


class Thing:
    def __init__(self, size):
        self.size = size
        self.me = self


def task(duration):
    return RandomReaches(Workspace(np.zeros(2), np.ones(2)), duration=duration)


SAME = {
    "optimizer": lambda: adam(1e-3, clip_norm=1.0),
    "schedule": lambda: adam(optax.cosine_decay_schedule(1e-3, 10)),
    "closure": lambda: scaled(2.0),
    "jitted": lambda: jax.jit(scaled(2.0)),
    "task": lambda: task(0.5),
    "network": lambda: eqx.nn.MLP(2, 2, 3, 1, activation=jax.nn.relu, key=jax.random.key(0)),
    "partial": lambda: functools.partial(jnp.clip, min=0.0),
    "object in a circle": lambda: Thing(3),
    "sets": lambda: {"a", "b", "c"},
}
DIFFERENT = {
    "optimizer": lambda: adam(1e-3, clip_norm=2.0),
    "schedule": lambda: adam(optax.cosine_decay_schedule(1e-3, 11)),
    "closure": lambda: scaled(3.0),
    "jitted": lambda: jax.jit(scaled(3.0)),
    "task": lambda: task(0.6),
    "network": lambda: eqx.nn.MLP(2, 2, 3, 1, activation=jax.nn.gelu, key=jax.random.key(0)),
    "partial": lambda: functools.partial(jnp.clip, min=1.0),
    "object in a circle": lambda: Thing(4),
    "sets": lambda: {"a", "b", "d"},
}


@pytest.mark.parametrize("name", SAME)
def test_what_is_made_alike_is_the_same_and_what_is_not_differs(name):
    assert fingerprint(SAME[name]()) == fingerprint(SAME[name]()) != fingerprint(DIFFERENT[name]())


class Scaled:
    """Wraps a function, as a class of a script may, with a number of its own."""

    def __init__(self, function, gain):
        functools.update_wrapper(self, function)
        self.gain = gain


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (Scaled(np.tanh, 1.0), Scaled(np.tanh, 2.0)),
        (True, 1),
        (np.float32(1), np.float64(1)),
        (jnp.zeros(2), jnp.zeros((2, 1))),
        (jnp.zeros(2), -jnp.zeros(2)),
        (jax.random.key(0), jax.random.key(1)),
        (jax.random.key(0), jax.random.key(0, impl="rbg")),
        ([[1], 2], [[1, 2]]),
        ((lambda x, y=1: x), (lambda x, y=2: x)),
        (jnp.tanh, jnp.sin),
        (optax.adam(1e-3), optax.adam(1e-3, b1=0.8)),
        ({"a": 1, "b": 2}, {"a": 2, "b": 1}),
    ],
)
def test_different_values_differ(one, other):
    assert fingerprint(one) != fingerprint(other)


SCRIPT = """
GAIN = {gain}
seen = []

def inner(x):
    '{said}'
    return GAIN * x

def outer(x):
    seen.append(x)
    return inner(x)
"""


def outer_of(gain=2.0, said="Scales."):
    script = {"__name__": "script"}
    exec(SCRIPT.format(gain=gain, said=said), script)
    return script["outer"]


def test_a_script_counts_by_its_constants_and_not_by_its_docstrings_or_what_it_gathers():
    used = outer_of()
    used(1.0)
    assert fingerprint(used) == fingerprint(outer_of(said="Makes larger.")) != fingerprint(outer_of(gain=3.0))


def test_what_is_of_popsim_counts_by_its_public_name(monkeypatch):
    """So that it may move to another file, unlike what users write."""

    def fingerprints():
        parts = popsim.PerMember([1.0]), popsim.select_member
        return [fingerprint(part) for part in parts], describe_parts("model", parts, 99)["code"]

    before = fingerprints()
    monkeypatch.setattr(popsim.PerMember, "__module__", "popsim.moved")
    monkeypatch.setattr(popsim.select_member, "__module__", "popsim.moved")
    assert fingerprints() == before
    known = fingerprint(doubled)
    monkeypatch.setattr(doubled, "__module__", "script")
    assert fingerprint(doubled) != known


class Doubled(eqx.Module):
    def __call__(self, x):
        """Twice as much."""
        return 2 * x


class Trebled(eqx.Module):
    def __call__(self, x):
        return 3 * x


def doubled(x):
    return 2 * x


def rewritten():
    def doubled(x):
        """Twice as much."""
        return (
            2 * x  # or x + x
        )

    return doubled


def test_what_functions_do_counts_by_their_source_text():
    """So that another version of Python, whose instructions are others, finds the same."""
    plus = lambda x: x + 1  # noqa: E731
    minus = lambda x: x - 1  # noqa: E731
    assert fingerprint(plus) == fingerprint(minus)
    assert source_fingerprint(plus) == source_fingerprint(plus) != source_fingerprint(minus)
    assert source_fingerprint(jax.jit(plus)) != source_fingerprint(jax.jit(minus))
    assert source_fingerprint(doubled) == source_fingerprint(rewritten())
    assert source_fingerprint(Doubled()) != source_fingerprint(Trebled())
    assert source_fingerprint(adam(1e-3)) == source_fingerprint(adam(1e-2))


@pytest.mark.full
def test_another_process_finds_the_same():
    code = """
import optax
from popsim.training import adam
from popsim._fingerprint import fingerprint
print(fingerprint((adam(optax.cosine_decay_schedule(1e-3, 10)), {"a", "b", "c", "d"})))
"""
    command, found = [sys.executable, "-c", code], set()
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        ran = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        found.add(ran.stdout)
    here = fingerprint((adam(optax.cosine_decay_schedule(1e-3, 10)), {"a", "b", "c", "d"}))
    assert found == {here + "\n"}
