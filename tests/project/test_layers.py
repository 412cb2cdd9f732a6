"""The layers of the house: imports go downward only, without circles."""

import ast
import functools
import importlib
import importlib.util
import os
import pathlib
import subprocess
import sys

import matplotlib
import pytest
from repository import HELPERS

import popsim

ROOT = pathlib.Path(popsim.__file__).parent
CORE = ["networks", "muscles", "plants", "states", "senses", "interventions", "losses", "models"]
LAYERS = ["popsim._compiled", "popsim", *(f"popsim.{name}" for name in CORE), "popsim.store"]
LAYERS += ["popsim.training", "popsim.tasks", "popsim.analysis"]
LAYERS += ["popsim.experiments", "popsim.gymnasium", "popsim.sweeps", "popsim.report", "popsim.cli"]
MODULES = {
    ".".join(("popsim", *path.relative_to(ROOT).with_suffix("").parts)): path
    for folder in (ROOT, ROOT / "tasks", ROOT / "analysis")
    for path in folder.rglob("*.py")
}

PACKAGES = [name.removesuffix(".__init__") for name in sorted(MODULES) if name.endswith(".__init__")]


def layer(module: str) -> int:
    return LAYERS.index(max((name for name in LAYERS if f"{module}.".startswith(f"{name}.")), key=len))


@functools.cache
def imported(module: str) -> set[str]:
    """The modules of popsim that a module names in its imports, those within functions too."""
    names = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            within = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = {name for name in within if {name, f"{name}.__init__"} & set(MODULES)}
            names |= modules | ({f"{node.module}"} if within - modules else set())
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    known = {name if name in MODULES else f"{name}.__init__" for name in names}
    return {name for name in known if name in MODULES} - {"popsim.__init__"}


def test_imports_go_downward():
    modules = set(MODULES) - {"popsim.__init__"}
    assert not {(one, other) for one in modules for other in imported(one) if layer(other) > layer(one)}


def test_the_engine_is_imported_as_one_package_and_alone_knows_of_jaxprs():
    """Its modules import each other; the rest of popsim asks functions that the package names."""
    engine = {module for module in MODULES if layer(module) == 0}
    others = sorted(set(MODULES) - engine)
    assert not [module for module in others if imported(module) & (engine - {f"{LAYERS[0]}.__init__"})]
    texts = {module: MODULES[module].read_text() for module in others}
    words = ("jaxpr", "jax.core", "jax.extend", "jax.interpreters", "opaque_trace")
    assert not [(module, word) for module, text in texts.items() for word in words if word in text]
    bodies = [texts[module] for module in texts if module.startswith(("popsim.plants", "popsim.muscles"))]
    assert len(bodies) > 10 and not any("is_trac" in text for text in bodies)
    of_private_jax = [module for module, path in MODULES.items() if "jax._src" in path.read_text()]
    assert of_private_jax == ["popsim.cli._main"]  # which looks for its name in errors, without an import


def test_no_circles():
    done, path = set(), []

    def visit(module):
        assert module not in path, f"circle: {[*path, module]}"
        if module not in done:
            path.append(module)
            for other in sorted(imported(module)):
                visit(other)
            path.pop()
            done.add(module)

    for module in MODULES:
        if module != "popsim.__init__":
            visit(module)
    assert len(done) == len(MODULES) - 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks a process for each package")
@pytest.mark.parametrize(
    "packages",
    [
        ["popsim.losses", "popsim.plants", "popsim.training.rules"],
        pytest.param(PACKAGES, marks=pytest.mark.full, id="all"),
    ],
)
def test_packages_can_be_imported_first_and_do_nothing_by_it(packages, tmp_path):
    """Each in a process of its own, forked from one that has nothing of popsim; nothing is written."""
    code = """
import os, sys, traceback
import diffrax, equinox, matplotlib.pyplot, optax, xarray
for package in sorted(set(sys.argv[1:]) - set(sys.modules)):
    if not (child := os.fork()):
        try:
            __import__(package)
        except BaseException:
            print(package, traceback.format_exc(), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    os.waitpid(child, 0)
import popsim, popsim.experiments, popsim.cli
assert "gymnasium" not in sys.modules
from jax._src import xla_bridge
assert not xla_bridge.backends_are_initialized()  # or no process could fork, or choose devices
"""
    fonts = matplotlib.get_cachedir()  # listed there already
    home = {"HOME": str(tmp_path), "MPLCONFIGDIR": fonts, "PYTHONPATH": str(ROOT.parent)}
    command = [sys.executable, "-B", "-c", code, *packages]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=home)
    assert not ran.stderr
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
def test_training_in_memory_needs_no_package_of_the_store_and_experiments_none_of_commands_or_figures():
    """Also on a machine that lacks them: the import of each is made to fail."""
    code = """
import sys
for name in ("tensorstore", "safetensors", "xarray", "tyro", "matplotlib", "tensorboardX"):
    sys.modules[name] = None
import small_training, popsim.plants, popsim.tasks
small_training.train(2)
for name in ("tensorstore", "safetensors", "xarray"):
    del sys.modules[name]
import popsim.experiments
"""
    environment = os.environ | {"PYTHONPATH": f"{ROOT.parent}:{HELPERS}"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


@pytest.mark.parametrize("package", ["tasks", "analysis"])
def test_packages_with_common_names_refuse_to_be_imported_bare(package):
    spec = importlib.util.spec_from_file_location(package, ROOT / package / "__init__.py")
    with pytest.raises(ImportError, match=f"popsim.{package}"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def listed(module: str) -> list[str]:
    """The `__all__` of a module."""
    for node in ast.parse(MODULES[module].read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return []


def test_public_modules_list_their_names_and_private_ones_have_none():
    """But for what nobody imports."""
    without = {"popsim.version", "popsim.tasks.library"}
    packages = {name for name in MODULES if name.endswith(".__init__")}
    modules = {name for name in MODULES if "._shared." not in name} - packages - without
    assert not {name for name in modules if bool(listed(name)) == name.split(".")[-1].startswith("_")}
    exported = 0
    for package in packages:
        package = importlib.import_module(package.removesuffix(".__init__"))
        names = getattr(package, "__all__", [])
        assert len(set(names)) == len(names) and all(hasattr(package, name) for name in names), package
        exported += len(names)
    assert exported > 300


def test_the_front_holds_few_names_found_on_demand():
    stub = ast.parse(MODULES["popsim.__init__"].with_suffix(".pyi").read_text())
    imports = [(node.module, alias.name) for node in stub.body[1:] for alias in node.names]
    imported = {name for _, name in imports}
    for module, name in imports:
        assert getattr(popsim, name) is getattr(importlib.import_module(module), name)
    assert imported == set(popsim.__all__) == set(dir(popsim)) and len(popsim.__all__) <= 60
