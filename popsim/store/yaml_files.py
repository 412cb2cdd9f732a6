"""YAML files of plain values, of which all but null is read as text.

What a text is, is for the reader to say: `no` and `20:40` are not what some versions of YAML take them for.
"""

from pathlib import Path
from typing import Any

import yaml

from popsim._shared.text_checks import one_line

__all__ = ["read_yaml"]

LARGEST_BYTES = 2**17
NULLS = ("null", "Null", "NULL", "~", "", "None")


class _TextLoader(yaml.BaseLoader):
    """A loader of texts and None that refuses a key that is given twice, or is no text."""

    def construct_scalar(self, node: Any) -> Any:
        is_null = node.style is None and node.value in NULLS
        return None if is_null else super().construct_scalar(node)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        mapping = super().construct_mapping(node, deep=deep)
        names: set[str] = set()
        for key, _ in node.value:
            if key.value in names:
                line = key.start_mark.line + 1
                raise ValueError(f"it must have each key once, got {key.value!r:.100} again in line {line}")
            names.add(key.value)
        if not all(isinstance(key, str) for key in mapping):
            raise ValueError(f"it must have text as keys, got {list(mapping)!r:.100}")
        return mapping


def read_yaml(path: Path) -> Any:
    """Read a YAML file: dicts and lists, None for null and None without quotes, and for all else text."""
    if path.stat().st_size > LARGEST_BYTES:
        raise ValueError(f"it must have at most {LARGEST_BYTES} bytes")
    try:
        return yaml.load(path.read_bytes().decode("utf-8-sig"), _TextLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(one_line(error)[:300]) from None
