"""Training of populations of neural-network models on neuroscience tasks.

Names are imported on first use, so that `import popsim` is quick and training in memory does not need the
packages for storing runs.
"""

import importlib
import importlib.util
import os
import sys
from typing import TYPE_CHECKING

from popsim._shared.text_checks import suggestion

if TYPE_CHECKING:
    from popsim import (
        analysis,
        distributions,
        experiments,
        gymnasium,
        interventions,
        losses,
        muscles,
        networks,
        noise,
        plants,
        schedules,
        senses,
        tasks,
        training,
        windows,
    )
    from popsim.ensemble import build_members, make_ensemble, member, member_grid, n_members
    from popsim.evaluation import evaluate, evaluate_ensemble
    from popsim.experiments import open_run
    from popsim.hand import HandState, Workspace
    from popsim.loss import AbstractLossTerm, FunctionTerm, Loss
    from popsim.model import AbstractModel, simulate
    from popsim.models.network_model import NetworkModel
    from popsim.models.sensorimotor_loop import SensorimotorLoop
    from popsim.network_input import Scaling
    from popsim.noise import GaussianNoise, MotorNoise, without_noise
    from popsim.parameters import is_parameter
    from popsim.per_member import PerMember, select_member
    from popsim.randomness import key_stream
    from popsim.senses import SensoryChannel, n_network_inputs, proprioception, vision
    from popsim.task import AbstractTask
    from popsim.task_description import describe_task, sample_trials
    from popsim.training import TaskTrainer
    from popsim.trial import (
        OutputTarget,
        StepInput,
        Trial,
        choice_accuracy,
        correct_choice,
        output_choice,
        repeat_trials,
    )
    from popsim.trial_plan import Epoch, TrialPlan
    from popsim.version import __version__
    from popsim.windows import NEVER, Timeline

__all__ = [
    "AbstractLossTerm",
    "AbstractModel",
    "AbstractTask",
    "Epoch",
    "FunctionTerm",
    "GaussianNoise",
    "HandState",
    "Loss",
    "MotorNoise",
    "NEVER",
    "NetworkModel",
    "OutputTarget",
    "PerMember",
    "Scaling",
    "SensorimotorLoop",
    "SensoryChannel",
    "StepInput",
    "TaskTrainer",
    "Timeline",
    "Trial",
    "TrialPlan",
    "Workspace",
    "__version__",
    "analysis",
    "build_members",
    "choice_accuracy",
    "output_choice",
    "describe_task",
    "distributions",
    "sample_trials",
    "evaluate",
    "evaluate_ensemble",
    "experiments",
    "gymnasium",
    "interventions",
    "is_parameter",
    "key_stream",
    "losses",
    "make_ensemble",
    "member",
    "member_grid",
    "muscles",
    "n_members",
    "n_network_inputs",
    "networks",
    "noise",
    "select_member",
    "open_run",
    "plants",
    "proprioception",
    "repeat_trials",
    "correct_choice",
    "schedules",
    "senses",
    "simulate",
    "tasks",
    "training",
    "vision",
    "windows",
    "without_noise",
]

if os.path.isfile(os.path.join(os.path.dirname(__file__), "tasks")):  # git on Windows, without developer mode
    raise ImportError(
        "popsim/tasks and popsim/analysis must be symbolic links in a clone, and git wrote text files: clone "
        "with `git clone -c core.symlinks=true`, on Windows in developer mode, or install popsim with "
        "`pip install .` and start Python in another folder."
    )

_HOMES = {
    "popsim.ensemble": ("build_members", "make_ensemble", "member", "member_grid", "n_members"),
    "popsim.evaluation": ("evaluate", "evaluate_ensemble"),
    "popsim.experiments": ("open_run",),
    "popsim.hand": ("HandState", "Workspace"),
    "popsim.loss": ("AbstractLossTerm", "FunctionTerm", "Loss"),
    "popsim.model": ("AbstractModel", "simulate"),
    "popsim.models.network_model": ("NetworkModel",),
    "popsim.models.sensorimotor_loop": ("SensorimotorLoop",),
    "popsim.network_input": ("Scaling",),
    "popsim.noise": ("GaussianNoise", "MotorNoise", "without_noise"),
    "popsim.parameters": ("is_parameter",),
    "popsim.per_member": ("PerMember", "select_member"),
    "popsim.randomness": ("key_stream",),
    "popsim.senses": ("SensoryChannel", "n_network_inputs", "proprioception", "vision"),
    "popsim.task": ("AbstractTask",),
    "popsim.task_description": ("describe_task", "sample_trials"),
    "popsim.training": ("TaskTrainer",),
    "popsim.trial": (
        "OutputTarget",
        "StepInput",
        "Trial",
        "choice_accuracy",
        "output_choice",
        "repeat_trials",
        "correct_choice",
    ),
    "popsim.trial_plan": ("Epoch", "TrialPlan"),
    "popsim.version": ("__version__",),
    "popsim.windows": ("NEVER", "Timeline"),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str):
    if name in _MODULE_OF:
        value = getattr(importlib.import_module(_MODULE_OF[name]), name)
        globals()[name] = value
        return value
    if not name.startswith("_") and importlib.util.find_spec(f"popsim.{name}"):
        return importlib.import_module(f"popsim.{name}")
    raise AttributeError(
        f"module 'popsim' has no attribute {name!r}.{suggestion(name, __all__)}",
        name=name,
        obj=sys.modules[__name__],
    )


def __dir__() -> list[str]:
    return sorted(__all__)
