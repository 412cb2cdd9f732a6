"""Learning curves, savings and the two-state model of adaptation."""

from popsim.analysis.learning import curves, two_state
from popsim.analysis.learning.curves import *
from popsim.analysis.learning.two_state import *

__all__: list[str] = []
__all__ += curves.__all__
__all__ += two_state.__all__
