"""The module in which the experiment of a sweep is found, for the processes that train its cells."""

import sys
from pathlib import Path

from popsim.experiments import AbstractExperiment

__all__ = ["module_of"]


def module_of(experiment: AbstractExperiment) -> tuple[str, Path] | None:
    """Return the module of an experiment of the user's own, and the folder in which it is found; else None.

    **Raises:** `ValueError` if it is in a script or a notebook, which other processes cannot import.
    """
    name = type(experiment).__module__
    if name.startswith("popsim."):
        return None
    file = getattr(sys.modules.get(name), "__file__", None)
    if name == "__main__" or file is None:
        raise ValueError(
            f"the experiment {experiment.name} must be in a module, which the processes of the cells import, "
            f"got {name}."
        )
    depth = name.count(".") + (Path(file).name == "__init__.py")
    return name, Path(file).resolve().parents[depth]
