"""The public names of popsim, and the page of the reference on which each stands."""

import dataclasses
import functools
import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import Any

ROOT = "popsim"


@dataclasses.dataclass(frozen=True)
class PublicName:
    """A public name: the path by which Griffe reads it, and the object."""

    name: str
    path: str
    value: Any

    @property
    def summary(self) -> str:
        """The first line of the docstring; empty for a constant."""
        documented = inspect.isroutine(self.value) or inspect.isclass(self.value)
        return (inspect.getdoc(self.value) or "").partition("\n")[0] if documented else ""


@dataclasses.dataclass
class Page:
    """The page of a public module: the names that stand on it, and those that it exports from other pages."""

    module: ModuleType
    names: list[PublicName] = dataclasses.field(default_factory=list)
    names_elsewhere: list[PublicName] = dataclasses.field(default_factory=list)

    @property
    def path(self) -> str:
        """The path of the module."""
        return self.module.__name__

    @property
    def file(self) -> str:
        """The page in the sources of the site."""
        return f"reference/{self.path}.md"

    @property
    def summary(self) -> str:
        """The first line of the docstring of the module."""
        return (inspect.getdoc(self.module) or "").partition("\n")[0]


@functools.cache
def reference_pages() -> list[Page]:
    """Return the pages of all public modules, sorted by path.

    A name that several of them export stands on the page of the innermost one.
    """
    pages = {path: Page(importlib.import_module(path)) for path in sorted(_public_modules())}
    exported = {path: _exported_names(page.module) for path, page in pages.items()}
    exported[ROOT] += _names_beside(pages, {_identity(name) for names in exported.values() for name in names})
    homes: dict[tuple[str, int], PublicName] = {}
    for path in sorted(exported, key=lambda path: -path.count(".")):
        for name in exported[path]:
            home = homes.setdefault(_identity(name), name)
            page = pages[path]
            (page.names if home is name else page.names_elsewhere).append(home)
    return list(pages.values())


def _public_modules() -> set[str]:
    """Return the packages that list public names, and the modules that are among these."""
    paths, waiting = set(), [ROOT]
    while waiting:
        module = importlib.import_module(waiting.pop())
        if module.__name__ in paths:
            continue
        if hasattr(module, "__all__"):
            paths.add(module.__name__)
            values = (getattr(module, name) for name in module.__all__)
            waiting += [value.__name__ for value in values if inspect.ismodule(value)]
        waiting += [info.name for info in _submodules(module) if info.ispkg]
    return paths


def _submodules(module: ModuleType) -> list[pkgutil.ModuleInfo]:
    """Return the public modules inside a package, without importing them."""
    inside = pkgutil.iter_modules(getattr(module, "__path__", []), f"{module.__name__}.")
    return [info for info in inside if not info.name.rpartition(".")[2].startswith("_")]


def _exported_names(module: ModuleType) -> list[PublicName]:
    values = {name: getattr(module, name) for name in module.__all__}
    return [
        PublicName(name, _read_path(module, name, value), value)
        for name, value in values.items()
        if not inspect.ismodule(value)
    ]


def _read_path(module: ModuleType, name: str, value: Any) -> str:
    """Return the path of a name, or where it is defined if the path is that of a module as well."""
    path = f"{module.__name__}.{name}"
    hidden = any(info.name == path for info in _submodules(module))
    return f"{value.__module__}.{name}" if hidden else path


def _names_beside(pages: dict[str, Page], known: set[tuple[str, int]]) -> list[PublicName]:
    """Return what modules of the core list and no page has: mostly types of arguments and results."""
    modules = _submodules(importlib.import_module(ROOT))
    without_page = [importlib.import_module(info.name) for info in modules if info.name not in pages]
    for module in [module for module in without_page if not hasattr(module, "__all__")]:
        without_page += [importlib.import_module(info.name) for info in _submodules(module)]
    names = [
        name for module in without_page if hasattr(module, "__all__") for name in _exported_names(module)
    ]
    return [name for name in names if _identity(name) not in known]


def _identity(name: PublicName) -> tuple[str, int]:
    return name.name, id(name.value)
