"""Figures: functions that draw SI values in readable units.

These arguments mean the same everywhere:

- `ax`: the matplotlib axes to draw into, which are returned; several drawings may share them.
- `label`, `color`: what is drawn, with its unit, and its colour, by default the next of the axes.
- `names`: for the legend; by default members, units or muscles are numbered.
- `direction`: in rad, for the colours of trials; None for grey.
"""

from popsim.analysis.figures import (
    behaviour,
    bodies,
    dynamics,
    learning,
    members,
    motions,
    movies,
    neural_activity,
    style,
    sweeps,
    tasks,
    weights,
)
from popsim.analysis.figures.behaviour import *
from popsim.analysis.figures.bodies import *
from popsim.analysis.figures.dynamics import *
from popsim.analysis.figures.learning import *
from popsim.analysis.figures.members import *
from popsim.analysis.figures.motions import *
from popsim.analysis.figures.movies import *
from popsim.analysis.figures.neural_activity import *
from popsim.analysis.figures.style import *
from popsim.analysis.figures.sweeps import *
from popsim.analysis.figures.tasks import *
from popsim.analysis.figures.weights import *

__all__: list[str] = []
__all__ += behaviour.__all__
__all__ += bodies.__all__
__all__ += motions.__all__
__all__ += dynamics.__all__
__all__ += learning.__all__
__all__ += members.__all__
__all__ += movies.__all__
__all__ += neural_activity.__all__
__all__ += style.__all__
__all__ += sweeps.__all__
__all__ += tasks.__all__
__all__ += weights.__all__
