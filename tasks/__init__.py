"""The task library: one family of tasks a file."""

if __name__ != "popsim.tasks":
    raise ImportError(f"import this package as `popsim.tasks`, not as `{__name__}`.")

from popsim.tasks.center_out import CenterOutReaches as CenterOutReaches
from popsim.tasks.held_out import HeldOut as HeldOut
from popsim.tasks.library import TASKS as TASKS
from popsim.tasks.mixture import Mixture as Mixture
from popsim.tasks.phased import Phased as Phased
from popsim.tasks.random_reaches import RandomReaches as RandomReaches
from popsim.tasks.reach import center_out_trials as center_out_trials
from popsim.tasks.reach import reach_loss as reach_loss
from popsim.tasks.reach import reach_trial as reach_trial
from popsim.tasks.scheduled import Scheduled as Scheduled
from popsim.tasks.with_fixation import WithFixation as WithFixation
from popsim.tasks.with_interventions import WithInterventions as WithInterventions
