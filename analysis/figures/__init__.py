"""Figures: functions that draw SI values in readable units.

The first argument, `ax`, is the matplotlib axes to draw into, which are returned.
"""

from popsim.analysis.figures import (
    areas,
    behaviour,
    bodies,
    body_animation,
    dynamics,
    learning,
    members,
    movies,
    neural_activity,
    selection,
    settings,
    style,
    tasks,
    weights,
)
from popsim.analysis.figures.areas import *
from popsim.analysis.figures.behaviour import *
from popsim.analysis.figures.bodies import *
from popsim.analysis.figures.body_animation import *
from popsim.analysis.figures.dynamics import *
from popsim.analysis.figures.learning import *
from popsim.analysis.figures.members import *
from popsim.analysis.figures.movies import *
from popsim.analysis.figures.neural_activity import *
from popsim.analysis.figures.selection import *
from popsim.analysis.figures.settings import *
from popsim.analysis.figures.style import *
from popsim.analysis.figures.tasks import *
from popsim.analysis.figures.weights import *

__all__: list[str] = []
__all__ += areas.__all__
__all__ += behaviour.__all__
__all__ += bodies.__all__
__all__ += body_animation.__all__
__all__ += dynamics.__all__
__all__ += learning.__all__
__all__ += members.__all__
__all__ += movies.__all__
__all__ += neural_activity.__all__
__all__ += selection.__all__
__all__ += settings.__all__
__all__ += style.__all__
__all__ += tasks.__all__
__all__ += weights.__all__
