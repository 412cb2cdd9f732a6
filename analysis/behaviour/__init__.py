"""Measures of behaviour: movements, adaptation and decisions.

The `position` of the hand or the cursor, and the `starts` and `targets` of trials are in m, `velocity` and
`speed` (see `hand_speed`) in m/s.
"""

from popsim.analysis.behaviour import adaptation, decisions, movements, paths, psychometric
from popsim.analysis.behaviour.adaptation import *
from popsim.analysis.behaviour.decisions import *
from popsim.analysis.behaviour.movements import *
from popsim.analysis.behaviour.paths import *
from popsim.analysis.behaviour.psychometric import *

__all__: list[str] = []
__all__ += adaptation.__all__
__all__ += decisions.__all__
__all__ += movements.__all__
__all__ += paths.__all__
__all__ += psychometric.__all__
