"""Experiments: a task, a model and a training as plain values that can be saved, run and reopened."""

from popsim.experiments import (
    experiment,
    motor_experiment,
    network_experiment,
    registry,
    results,
    run,
    run_info,
    run_movie,
    run_options,
    running,
    settings,
)
from popsim.experiments.experiment import *
from popsim.experiments.motor_experiment import *
from popsim.experiments.network_experiment import *
from popsim.experiments.registry import *
from popsim.experiments.results import *
from popsim.experiments.run import *
from popsim.experiments.run_info import *
from popsim.experiments.run_movie import *
from popsim.experiments.run_options import *
from popsim.experiments.running import *
from popsim.experiments.settings import *

__all__: list[str] = []
__all__ += experiment.__all__
__all__ += motor_experiment.__all__
__all__ += network_experiment.__all__
__all__ += registry.__all__
__all__ += results.__all__
__all__ += run.__all__
__all__ += run_info.__all__
__all__ += run_movie.__all__
__all__ += run_options.__all__
__all__ += running.__all__
__all__ += settings.__all__
