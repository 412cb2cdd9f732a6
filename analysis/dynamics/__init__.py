"""Where the dynamics of a network rest, and what they do near there."""

from popsim.analysis.dynamics.find_fixed_points import find_fixed_points as find_fixed_points
from popsim.analysis.dynamics.fixed_points import FixedPoints as FixedPoints
from popsim.analysis.dynamics.fixed_points import FoundPoints as FoundPoints
from popsim.analysis.dynamics.following import follow_dynamics as follow_dynamics
from popsim.analysis.dynamics.following import reached_points as reached_points
from popsim.analysis.dynamics.line_attractor import SlowDirections as SlowDirections
from popsim.analysis.dynamics.line_attractor import slow_directions as slow_directions
from popsim.analysis.dynamics.linearization import input_jacobians as input_jacobians
from popsim.analysis.dynamics.linearization import state_jacobians as state_jacobians
from popsim.analysis.dynamics.maps import network_dynamics as network_dynamics
from popsim.analysis.dynamics.modes import Modes as Modes
from popsim.analysis.dynamics.modes import frequencies as frequencies
from popsim.analysis.dynamics.modes import modes as modes
from popsim.analysis.dynamics.modes import time_constants as time_constants
from popsim.analysis.dynamics.received import received_inputs as received_inputs
from popsim.analysis.dynamics.search import FixedPointSearch as FixedPointSearch
from popsim.analysis.dynamics.starts import mixtures_of_states as mixtures_of_states
from popsim.analysis.dynamics.starts import states_with_noise as states_with_noise
