"""Terms of losses, one file each. They compose: `PositionError() + 1e-5 * Effort()`."""

from popsim.losses.cross_entropy import CrossEntropy as CrossEntropy
from popsim.losses.effort import Effort as Effort
from popsim.losses.final_velocity import FinalVelocity as FinalVelocity
from popsim.losses.hidden_activity import HiddenActivity as HiddenActivity
from popsim.losses.output_error import OutputError as OutputError
from popsim.losses.position_error import PositionError as PositionError
from popsim.losses.time_profile import AbstractTimeProfile as AbstractTimeProfile
from popsim.losses.time_profile import FinalStep as FinalStep
from popsim.losses.time_profile import PowerProfile as PowerProfile
