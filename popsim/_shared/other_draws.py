"""Random numbers of NumPy and Python, which are refused while a function that has a key is traced.

What they draw becomes a constant of the traced program. A generator of a seed draws alike at each trace, so
the calls are found, not what they return: the functions and classes of `numpy.random`, and the functions of
`random`, are replaced by ones that raise in the thread that traces. Methods of generators cannot be replaced:
the states of those that a function holds, and of the global one of NumPy, are compared.
"""

import contextlib
import functools
import itertools
import pickle
import random
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from popsim._shared.checks import explain_errors
from popsim._shared.user_code import Place, held_values, is_installed

GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)
GLOBAL = np.random.get_state.__self__  # pyright: ignore[reportFunctionMemberAccess]
# The classes of `random` are pickled by name, and draw names of temporary files.
NOT_REPLACED = {"get_state", "getstate", "BitGenerator", "Random", "SystemRandom"}


class _Watched(NamedTuple):
    """What a function that is traced must do, and how."""

    must: str
    hint: str
    takes_seeds: bool = False

    def refuse(self, drawn: str) -> None:
        raise ValueError(f"{self.must}, got {drawn}: {self.hint}")


_THREAD = threading.local()
_DRAWS_OF_OTHERS = itertools.count()
_LOCK = threading.Lock()
_TRACED: list[_Watched] = []
"""What all threads trace."""
_ORIGINALS: dict[tuple[int, str], tuple[Place, Any]] = {}
"""What is replaced until no thread traces any more, with its place."""


def _watched_here() -> list[_Watched]:
    """Return what this thread traces, the innermost function last."""
    return _THREAD.__dict__.setdefault("watched", [])


def refuse_other_draws(name: str, *functions: Any) -> contextlib.AbstractContextManager[None]:
    """Raise `ValueError` if a function that is traced in the context draws from NumPy or Python."""
    hint = (
        "while it is traced, this becomes a constant, the same for all trials, batches and members. What "
        "shall be the same is drawn before, outside of it."
    )
    return _watch(_Watched(f"{name} must draw from a `key` alone, by jax.random", hint), functions)


@contextlib.contextmanager
def guard_tracing(name: str, arguments: str, *functions: Any) -> Iterator[None]:
    """Do what `explain_errors` and `refuse_other_draws` do, for the same function of the user."""
    with explain_errors(name, arguments), refuse_other_draws(name, *functions):
        yield


def refuse_unseeded_draws(name: str, *functions: Any) -> contextlib.AbstractContextManager[None]:
    """Raise `ValueError` if a function that must return the same at every call draws without a seed."""
    hint = "draw from a fixed key, or from a generator made of a seed there, numpy.random.default_rng(0)."
    return _watch(_Watched(f"{name} must return the same at every call", hint, takes_seeds=True), functions)


@contextlib.contextmanager
def _watch(watched: _Watched, functions: Sequence[Any]) -> Iterator[None]:
    places, refusals = _refusals()
    places, generators, jitted = [*places], [], []
    for name, value, place in held_values(functions):
        if hasattr(value, "clear_cache") and not isinstance(value, type):
            jitted.append(value)
        if isinstance(value, GENERATORS):
            if value is not GLOBAL and not isinstance(value, random.SystemRandom):  # which has no state
                generators.append((name, value, pickle.dumps(value)))
        elif place is not None and id(value) in refusals:
            places.append(place)
        elif id(value) in refusals and not isinstance(value, type):
            watched.refuse(f"`{name}`, which is {refusals[id(value)][0]}")
    state_before, draws_of_others = pickle.dumps(GLOBAL), repr(_DRAWS_OF_OTHERS)
    with _replace_at(places, watched):
        yield
    for name, generator, state in generators:
        if pickle.dumps(generator) != state:
            for function in jitted:  # which have the constant now, and would draw nothing at another try
                function.clear_cache()
            watched.refuse(f"draws from `{name}`, a {type(generator).__name__}")
    # In another thread, the main one may draw meanwhile.
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and pickle.dumps(GLOBAL) != state_before and repr(_DRAWS_OF_OTHERS) == draws_of_others:
        watched.refuse("draws from the global generator of numpy.random, by another package")


@contextlib.contextmanager
def _replace_at(places: Sequence[Place], watched: _Watched) -> Iterator[None]:
    """Replace functions that draw in some places, for what this thread traces in the context."""
    _, refusals = _refusals()
    with _LOCK:
        _TRACED.append(watched)
        for place in places:
            key, original = (id(place.holder), place.name), place.get()
            if key not in _ORIGINALS and id(original) in refusals:
                _ORIGINALS[key] = place, original
                place.put(refusals[id(original)][1])
    _watched_here().append(watched)
    try:
        yield
    finally:
        _watched_here().pop()
        with _LOCK:
            _TRACED.remove(watched)
            if not _TRACED:
                for place, original in _ORIGINALS.values():
                    place.put(original)
                _ORIGINALS.clear()


@functools.cache
def _refusals() -> tuple[list[Place], dict[int, tuple[str, Any]]]:
    """Return where NumPy and Python have what draws; and the name and replacement of each, by its id."""
    places, refusals = [], {}
    for module in (np.random, random):
        for name in [name for name in module.__all__ if name not in NOT_REPLACED]:
            place = Place(vars(module), name)
            original, full_name = place.get(), f"{module.__name__}.{name}"
            refused = full_name, _refusal(full_name, original)
            refusals[id(original)] = refusals[id(refused[1])] = refused
            places.append(place)
    return places, refusals


def _refusal(name: str, original: Any) -> Any:
    """Return a function or class that raises `ValueError` where what this thread traces calls it."""
    makes_generator = isinstance(original, type) or name == "numpy.random.default_rng"

    @functools.wraps(original, updated=())
    def draw(*args: Any, **kwargs: Any) -> Any:
        has_seed = makes_generator and any(value is not None for value in (*args, *kwargs.values()))
        if not (watched := _watched_here()):
            next(_DRAWS_OF_OTHERS)
        elif not (has_seed and watched[-1].takes_seeds):
            watched[-1].refuse(f"{name}{_line_of_user(sys._getframe(1))}")
        return original(*args, **kwargs)

    if not isinstance(original, type):
        return draw
    return _Replacement(original.__name__, (original,), {"__module__": original.__module__, "_draw": draw})


class _Replacement(type):
    """The metaclass of replaced classes, of which the instances of the original are instances."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.__dict__["_draw"](*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.__mro__[1])


def _line_of_user(frame: FrameType | None) -> str:
    """Return the user's line that draws, directly or by a package; empty if there is none."""
    while frame is not None and is_installed(frame.f_globals.get("__name__")):
        frame = frame.f_back
    return "" if frame is None else f" in line {frame.f_lineno} of {frame.f_code.co_filename}"
