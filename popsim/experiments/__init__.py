"""Experiments: a task, a model and a training as plain values that can be saved, run and reopened."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from popsim.experiments.center_out import CenterOut
    from popsim.experiments.experiment import AbstractExperiment, Recording
    from popsim.experiments.motor_experiment import PLANTS
    from popsim.experiments.network_experiment import Cognitive
    from popsim.experiments.registry import EXPERIMENTS, load_ensemble, register_experiment, save_ensemble
    from popsim.experiments.results import Column, ResultTable, Row, RunFigure
    from popsim.experiments.run import Run, RunHistory, open_run
    from popsim.experiments.run_info import RunInfo, read_run_info, verify_run
    from popsim.experiments.run_info_table import info_table
    from popsim.experiments.run_movie import animate_run, find_trials
    from popsim.experiments.run_options import RunStopped
    from popsim.experiments.running import devices_of_run, resume_run, run_experiment, run_or_resume
    from popsim.experiments.settings import setting

__all__ = [
    "AbstractExperiment",
    "CenterOut",
    "Cognitive",
    "Column",
    "EXPERIMENTS",
    "PLANTS",
    "Recording",
    "ResultTable",
    "Row",
    "Run",
    "RunFigure",
    "RunHistory",
    "RunInfo",
    "RunStopped",
    "animate_run",
    "devices_of_run",
    "find_trials",
    "info_table",
    "load_ensemble",
    "open_run",
    "read_run_info",
    "register_experiment",
    "resume_run",
    "run_experiment",
    "run_or_resume",
    "save_ensemble",
    "setting",
    "verify_run",
]
_MODULES = "settings results experiment motor_experiment center_out network_experiment registry run_info run "
_MODULES += "run_info_table run_options running run_movie"  # each imports nothing of the later ones


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: an experiment needs nothing of what runs, shows and moves it."""
    for home in _MODULES.split() if name in __all__ else ():
        module = importlib.import_module(f"{__name__}.{home}")
        if name in module.__all__:
            globals()[name] = getattr(module, name)
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
