"""Experiments: a task, a model and a training as plain values that can be written down, run and reopened."""

from popsim.experiments.center_out import CenterOut as CenterOut
from popsim.experiments.cognitive import Cognitive as Cognitive
from popsim.experiments.experiment import AbstractExperiment as AbstractExperiment
from popsim.experiments.info_table import info_table as info_table
from popsim.experiments.plant_choice import PLANTS as PLANTS
from popsim.experiments.recording import Recording as Recording
from popsim.experiments.registry import EXPERIMENTS as EXPERIMENTS
from popsim.experiments.registry import register_experiment as register_experiment
from popsim.experiments.result_table import Column as Column
from popsim.experiments.result_table import ResultTable as ResultTable
from popsim.experiments.result_table import Row as Row
from popsim.experiments.run import Run as Run
from popsim.experiments.run import ScriptRun as ScriptRun
from popsim.experiments.run import open_run as open_run
from popsim.experiments.run_experiment import RunStopped as RunStopped
from popsim.experiments.run_experiment import devices_of_run as devices_of_run
from popsim.experiments.run_experiment import resume_run as resume_run
from popsim.experiments.run_experiment import run_experiment as run_experiment
from popsim.experiments.run_figure import RunFigure as RunFigure
from popsim.experiments.run_history import RunHistory as RunHistory
from popsim.experiments.run_info import RunInfo as RunInfo
from popsim.experiments.run_info import read_run_info as read_run_info
from popsim.experiments.run_or_resume import run_or_resume as run_or_resume
from popsim.experiments.saved_ensemble import load_ensemble as load_ensemble
from popsim.experiments.saved_ensemble import save_ensemble as save_ensemble
from popsim.experiments.verify_run import verify_run as verify_run
