"""The optimal control of one's own task: the lowest cost that a controller of a body can reach.

`lqr` and `lqg` solve linear bodies with quadratic losses, `iterative_lqr` the others, locally. All compute in
double precision, and return NumPy arrays. With the state x of a body as a vector, its arrays one after
another, and a command u, a time step is x' = A x + B u + c; the cost of the step belongs to x' and u.
"""

from popsim.analysis.optimal_control import costs, iterative, linear_quadratic, linear_systems
from popsim.analysis.optimal_control.costs import *
from popsim.analysis.optimal_control.iterative import *
from popsim.analysis.optimal_control.linear_quadratic import *
from popsim.analysis.optimal_control.linear_systems import *

__all__: list[str] = []
__all__ += costs.__all__
__all__ += iterative.__all__
__all__ += linear_quadratic.__all__
__all__ += linear_systems.__all__
