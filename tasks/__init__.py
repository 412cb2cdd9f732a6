"""The task library: one family of tasks a file."""

if __name__ != "popsim.tasks":
    raise ImportError(f"import this package as `popsim.tasks`, not as `{__name__}`.")

from popsim.tasks.adaptation import ADAPTATION_PHASES as ADAPTATION_PHASES
from popsim.tasks.adaptation import adaptation_plan as adaptation_plan
from popsim.tasks.adaptation import phase_batches as phase_batches
from popsim.tasks.center_out import CenterOutReaches as CenterOutReaches
from popsim.tasks.channel_trials import channel_trials as channel_trials
from popsim.tasks.context_integration import ContextIntegration as ContextIntegration
from popsim.tasks.delayed_comparison import DelayedComparison as DelayedComparison
from popsim.tasks.delayed_match import DelayedMatchToSample as DelayedMatchToSample
from popsim.tasks.delayed_reaches import DelayedReaches as DelayedReaches
from popsim.tasks.delayed_reaches import delayed_reach_loss as delayed_reach_loss
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
from popsim.tasks.postural_hold import PosturalHold as PosturalHold
from popsim.tasks.random_loads import DirectedVector as DirectedVector
from popsim.tasks.random_loads import load_pulses as load_pulses
from popsim.tasks.random_loads import random_curl_fields as random_curl_fields
from popsim.tasks.random_loads import random_forces as random_forces
from popsim.tasks.random_reaches import RandomReaches as RandomReaches
from popsim.tasks.reach import center_out_trials as center_out_trials
from popsim.tasks.reach import reach_loss as reach_loss
from popsim.tasks.reach import reach_trial as reach_trial
from popsim.tasks.ready_set_go import ReadySetGo as ReadySetGo
from popsim.tasks.scheduled import Scheduled as Scheduled
from popsim.tasks.sequential_reaches import SequentialReaches as SequentialReaches
from popsim.tasks.sequential_reaches import sequential_reach_loss as sequential_reach_loss
from popsim.tasks.sine_generation import SineGeneration as SineGeneration
from popsim.tasks.target_jump import TargetJump as TargetJump
from popsim.tasks.target_paths import AbstractTargetPath as AbstractTargetPath
from popsim.tasks.target_paths import RandomWalk as RandomWalk
from popsim.tasks.target_paths import SumOfSinusoids as SumOfSinusoids
from popsim.tasks.tracking import Tracking as Tracking
from popsim.tasks.tracking import tracking_loss as tracking_loss
from popsim.tasks.with_fixation import WithFixation as WithFixation
from popsim.tasks.with_interventions import WithInterventions as WithInterventions
