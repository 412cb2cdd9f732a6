"""The functions in the user's modules, by the syntax of their source."""

import ast
import functools
import hashlib
import inspect
import linecache
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

OTHER_STATEMENTS = "its other statements"  # of a module, besides what it defines
PLAIN = (type(None), bool, int, float, complex, str, bytes)


class Definition(NamedTuple):
    """What a statement of a module, or a method of a class, defines."""

    digest: str
    names: frozenset[str]


def is_installed(module: str | None) -> bool:
    """Return whether a module belongs to Python, a package or popsim, rather than to the user."""
    module = module or ""
    package = module.partition(".")[0]
    if package == "__main__":
        return False
    if package in {*sys.stdlib_module_names, "popsim"}:
        return True
    # By its top level: a package may have objects of its own, with any `__file__`, in place of modules.
    top = sys.modules.get(package)
    file = getattr(top, "__file__", None) or next(iter(getattr(top, "__path__", None) or ()), None)
    if file is None:  # that of a compiled package, if it is loaded at all
        return top is not None
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def users_modules(names: Iterable[str] | None = None) -> list[str]:
    """Return the names of the user's modules that some modules import, themselves included."""
    if names is None:
        return sorted(filter(_is_users, [*sys.modules]))
    found: set[str] = set()
    waiting = {*filter(_is_users, names)}
    while waiting:
        name = waiting.pop()
        found.add(name)
        for value in [*vars(sys.modules[name]).values()]:
            is_module = isinstance(value, types.ModuleType)
            other = value.__name__ if is_module else getattr(value, "__module__", None)
            if isinstance(other, str) and _is_users(other):
                waiting |= {other} - found
    return sorted(found)


def _is_users(name: str) -> bool:
    # Modules that are blocked are None.
    return type(sys.modules.get(name)) is types.ModuleType and not is_installed(name)


def definitions(modules: Iterable[str]) -> dict[str, Definition]:
    """Return what the user's modules define, by names such as "Reach.trial".

    Modules have no part in the names: a script is the module `__main__`, and another where it is imported.
    One without a file, such as a notebook, counts by those of its functions and classes that have a source.
    """
    found: dict[str, Definition] = {}
    for module in modules:
        loaded = sys.modules[module]
        # What is loaded again has another specification; a file may have been edited since.
        of_module = _definitions_of_file(module, id(loaded.__spec__)) or _definitions_without_file(loaded)
        for name, definition in of_module.items():
            found[name] = definition if name not in found else _joined(found[name], definition)
    return found


def _joined(one: Definition, other: Definition) -> Definition:
    """Return what two modules define by one name."""
    return Definition(_digest(one.digest + other.digest), one.names | other.names)


@functools.lru_cache(maxsize=256)
def _definitions_of_file(module: str, specification: int) -> dict[str, Definition]:
    loaded = sys.modules[module]
    file = getattr(loaded, "__file__", None)
    return {} if file is None else dict(_define(_parse("".join(linecache.getlines(file, vars(loaded))))))


def _definitions_without_file(module: types.ModuleType) -> dict[str, Definition]:
    """Return the functions, and the methods and values of classes, of a module that is typed."""
    found: dict[str, Definition] = {}
    for value in [*vars(module).values()]:
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(value):  # whose source is not known, unlike that of its methods
            named = [item for item in vars(value).items() if not item[0].startswith("__")]
            values = {name: part for name, part in named if isinstance(part, PLAIN)}
            found[value.__qualname__] = Definition(_digest(repr(sorted(values.items()))), frozenset())
            parts = [*vars(value).values()]
        else:
            parts = [value]
        for part in parts:
            function = inspect.unwrap(getattr(part, "fget", part))
            if inspect.isfunction(function):
                nodes = _parse(_source(function))
                found |= {function.__qualname__: _definition(nodes)} if nodes else {}
    return found


def _source(function: types.FunctionType) -> str:
    try:
        return inspect.cleandoc("\n" + inspect.getsource(function))
    except (OSError, TypeError):
        return ""


def _parse(source: str) -> list[ast.stmt]:
    try:
        return ast.parse(source).body
    except (SyntaxError, ValueError):  # of a lambda in a call over several lines, or of a file that is edited
        return []


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _define(body: list[ast.stmt], within: str = "") -> Iterator[tuple[str, Definition]]:
    """Yield name and definition of functions, methods, classes and variables."""
    others: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield within + node.name, _definition([node])
        elif isinstance(node, ast.ClassDef):
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            yield from _define([*methods], f"{within}{node.name}.")
            node.body = [part for part in node.body if part not in methods] or [ast.Pass()]
            yield within + node.name, _definition([node])
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and _is_stored(part)}
            for name in sorted(names):
                yield within + name, _definition([node])
        elif not isinstance(node, ast.Import | ast.ImportFrom):
            others.append(node)
    if others and not within:
        yield OTHER_STATEMENTS, _definition(others)


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _definition(nodes: list[ast.stmt]) -> Definition:
    names: set[str] = set()
    texts = []
    for node in nodes:
        parts = [*ast.walk(node)]
        names |= {part.id for part in parts if isinstance(part, ast.Name)}
        names |= {part.attr for part in parts if isinstance(part, ast.Attribute)}
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            _rename_local_variables(node)
        for part in parts:
            if isinstance(part, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) and (
                ast.get_docstring(part, clean=False) is not None
            ):
                part.body = part.body[1:] or [ast.Pass()]
        texts.append(ast.unparse(node))
    return Definition(_digest("\n".join(texts)), frozenset(names))


def _rename_local_variables(function: ast.AST) -> None:
    """Give the variables of a function names by the order in which they appear."""
    parts = [*ast.walk(function)]
    kept = {name for part in parts if isinstance(part, ast.Global) for name in part.names}
    local: dict[str, str] = {}
    for part in parts:
        name = part.arg if isinstance(part, ast.arg) else None
        if isinstance(part, ast.Name) and _is_stored(part):
            name = part.id
        if name is not None and name not in kept:
            local.setdefault(name, f"variable_{len(local)}")
    for part in parts:
        if isinstance(part, ast.arg):
            part.arg = local.get(part.arg, part.arg)
        elif isinstance(part, ast.Name):
            part.id = local.get(part.id, part.id)
        elif isinstance(part, ast.Nonlocal):
            part.names = [local.get(name, name) for name in part.names]


def digests_of(definitions: Mapping[str, Definition]) -> dict[str, str]:
    """Return the digests of definitions by name."""
    return {name: each.digest for name, each in definitions.items()}


def reachable(starts: Iterable[str], known: Mapping[str, Definition]) -> dict[str, str]:
    """Return the digests of some definitions, and of all whose names stand in these, by name."""
    by_last_name: dict[str, list[str]] = {}
    for name in known:
        by_last_name.setdefault(name.rpartition(".")[2], []).append(name)
    starts = tuple(starts)
    waiting = {
        name for name in known if any(name == start or name.startswith(f"{start}.") for start in starts)
    }
    found: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        found[name] = known[name].digest
        named = {other for part in known[name].names for other in by_last_name.get(part, ())}
        # Of a class that is named all methods count.
        named |= {method for other in named for method in known if method.startswith(f"{other}.")}
        waiting |= named - found.keys()
    return dict(sorted(found.items()))


def code_digest(code: Mapping[str, str]) -> str:
    """Return a digest of definitions by name; empty for none, as where nothing is the user's."""
    texts = [f"{name} {digest}\n" for name, digest in sorted(code.items())]
    return _digest("".join(texts)) if texts else ""


def different_names(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names whose digests differ, and those that only one of both has."""
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
