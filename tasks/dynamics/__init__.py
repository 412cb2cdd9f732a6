"""Tasks by whose solutions the dynamics of networks are compared."""

from popsim.tasks.dynamics import degeneracy_suite, flip_flop, path_integration
from popsim.tasks.dynamics.degeneracy_suite import *
from popsim.tasks.dynamics.flip_flop import *
from popsim.tasks.dynamics.path_integration import *

__all__: list[str] = []
__all__ += degeneracy_suite.__all__
__all__ += flip_flop.__all__
__all__ += path_integration.__all__
