"""Memories of bits and of a place, waves, and a suite: tasks that are solved by dynamics."""

from popsim.tasks.dynamics import degeneracy_suite, flip_flop, path_integration, sine_generation
from popsim.tasks.dynamics.degeneracy_suite import *
from popsim.tasks.dynamics.flip_flop import *
from popsim.tasks.dynamics.path_integration import *
from popsim.tasks.dynamics.sine_generation import *

__all__: list[str] = []
__all__ += degeneracy_suite.__all__
__all__ += flip_flop.__all__
__all__ += path_integration.__all__
__all__ += sine_generation.__all__
