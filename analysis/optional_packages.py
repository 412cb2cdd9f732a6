"""Packages that some analyses need and popsim does not."""

import importlib
from types import ModuleType


def optional(name: str, extra: str = "analysis") -> ModuleType:
    """The module of this name, such as `sklearn.cluster`.

    **Arguments:**

    - `name`: of the module.
    - `extra`: the extra of popsim that brings its package.

    **Raises:** `ImportError` that says how to install it, if its package is missing.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise ImportError(f'`{package}` is not installed: pip install "popsim[{extra}]".') from error
