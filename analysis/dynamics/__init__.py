"""Fixed points of network dynamics, the linearization around them, phase planes, and Lyapunov exponents.

Jacobians and their eigenvalues are those of one time step, which is that of the model.
"""

from popsim.analysis.dynamics import attractors, fixed_points, linearization, lyapunov, search
from popsim.analysis.dynamics.attractors import *
from popsim.analysis.dynamics.fixed_points import *
from popsim.analysis.dynamics.linearization import *
from popsim.analysis.dynamics.lyapunov import *
from popsim.analysis.dynamics.search import *

__all__: list[str] = []
__all__ += attractors.__all__
__all__ += fixed_points.__all__
__all__ += linearization.__all__
__all__ += lyapunov.__all__
__all__ += search.__all__
