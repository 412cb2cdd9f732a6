"""Experiments: a task, a model and a training as plain values that can be saved, run and reopened."""

from typing import TYPE_CHECKING, Any

from popsim.experiments.center_out import CenterOut
from popsim.experiments.cognitive import Cognitive
from popsim.experiments.experiment import AbstractExperiment, Recording
from popsim.experiments.reaching import PLANTS
from popsim.experiments.registry import EXPERIMENTS, load_ensemble, register_experiment, save_ensemble
from popsim.experiments.result_table import Column, ResultTable, Row
from popsim.experiments.run import Run, RunHistory, open_run
from popsim.experiments.run_experiment import (
    RunStopped,
    devices_of_run,
    resume_run,
    run_experiment,
    run_or_resume,
)
from popsim.experiments.run_figure import RunFigure
from popsim.experiments.run_info import RunInfo, read_run_info
from popsim.experiments.run_info_table import info_table
from popsim.experiments.run_verification import verify_run
from popsim.experiments.settings import setting

if TYPE_CHECKING:
    from popsim.experiments.run_movie import animate_run, find_trials

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


def __getattr__(name: str) -> Any:
    """Import what makes movies when it is first used, because it loads matplotlib."""
    if name in ("animate_run", "find_trials"):
        from popsim.experiments import run_movie

        return getattr(run_movie, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
