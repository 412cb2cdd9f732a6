"""Experiments: a task, a model and a training as plain values that can be saved, run and reopened."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from popsim.experiments.experiment import *
    from popsim.experiments.motor_experiment import PLANTS as PLANTS
    from popsim.experiments.motor_experiment import CenterOut as CenterOut
    from popsim.experiments.network_experiment import Cognitive as Cognitive
    from popsim.experiments.registry import *
    from popsim.experiments.results import *
    from popsim.experiments.run import *
    from popsim.experiments.run_info import *
    from popsim.experiments.run_movie import *
    from popsim.experiments.run_options import *
    from popsim.experiments.running import *
    from popsim.experiments.settings import *

_HOMES = {
    "experiment": "AbstractExperiment Recording",
    "motor_experiment": "CenterOut PLANTS",
    "network_experiment": "Cognitive",
    "registry": "EXPERIMENTS load_ensemble register_experiment save_ensemble",
    "results": "Column ResultTable Row RunFigure",
    "run": "Run RunHistory open_run",
    "run_info": "RunInfo info_table read_run_info verify_run",
    "run_movie": "animate_run find_trials",
    "run_options": "NewRunOptions RunOptions RunStopped",
    "running": "devices_of_run resume_run run_experiment run_or_resume",
    "settings": "setting",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME_OF)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: an experiment needs nothing of what runs, shows and moves it."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return globals()[name]
