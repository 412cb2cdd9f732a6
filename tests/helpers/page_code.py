"""The code of documents, run as users run it."""

import importlib.util
import re
from typing import Any

import jax
from repository import ROOT


def code_blocks(page: str) -> list[str]:
    """The blocks of Python of a page, by its path from the root."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def run_code(code: str, name: str, scope: dict[str, Any] | None = None) -> dict[str, Any]:
    """What code leaves behind, with the promotion of types that users have."""
    scope = {} if scope is None else scope
    with jax.numpy_dtype_promotion("standard"):
        exec(compile(code, name, "exec"), scope)
    return scope


def load_script(path: str) -> Any:
    """The module of a script, by its path from the root."""
    spec = importlib.util.spec_from_file_location(path.replace("/", "_").removesuffix(".py"), ROOT / path)
    assert spec and spec.loader
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    return module
