"""The task library: one family of tasks a file."""

if __name__ != "popsim.tasks":
    raise ImportError(f"import this package as `popsim.tasks`, not as `{__name__}`.")

from popsim.tasks.center_out import CenterOutReaches as CenterOutReaches
from popsim.tasks.context_integration import ContextIntegration as ContextIntegration
from popsim.tasks.delayed_comparison import DelayedComparison as DelayedComparison
from popsim.tasks.delayed_match import DelayedMatchToSample as DelayedMatchToSample
from popsim.tasks.delayed_response import DelayedResponse as DelayedResponse
from popsim.tasks.flip_flop import FlipFlop as FlipFlop
from popsim.tasks.go_response import GoResponse as GoResponse
from popsim.tasks.held_out import HeldOut as HeldOut
from popsim.tasks.library import COGNITIVE_TASKS as COGNITIVE_TASKS
from popsim.tasks.library import TASKS as TASKS
from popsim.tasks.mixture import Mixture as Mixture
from popsim.tasks.multi_task import MultiTask as MultiTask
from popsim.tasks.perceptual_decision import PerceptualDecision as PerceptualDecision
from popsim.tasks.phased import Phased as Phased
from popsim.tasks.random_reaches import RandomReaches as RandomReaches
from popsim.tasks.reach import center_out_trials as center_out_trials
from popsim.tasks.reach import reach_loss as reach_loss
from popsim.tasks.reach import reach_trial as reach_trial
from popsim.tasks.ready_set_go import ReadySetGo as ReadySetGo
from popsim.tasks.scheduled import Scheduled as Scheduled
from popsim.tasks.sine_generation import SineGeneration as SineGeneration
from popsim.tasks.with_fixation import WithFixation as WithFixation
from popsim.tasks.with_interventions import WithInterventions as WithInterventions
