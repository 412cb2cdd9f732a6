"""Muscle models, and the paths of muscles over a skeleton."""

from popsim.muscles import activation, base, brown_loeb, hill, mujoco, parameter_sets, paths, thelen
from popsim.muscles.activation import *
from popsim.muscles.base import *
from popsim.muscles.brown_loeb import *
from popsim.muscles.hill import *
from popsim.muscles.mujoco import *
from popsim.muscles.parameter_sets import *
from popsim.muscles.thelen import *

__all__ = ["paths"]
__all__ += activation.__all__
__all__ += base.__all__
__all__ += brown_loeb.__all__
__all__ += hill.__all__
__all__ += mujoco.__all__
__all__ += parameter_sets.__all__
__all__ += thelen.__all__
