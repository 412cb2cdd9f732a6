"""Compiled programs: equal programs are shared, and the least recently used are dropped.

`jax.jit` compiles again for every function object that it meets, and keeps each program for as long as the
process lives: a new optimizer, or a new closure in a task, is another program of tens of megabytes.
"""

import dataclasses
import hashlib
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PyTree

from popsim._compiled.choice import is_plain_jax
from popsim._compiled.while_compiling import start_waiting

MOST_PROGRAMS = 16  # of one function
# Flags with which JAX does more than run a program: it runs Python again, or passes constants apart.
UNUSUAL_FLAGS = (
    "jax_disable_jit",
    "jax_debug_nans",
    "jax_debug_infs",
    "jax_use_simplified_jaxpr_constants",
)

Value = TypeVar("Value")


class RecentValues(Generic[Value]):
    """The most recently used values by key, at most `most` of them."""

    def __init__(self, most: int):
        self._most = most
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get_or_make(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of a key, made if it is missing; the least recently used are dropped."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()  # without the lock: it takes long, and may come here again
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        return value


class _Executable:
    """A compiled program, from donated and other arrays to a list of arrays, for weak references."""

    def __init__(self, compiled: jax.stages.Compiled):
        self.run = compiled


class _Program(NamedTuple):
    """A compiled program with what a function returns besides arrays."""

    executable: _Executable | None  # which equal functions share; None if `jax.jit` must run the function
    structure: Any  # of the arrays that the function returns
    static: PyTree  # what it returns that is no array, elsewhere None


class Programs:
    """The compiled programs of a function.

    If all that is no array is that of an earlier call, its program is called. Else the function is
    traced, and takes the program of an earlier call that computes the same: the text of what XLA is to
    compile, with every constant, is the key. So equal closures share a program, and those that hold or read
    other values never do.
    """

    def __init__(
        self, function: Callable[..., Any], options: Mapping[str, Any] | None, *, donates_rest: bool
    ):
        self._function = function
        self._options = None if options is None else dict(options)
        self._donates_rest = donates_rest
        self._programs: RecentValues[_Program] = RecentValues(MOST_PROGRAMS)
        # Weak: an executable lives as long as one of the programs above, or a call, still holds it.
        self._executables: weakref.WeakValueDictionary[Hashable, _Executable] = weakref.WeakValueDictionary()

    def call(self, ordinary: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call the program for these arguments; that of `ordinary`, by `equinox.filter_jit`, if JAX must."""
        leaves, structure = jax.tree.flatten((args, dict(kwargs)))
        numbers = static_numbers(leaves, structure)
        if any(getattr(jax.config, flag, False) for flag in UNUSUAL_FLAGS):
            return ordinary(numbers)(*args, **kwargs)
        n_first = len(jax.tree.leaves(args[:1])) if self._donates_rest else len(leaves)
        try:
            hash(key := (structure, n_first, tuple(map(_kind, leaves)), context(), numbers))
        except TypeError:  # raised again by JAX, which names the argument
            return ordinary(numbers)(*args, **kwargs)
        # A hit takes no trace. What is no array is a part of the key as it is.
        program = self._programs.get_or_make(key, lambda: self._program(leaves, structure, n_first))
        if program.executable is None:
            return ordinary(numbers)(*args, **kwargs)
        out = jax.block_until_ready(program.executable.run(*_arrays(leaves, n_first)))
        return eqx.combine(jax.tree.unflatten(program.structure, out), program.static)

    def _program(self, leaves: Sequence[Any], structure: Any, n_first: int) -> _Program:
        """Trace the function, and compile it unless there is a program that computes the same."""
        array_function, results = _array_function(self._function, leaves, structure)
        donated = (1,) if self._donates_rest else ()
        # Else a program would not tell which of the arrays it takes.
        jitted = jax.jit(array_function, donate_argnums=donated, keep_unused=True)
        with warnings.catch_warnings():
            if self._donates_rest:
                warnings.filterwarnings("ignore", message="Some donated buffers were not usable*")
            lowered = jitted.lower(*_arrays(leaves, n_first))
        # Two closures are never equal, but what they compute may be: the text tells, as it holds every number
        # that was read from a closure or a global.
        text = lowered.as_text()
        if calls_python(text):
            return _Program(None, *results[0])
        # Programs of equal text may take arrays in other trees, from other devices, or under other flags.
        kinds = tuple(_kind(leaf) for leaf in leaves if eqx.is_array(leaf))
        key = (hashlib.sha256(text.encode()).digest(), lowered.in_tree, kinds, context())
        executable = self._executables.get(key)
        if executable is None:
            start_waiting()
            executable = self._executables[key] = _Executable(lowered.compile(self._options))
        return _Program(executable, *results[0])


def _arrays(leaves: Sequence[Any], n_first: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the arrays of the first argument and those of the rest, with None for what is no array."""
    arrays = tuple(leaf if eqx.is_array(leaf) else None for leaf in leaves)
    return arrays[:n_first], arrays[n_first:]


def _kind(leaf: Any) -> Hashable:
    """Return what a program depends on in an array, and all of what is none."""
    if isinstance(leaf, jax.Array):
        return jax.typeof(leaf), leaf.sharding, leaf.committed
    return (jax.typeof(leaf), None, False) if eqx.is_array(leaf) else (type(leaf), leaf)


def static_numbers(leaves: Sequence[Any], structure: Any) -> tuple[str, ...]:
    """Return the numbers that are no arrays as text, by which 0.0 and -0.0, or 1, 1.0 and True, differ."""
    texts: list[str] = []
    for leaf in leaves:
        if not eqx.is_array(leaf):
            _add_numbers(leaf, texts)
    nodes = [structure]
    while nodes:
        node = nodes.pop()
        if (data := node.node_data()) is not None:
            _add_numbers(data[1], texts)
            nodes += node.children()
    return tuple(texts)


def _add_numbers(value: Any, texts: list[str]) -> None:
    """Add the numbers of a value that is compared by its parts."""
    if isinstance(value, int | float | complex | np.generic):
        texts.append(repr(value))
    elif isinstance(value, tuple | list | Mapping):
        for part in value.items() if isinstance(value, Mapping) else value:
            _add_numbers(part, texts)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            if field.compare:
                _add_numbers(getattr(value, field.name, None), texts)


def calls_python(text: str) -> bool:
    """Return whether a program calls Python: it names a place in a list of functions, not the function."""
    return "callback" in text


def context() -> Hashable:
    """Return what a program depends on besides its arguments: flags of JAX, the mesh, and the engine."""
    flags = tuple(getattr(jax.config, name, None) for name in jax.config.values)
    return flags, jax.sharding.get_abstract_mesh(), is_plain_jax()


class NestedPrograms:
    """The programs of a function that is called within another program, traced once for equal arguments."""

    def __init__(self, function: Callable[..., Any]):
        self._function = function
        self._programs: RecentValues[tuple[Callable[..., Any], list[Any]]] = RecentValues(MOST_PROGRAMS)

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call the function, compiled as a part of the other program."""
        leaves, structure = jax.tree.flatten((args, dict(kwargs)))
        kinds = tuple(jax.typeof(leaf) if eqx.is_array(leaf) else (type(leaf), leaf) for leaf in leaves)

        def traced() -> tuple[Callable[..., Any], list[Any]]:
            array_function, results = _array_function(self._function, leaves, structure)
            return jax.jit(array_function), results

        try:
            hash(key := (structure, kinds, context(), static_numbers(leaves, structure)))
            jitted, results = self._programs.get_or_make(key, traced)
        except TypeError:  # something that is no array has no hash
            jitted, results = traced()
        out = jitted(*_arrays(leaves, len(leaves)))
        returned_structure, static = results[-1]
        return eqx.combine(jax.tree.unflatten(returned_structure, out), static)


def _array_function(
    function: Callable[..., Any], leaves: Sequence[Any], structure: Any
) -> tuple[Callable[..., list[Array]], list[tuple[Any, PyTree]]]:
    """Return a new function of the arrays among its arguments; when it is dropped, JAX drops its trace."""
    static = [None if eqx.is_array(leaf) else leaf for leaf in leaves]
    results: list[tuple[Any, PyTree]] = []

    def array_function(leading_arrays: Sequence[Any], trailing_arrays: Sequence[Any]) -> list[Array]:
        arrays = (*leading_arrays, *trailing_arrays)
        merged = [fixed if array is None else array for fixed, array in zip(static, arrays, strict=True)]
        args, kwargs = jax.tree.unflatten(structure, merged)
        returned, static_results = eqx.partition(function(*args, **kwargs), eqx.is_array)
        leaves, returned_structure = jax.tree.flatten(returned)
        results[:] = [(returned_structure, static_results)]
        return leaves

    array_function.__name__ = array_function.__qualname__ = function.__name__
    return array_function, results
