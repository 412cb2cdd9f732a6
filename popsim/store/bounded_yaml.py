"""YAML files from an untrusted source, limited in size before anything is constructed.

All values but null stay text: what they are is for the reader to say, so that `no` and `20:40` are not what
some versions of YAML take them for.
"""

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from popsim._text_checks import one_line

__all__ = ["QuotedText", "quote_texts", "read_yaml", "yaml_text"]

LARGEST_BYTES = 2**17
MOST_NODES = 12_000  # values, lists and mappings, with what aliases repeat
DEEPEST = 20
TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "null", "merge", "seq", "map")}


class QuotedText(str):
    """Text that stands in quotes in the file: it is text, and not a number or None."""


def read_yaml(path: Path) -> Any:
    """Read a YAML file: dicts with text as keys, lists, None, and for all else text.

    Nothing is made of it before its size, its depth and the number of its values are bounded, where each
    alias counts as all that it repeats.

    **Raises:** `ValueError` naming what it must be: a file, not too large, YAML in UTF-8 without tags,
    in which each key stands once. `OSError` if it cannot be read.
    """
    import yaml

    if path.exists() and not path.is_file():
        raise ValueError("it must be a file")
    with path.open("rb") as file:
        content = file.read(LARGEST_BYTES + 1)
    if len(content) > LARGEST_BYTES:
        raise ValueError(f"it must have at most {LARGEST_BYTES} bytes")
    try:
        loader = _loader()(content.decode("utf-8-sig"))
        node = loader.get_single_node()
        if node is None:
            return None
        _check_expanded(node)
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        raise ValueError(one_line(error)[:300]) from None


@functools.cache
def _loader() -> Any:
    """Return the class of loaders; made when it is first needed, as yaml is."""
    import yaml

    class TextLoader(yaml.SafeLoader):
        """A loader that counts what it composes, and leaves all values but null as text."""

        yaml_implicit_resolvers = {
            first: [(tag, form) for tag, form in resolvers if tag in TAGS]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }
        n_nodes = 0
        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.n_nodes += 1
            if self.n_nodes > MOST_NODES:
                raise ValueError(f"it must have at most {MOST_NODES} values")
            if self.depth >= DEEPEST:
                raise ValueError(f"it must be nested at most {DEEPEST} deep")
            self.depth += 1
            node: Any = super().compose_node(parent, index)
            self.depth -= 1
            if node.tag not in TAGS:
                raise ValueError(f"it must have no tags, got {node.tag:.100} in line {_line(node)}")
            return node

        def compose_mapping_node(self, anchor: Any) -> Any:
            node = super().compose_mapping_node(anchor)
            names: set[str] = set()
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:null":
                    raise ValueError(f"it must have text as keys, which line {_line(key)} has not")
                if key.value in names:
                    raise ValueError(
                        f"it must have each key once, got {key.value!r:.100} again in line {_line(key)}"
                    )
                names.add(key.value)
            return node

    TextLoader.add_constructor("tag:yaml.org,2002:str", _construct_text)
    return TextLoader


def _line(node: Any) -> int:
    return node.start_mark.line + 1


def _construct_text(loader: Any, node: Any) -> str:
    text = loader.construct_scalar(node)
    return text if node.style is None else QuotedText(text)


def _check_expanded(root: Any) -> None:
    """Raise `ValueError` if the tree below a node is too large once its aliases are repeated, or endless."""
    sizes: dict[int, int] = {}
    within: set[int] = set()

    def size(node: Any) -> int:
        if isinstance(node.value, str):
            return 1
        if id(node) not in sizes:
            if id(node) in within:
                raise ValueError("it must not contain itself")
            within.add(id(node))
            parts = [part for each in node.value for part in (each if isinstance(each, tuple) else (each,))]
            sizes[id(node)] = 1 + sum(map(size, parts))
        return sizes[id(node)]

    if size(root) > MOST_NODES:
        raise ValueError(f"it must have at most {MOST_NODES} values, with what its aliases repeat")


def yaml_text(content: Mapping[str, Any]) -> str:
    """Return plain values by name as YAML that `read_yaml` reads; `QuotedText` stands in quotes."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

        def represent_sequence(self, tag: str, sequence: Any, flow_style: Any = None) -> Any:
            return super().represent_sequence(tag, sequence, flow_style=True)

    def represent_quoted(dumper: Any, text: QuotedText) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')

    Dumper.add_representer(QuotedText, represent_quoted)
    if (count := _n_values(content)) > MOST_NODES:
        raise ValueError(f"settings must be at most {MOST_NODES} values, got {count}.")
    text = yaml.dump(content, Dumper=Dumper, sort_keys=False, default_flow_style=False, allow_unicode=True)
    if (n_bytes := len(text.encode())) > LARGEST_BYTES:
        raise ValueError(f"settings must take at most {LARGEST_BYTES} bytes as YAML, got {n_bytes}.")
    return text


def _n_values(value: Any) -> int:
    if isinstance(value, Mapping):
        return 1 + len(value) + sum(map(_n_values, value.values()))
    return 1 + sum(map(_n_values, value)) if isinstance(value, list | tuple) else 1


def quote_texts(value: Any) -> Any:
    """Return a plain value with its texts as `QuotedText`, but for keys that are simple names."""
    if isinstance(value, str):
        return QuotedText(value)
    if isinstance(value, Mapping):
        is_simple = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE | re.ASCII).fullmatch
        return {
            name if is_simple(name) else QuotedText(name): quote_texts(each) for name, each in value.items()
        }
    return list(map(quote_texts, value)) if isinstance(value, list | tuple) else value
