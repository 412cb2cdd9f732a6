"""The modules of the experiment and the networks of a sweep, for the processes that train its cells."""

import sys
from pathlib import Path
from typing import Any

from popsim.experiments.registry import described_modules
from popsim.sweeps.sweep import Sweep

__all__ = ["named_modules", "modules_of"]


def named_modules(sweep: Sweep) -> dict[str, Any]:
    """Return the modules that make a sweep known, as its description names them."""
    return described_modules(sweep.experiment, sweep.axes.get("network", ()))


def modules_of(sweep: Sweep) -> list[tuple[str, Path]]:
    """Return the modules of the user's own, each with the folder in which it is found."""
    described = named_modules(sweep)
    names = dict.fromkeys([described["module"], *described.get("network_modules", ())])
    return [(name, _folder_of(name, sweep)) for name in names if not name.startswith("popsim.")]


def _folder_of(name: str, sweep: Sweep) -> Path:
    file = getattr(sys.modules.get(name), "__file__", None)
    if name == "__main__" or file is None:
        is_experiment = name == type(sweep.experiment).__module__
        raise ValueError(
            f"the {'experiment' if is_experiment else 'network of'} {sweep.experiment.name} must be in a "
            f"module, which the processes of the cells import, got {name}."
        )
    depth = name.count(".") + (Path(file).name == "__init__.py")
    return Path(file).resolve().parents[depth]
