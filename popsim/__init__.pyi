"""What `popsim` holds, for editors and type checkers; `__init__.py` imports each name on first use."""

# ruff: noqa: I001
# fmt: off
from popsim import (
    analysis as analysis, distributions as distributions, experiments as experiments,
    gymnasium as gymnasium, interventions as interventions, losses as losses, muscles as muscles,
    networks as networks, noise as noise, plants as plants, schedules as schedules, senses as senses,
    tasks as tasks, training as training, windows as windows,
)
from popsim.ensemble import (
    build_members as build_members, make_ensemble as make_ensemble, member as member,
    member_grid as member_grid, n_members as n_members,
)
from popsim.evaluation import evaluate as evaluate, evaluate_ensemble as evaluate_ensemble
from popsim.experiments import open_run as open_run
from popsim.hand import HandState as HandState, Workspace as Workspace
from popsim.loss import AbstractLossTerm as AbstractLossTerm, FunctionTerm as FunctionTerm, Loss as Loss
from popsim.model import AbstractModel as AbstractModel, simulate as simulate
from popsim.models.network_model import NetworkModel as NetworkModel
from popsim.models.sensorimotor_loop import SensorimotorLoop as SensorimotorLoop
from popsim.network_input import Scaling as Scaling
from popsim.noise import (
    GaussianNoise as GaussianNoise, MotorNoise as MotorNoise, without_noise as without_noise,
)
from popsim.parameters import is_parameter as is_parameter
from popsim.per_member import PerMember as PerMember, select_member as select_member
from popsim.randomness import key_stream as key_stream
from popsim.senses import (
    SensoryChannel as SensoryChannel, n_network_inputs as n_network_inputs,
    proprioception as proprioception, vision as vision,
)
from popsim.task import AbstractTask as AbstractTask
from popsim.task_description import describe_task as describe_task, sample_trials as sample_trials
from popsim.training import TaskTrainer as TaskTrainer
from popsim.trial import (
    OutputTarget as OutputTarget, StepInput as StepInput, Trial as Trial,
    choice_accuracy as choice_accuracy, correct_choice as correct_choice, output_choice as output_choice,
    repeat_trials as repeat_trials,
)
from popsim.trial_plan import Epoch as Epoch, TrialPlan as TrialPlan
from popsim.version import __version__ as __version__
from popsim.windows import NEVER as NEVER, Timeline as Timeline
