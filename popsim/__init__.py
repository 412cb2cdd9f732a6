"""Training of populations of neural-network models on neuroscience tasks.

Names are imported on first use, so that `import popsim` is quick and training in memory does not need the
packages for storing runs. `__init__.pyi` tells editors and type checkers where each name is from.
"""

import importlib
import importlib.util
import os
import sys

from popsim._shared.text_checks import suggestion

if os.path.isfile(os.path.join(os.path.dirname(__file__), "tasks")):  # git on Windows, without developer mode
    raise ImportError(
        "popsim/tasks and popsim/analysis must be symbolic links in a clone, and git wrote text files: clone "
        "with `git clone -c core.symlinks=true`, on Windows in developer mode, or install popsim with "
        "`pip install .` and start Python in another folder."
    )

_MODULES = (
    "analysis distributions experiments gymnasium interventions losses muscles networks noise plants "
    "schedules senses tasks training windows"
)
_HOMES = {
    "ensemble": "build_members make_ensemble member member_grid n_members",
    "evaluation": "evaluate evaluate_ensemble",
    "experiments": "open_run",
    "hand": "HandState Workspace",
    "loss": "AbstractLossTerm FunctionTerm Loss",
    "model": "AbstractModel simulate",
    "models.network_model": "NetworkModel",
    "models.sensorimotor_loop": "SensorimotorLoop",
    "network_input": "Scaling",
    "noise": "GaussianNoise MotorNoise without_noise",
    "parameters": "is_parameter",
    "per_member": "PerMember select_member",
    "randomness": "key_stream",
    "senses": "SensoryChannel n_network_inputs proprioception vision",
    "task": "AbstractTask",
    "task_description": "describe_task sample_trials",
    "training": "TaskTrainer",
    "trial": "OutputTarget StepInput Trial choice_accuracy correct_choice output_choice repeat_trials",
    "trial_plan": "Epoch TrialPlan",
    "version": "__version__",
    "windows": "NEVER Timeline",
}
_HOME_OF = {name: f"popsim.{home}" for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted([*_MODULES.split(), *_HOME_OF])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str):
    if name in _HOME_OF:
        value = getattr(importlib.import_module(_HOME_OF[name]), name)
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
