"""Plants: the bodies that motor commands move."""

from popsim.hand import Load
from popsim.plants import (
    base,
    joints,
    musculoskeletal,
    n_link_arm,
    point_mass,
    simulate,
    two_link_arm,
    velocity_cursor,
)
from popsim.plants.base import *
from popsim.plants.joints import *
from popsim.plants.musculoskeletal import *
from popsim.plants.n_link_arm import *
from popsim.plants.point_mass import *
from popsim.plants.simulate import *
from popsim.plants.two_link_arm import *
from popsim.plants.velocity_cursor import *

__all__ = ["Load"]
__all__ += base.__all__
__all__ += joints.__all__
__all__ += musculoskeletal.__all__
__all__ += n_link_arm.__all__
__all__ += point_mass.__all__
__all__ += simulate.__all__
__all__ += two_link_arm.__all__
__all__ += velocity_cursor.__all__
