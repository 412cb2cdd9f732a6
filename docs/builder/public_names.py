"""The public names of popsim, and the page of the reference on which each stands."""

import dataclasses
import functools
import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import Any

ROOT = "popsim"


def first_paragraph(definition: Any) -> str:
    """Return the first paragraph of a docstring, which is mostly a line."""
    return " ".join((inspect.getdoc(definition) or "").partition("\n\n")[0].split())


@dataclasses.dataclass(frozen=True)
class PublicName:
    """A public name: the path by which Griffe reads it, and the object."""

    name: str
    path: str
    value: Any

    @property
    def summary(self) -> str:
        """The first paragraph of the docstring; empty for a constant."""
        return (
            first_paragraph(self.value)
            if inspect.isroutine(self.value) or inspect.isclass(self.value)
            else ""
        )


@dataclasses.dataclass
class Page:
    """The page of a public module: the names that stand on it, and those that it exports from other pages.

    - `file`: the page in the sources of the site; the pages of modules inside a package are in its folder.
    """

    module: ModuleType
    file: str
    names: list[PublicName] = dataclasses.field(default_factory=list)
    names_elsewhere: list[PublicName] = dataclasses.field(default_factory=list)

    @property
    def path(self) -> str:
        """The path of the module."""
        return self.module.__name__

    @property
    def summary(self) -> str:
        """The first paragraph of the docstring of the module."""
        return first_paragraph(self.module)


@functools.cache
def reference_pages() -> list[Page]:
    """Return the pages of all public modules, sorted by path.

    A name that several of them export stands on the page of the innermost one.
    """
    paths = sorted(_public_modules())
    pages = {path: Page(importlib.import_module(path), _page_file(path, paths)) for path in paths}
    exported = {path: _exported_names(page.module) for path, page in pages.items()}
    exported[ROOT] += _names_beside(pages, {_identity(name) for names in exported.values() for name in names})
    homes: dict[tuple[str, int], PublicName] = {}
    for path in sorted(exported, key=lambda path: -path.count(".")):
        for name in exported[path]:
            home = homes.setdefault(_identity(name), name)
            page = pages[path]
            (page.names if home is name else page.names_elsewhere).append(home)
    return list(pages.values())


def _page_file(path: str, paths: list[str]) -> str:
    package, _, name = path.rpartition(".")
    if package.count("."):
        return f"reference/{package}/{name}.md"
    has_pages_inside = path != ROOT and any(other.startswith(f"{path}.") for other in paths)
    return f"reference/{path}/index.md" if has_pages_inside else f"reference/{path}.md"


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
