"""Experiments: a task, a model and a training as plain values that can be written down, run and reopened."""

from popsim.experiments.center_out import CenterOut as CenterOut
from popsim.experiments.experiment import AbstractExperiment as AbstractExperiment
from popsim.experiments.plant_choice import PLANTS as PLANTS
from popsim.experiments.registry import EXPERIMENTS as EXPERIMENTS
from popsim.experiments.registry import register_experiment as register_experiment
from popsim.experiments.run import Run as Run
from popsim.experiments.run import open_run as open_run
from popsim.experiments.run_experiment import run_experiment as run_experiment
from popsim.experiments.saved_history import open_history as open_history
from popsim.experiments.saved_history import save_history as save_history
