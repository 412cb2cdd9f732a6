"""Copies of Equinox modules with other fields."""

import dataclasses
from typing import Any, TypeVar

import equinox as eqx

ModuleType = TypeVar("ModuleType", bound=eqx.Module)


def replace_fields(module: ModuleType, **changes: Any) -> ModuleType:
    """Return a module with other values of some fields, static ones too, whatever its `__init__` takes."""
    copy = object.__new__(type(module))
    for field in dataclasses.fields(module):
        object.__setattr__(copy, field.name, changes.get(field.name, getattr(module, field.name)))
    return copy
