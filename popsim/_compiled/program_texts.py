"""The text of a program, which tells what it computes, the same in every process."""

import contextlib
import hashlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from popsim._compiled._programs import MOST_PROGRAMS, RecentValues, calls_python, context, static_numbers

__all__ = ["ProgramText", "program_text", "weighted_sums"]

_TEXTS: RecentValues["ProgramText"] = RecentValues(MOST_PROGRAMS)
PLATFORM = "cpu"  # whatever the program is to run on
N_SUMS = 3


class ProgramText(NamedTuple):
    """What a program computes.

    - `digest`: the SHA-256 of its operations, without names and without `numbers`; empty if no text can be
        made on this machine.
    - `numbers`: for each floating-point constant its numbers or, of a large one, the norm and sums with fixed
        random weights. Those that were computed may differ between machines in the last digits.
    - `calls_python`: whether it calls back into Python functions, of which a text knows nothing.
    """

    digest: str
    numbers: list[list[float]]
    calls_python: bool


def program_text(function: Callable[..., Any], *arguments: Any, anew: bool = False) -> ProgramText:
    """Return the text of a function as XLA gets it, lowered for one platform on every machine.

    It depends on all that the function reads but the numbers in its array arguments. The last texts are kept
    by a key such as that of `Programs`, which does not see that a global has changed; `anew` does.
    """
    leaves, structure = jax.tree.flatten(arguments)
    leaves = [_shape(leaf) if _is_array(leaf) else leaf for leaf in leaves]
    kinds = tuple((type(leaf), leaf) for leaf in leaves)
    key = (function, structure, kinds, static_numbers(leaves, structure), context())
    arguments = jax.tree.unflatten(structure, leaves)
    try:
        hash(key)
    except TypeError:
        anew = True
    if anew:
        return _make_text(function, arguments)
    return _TEXTS.get_or_make(key, lambda: _make_text(function, arguments))


def _make_text(function: Callable[..., Any], arguments: tuple[Any, ...]) -> ProgramText:
    shapes, static = eqx.partition(arguments, _is_array)

    def leaves_of_result(arrays: Any) -> list[Any]:
        result = function(*eqx.combine(arrays, static))
        return jax.tree.leaves(eqx.filter(result, eqx.is_array))

    traced = jax.jit(leaves_of_result, keep_unused=True).trace(shapes)
    try:
        lowered = traced.lower(lowering_platforms=(PLATFORM,))
    except Exception:  # a kernel for GPUs alone, of Pallas or a library
        with contextlib.suppress(Exception):
            return _read_text(traced.lower().as_text())
        return ProgramText("", [], calls_python=False)
    return _read_text(lowered.as_text())


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


def _shape(leaf: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=bool(getattr(leaf, "weak_type", False)))


def _read_text(text: str) -> ProgramText:
    names: dict[str, str] = {}
    for name in re.findall(r"func\.func \w+ (@[\w.$]+|@\"[^\"]*\")", text):
        names.setdefault(name, f"@{len(names)}")  # of JAX's or a user's functions, which may be renamed
    pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    text = re.sub(rf"(?:{pattern})(?![\w.$])", lambda match: names[match[0]], text)
    numbers: list[list[float]] = []

    def take(match: re.Match[str]) -> str:
        constant = _numbers_of(match[1], match[3])
        if constant is None:
            return match[0]
        numbers.append(constant)
        return f"dense<numbers> : tensor<{match[2]}f{match[3]}>"

    without_numbers = re.sub(r"dense<([^>]*)> : tensor<((?:\d+x)*)f(32|64)>", take, text)
    return ProgramText(hashlib.sha256(without_numbers.encode()).hexdigest(), numbers, calls_python(text))


def _numbers_of(content: str, bits: str) -> list[float] | None:
    """Return the numbers of a constant, or sums of many; None for what is written in another way, as NaN."""
    if content.startswith('"0x'):
        values = np.frombuffer(bytes.fromhex(content[3:-1]), f"<f{int(bits) // 8}")
        return weighted_sums(values.astype(np.float64)) if np.isfinite(values).all() else None
    try:
        return [float(number) for number in re.sub(r"[\[\]\s]", "", content).split(",")]
    except ValueError:
        return None


def weighted_sums(numbers: np.ndarray) -> list[float]:
    """Return the norm of numbers, and their sums with fixed random weights, by which arrays are compared.

    Weights that are all different see two entries that were swapped, as random signs often do not.
    """
    random = np.random.RandomState(0)
    with np.errstate(all="ignore"):
        sums = [np.sum(random.standard_normal(numbers.size) * numbers) for _ in range(N_SUMS)]
        return [float(np.linalg.norm(numbers)), *(float(np.real(value)) for value in sums)]
