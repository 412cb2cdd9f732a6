"""What a notebook shows of a model, or of an ensemble."""

import dataclasses
import inspect
from typing import Any

import equinox as eqx
import jax
import numpy as np

from popsim._html import Html, folded, plain_table, prose, shown_object
from popsim._text_checks import one_line, shorten
from popsim.ensemble import n_members
from popsim.parameters import is_parameter

MOST_LETTERS = 80
MOST_NUMBERS = 4


def model_html(model: eqx.Module) -> Html:
    """Describe the parts of a model, and its arrays, each of one member.

    A model is an ensemble where every array has a first axis of the same length: no model in itself says
    whether it is one.
    """
    try:
        count = n_members(model)
    except ValueError:
        count = None
    learned, constant = _arrays(model, is_stacked=count is not None)
    total = sum(row[-1] for row in learned)
    each = "" if count is None else " in each"
    title = f"Ensemble of {count} {type(model).__name__}" if count else type(model).__name__
    summary = f"{total:,} parameters{each}, which a training may select"
    rows = [(name, shape, f"{size:,}") for name, shape, size in learned]
    parts = [plain_table([(name, prose(text)) for name, text in _parts(model)], head=("part", "is"))]
    if rows:
        parts.append(folded("parameters", plain_table(rows, head=("array", "shape", "numbers"))))
    if constant:
        parts.append(folded("constants", plain_table(constant, head=("array", "shape", "value"))))
    return shown_object(title, summary, *parts)


def _parts(model: eqx.Module) -> list[tuple[str, str]]:
    """Return what each field of a model is: a class and its first line, or a plain value."""
    rows = []
    for field in dataclasses.fields(model):
        value = getattr(model, field.name)
        if isinstance(value, dict):
            texts = [f"{name}: {_kind(part)}" for name, part in value.items()]
        elif isinstance(value, tuple | list):
            texts = [_kind(part) for part in value]
        else:
            texts = [_kind(value)]
        rows.append((field.name, ", ".join(texts) or "none"))
    return rows


def _kind(value: Any) -> str:
    """Return what a part is: a module by its class, sizes and first line, an array by its shape."""
    if eqx.is_array(value):
        return " × ".join(map(str, value.shape)) or "one number"
    if not isinstance(value, eqx.Module):
        return shorten(one_line(repr(value)), MOST_LETTERS)
    line = (inspect.getdoc(type(value)) or "").partition("\n")[0].strip()
    is_generated = line.startswith(f"{type(value).__name__}(")
    sizes = []
    for name, unit in (("n_inputs", "inputs"), ("n_outputs", "outputs"), ("n_commands", "commands")):
        if isinstance(number := getattr(value, name, None), int):
            sizes.append(f"{number} {unit}")
    if isinstance(delay := getattr(value, "delay", None), float):
        sizes.append(f"delay {delay:g} s")
    return ", ".join([type(value).__name__, *sizes]) + (f" ({line})" if line and not is_generated else "")


def _arrays(model: eqx.Module, *, is_stacked: bool) -> tuple[list[tuple[str, str, int]], list[Any]]:
    """Return the name, shape and size of each parameter, and the name, shape and value of each constant.

    Shapes are those of one member.
    """
    learned, constant = [], []
    flags = jax.tree.leaves(is_parameter(model))
    for (path, leaf), is_learned in zip(jax.tree.leaves_with_path(model), flags, strict=True):
        if not eqx.is_array(leaf):
            continue
        name = jax.tree_util.keystr(path).lstrip(".")
        shape = leaf.shape[1:] if is_stacked else leaf.shape
        text = " × ".join(map(str, shape)) or "one number"
        if is_learned:
            learned.append((name, text, int(np.prod(shape))))
        else:
            constant.append((name, text, _value(leaf, is_stacked)))
    return learned, constant


def _value(leaf: Any, is_stacked: bool) -> str:
    """Return the few numbers of a constant, or its range; for an ensemble over all members."""
    if not jax.numpy.issubdtype(leaf.dtype, jax.numpy.number):
        return str(leaf.dtype)
    numbers = np.asarray(leaf)
    if not numbers.size:
        return "none"
    of_member = numbers[0] if is_stacked else numbers
    if of_member.size <= MOST_NUMBERS and np.all(numbers == of_member):
        return ", ".join(f"{number:.4g}" for number in of_member.ravel())
    return f"{numbers.min():.4g} to {numbers.max():.4g}"
