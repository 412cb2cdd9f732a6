"""popsim trains populations of neural-network models on neuroscience tasks."""

import importlib
from typing import TYPE_CHECKING

from popsim import analysis as analysis
from popsim import interventions as interventions
from popsim import losses as losses
from popsim import muscles as muscles
from popsim import networks as networks
from popsim import plants as plants
from popsim import senses as senses
from popsim import tasks as tasks
from popsim import training as training
from popsim.batch_schedules import AbstractBatchSchedule as AbstractBatchSchedule
from popsim.batch_schedules import Phases as Phases
from popsim.batch_schedules import Ramp as Ramp
from popsim.batch_schedules import Steady as Steady
from popsim.channels import SensoryChannel as SensoryChannel
from popsim.distributions import AbstractDistribution as AbstractDistribution
from popsim.distributions import Choice as Choice
from popsim.distributions import Constant as Constant
from popsim.distributions import Normal as Normal
from popsim.distributions import TruncatedExponential as TruncatedExponential
from popsim.distributions import Uniform as Uniform
from popsim.ensemble import build_members as build_members
from popsim.ensemble import make_ensemble as make_ensemble
from popsim.ensemble import member as member
from popsim.ensemble import n_members as n_members
from popsim.evaluate import Evaluation as Evaluation
from popsim.evaluate import evaluate as evaluate
from popsim.evaluate import evaluate_ensemble as evaluate_ensemble
from popsim.hand import HandState as HandState
from popsim.intervention_plan import FromTrial as FromTrial
from popsim.intervention_plan import InterventionPlan as InterventionPlan
from popsim.interventions import AbstractForceField as AbstractForceField
from popsim.interventions import AbstractIntervention as AbstractIntervention
from popsim.interventions import AbstractTorqueField as AbstractTorqueField
from popsim.interventions import ClampUnits as ClampUnits
from popsim.interventions import ClampUnitsParameters as ClampUnitsParameters
from popsim.interventions import CommandNoise as CommandNoise
from popsim.interventions import ConstantForce as ConstantForce
from popsim.interventions import CurlField as CurlField
from popsim.interventions import CursorGain as CursorGain
from popsim.interventions import CursorRotation as CursorRotation
from popsim.interventions import CursorShift as CursorShift
from popsim.interventions import ElasticField as ElasticField
from popsim.interventions import ElasticFieldParameters as ElasticFieldParameters
from popsim.interventions import FeedbackNoise as FeedbackNoise
from popsim.interventions import ForceChannel as ForceChannel
from popsim.interventions import ForceChannelParameters as ForceChannelParameters
from popsim.interventions import ForceNoise as ForceNoise
from popsim.interventions import InputNoise as InputNoise
from popsim.interventions import JointTorque as JointTorque
from popsim.interventions import LoadMass as LoadMass
from popsim.interventions import SilenceUnits as SilenceUnits
from popsim.interventions import StimulateUnits as StimulateUnits
from popsim.interventions import UnitInput as UnitInput
from popsim.interventions import UnitNoise as UnitNoise
from popsim.interventions import ViscousField as ViscousField
from popsim.loop_state import LoopState as LoopState
from popsim.loss import AbstractLossTerm as AbstractLossTerm
from popsim.loss import FunctionTerm as FunctionTerm
from popsim.loss import Loss as Loss
from popsim.loss import LossValues as LossValues
from popsim.members import Members as Members
from popsim.members import member_grid as member_grid
from popsim.model import AbstractModel as AbstractModel
from popsim.network_input import n_network_inputs as n_network_inputs
from popsim.network_model import NetworkModel as NetworkModel
from popsim.noise import AbstractNoise as AbstractNoise
from popsim.noise import GaussianNoise as GaussianNoise
from popsim.noise import MotorNoise as MotorNoise
from popsim.noise import NoNoise as NoNoise
from popsim.noise import without_noise as without_noise
from popsim.output_target import OutputTarget as OutputTarget
from popsim.output_target import choice_accuracy as choice_accuracy
from popsim.output_target import chosen as chosen
from popsim.output_target import right_choice as right_choice
from popsim.parameters import is_parameter as is_parameter
from popsim.per_member import PerMember as PerMember
from popsim.per_member import ScaledSchedule as ScaledSchedule
from popsim.per_member import of_member as of_member
from popsim.randomness import key_stream as key_stream
from popsim.scaling import Scaling as Scaling
from popsim.senses import proprioception as proprioception
from popsim.senses import vision as vision
from popsim.sensorimotor_loop import SensorimotorLoop as SensorimotorLoop
from popsim.simulate import simulate as simulate
from popsim.task import AbstractTask as AbstractTask
from popsim.task_description import TaskDescription as TaskDescription
from popsim.task_description import describe_task as describe_task
from popsim.task_description import drawn_trials as drawn_trials
from popsim.timeline import NEVER as NEVER
from popsim.timeline import Timeline as Timeline
from popsim.trial import InterventionSchedule as InterventionSchedule
from popsim.trial import StepInput as StepInput
from popsim.trial import Trial as Trial
from popsim.trial import repeat_trials as repeat_trials
from popsim.trial import schedule_intervention as schedule_intervention
from popsim.trial_plan import Epoch as Epoch
from popsim.trial_plan import TrialPlan as TrialPlan
from popsim.version import __version__ as __version__
from popsim.windows import AbstractWindow as AbstractWindow
from popsim.windows import Before as Before
from popsim.windows import Between as Between
from popsim.windows import FromEvent as FromEvent
from popsim.windows import InEpoch as InEpoch
from popsim.windows import WholeTrial as WholeTrial
from popsim.workspace import Workspace as Workspace

if TYPE_CHECKING:
    from popsim import experiments as experiments
    from popsim.experiments import open_run as open_run


def __getattr__(name: str):
    """Found only when asked for: training in memory needs none of the packages that these need."""
    if name == "experiments":
        return importlib.import_module("popsim.experiments")
    if name == "open_run":
        return importlib.import_module("popsim.experiments").open_run
    raise AttributeError(f"module 'popsim' has no attribute {name!r}")
