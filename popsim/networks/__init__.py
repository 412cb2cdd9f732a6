"""Recurrent networks that map inputs and feedback to outputs."""

from popsim.networks import (
    activity,
    area_rnn,
    areas,
    base,
    building,
    cells,
    composed,
    encoded_start,
    initial_weights,
    leaky,
    linear_controller,
    plasticity,
    q_learner,
    rate_networks,
    registry,
    spiking,
    teacher_forced,
)
from popsim.networks.activity import *
from popsim.networks.area_rnn import *
from popsim.networks.areas import *
from popsim.networks.base import *
from popsim.networks.building import *
from popsim.networks.cells import *
from popsim.networks.composed import *
from popsim.networks.encoded_start import *
from popsim.networks.initial_weights import *
from popsim.networks.leaky import *
from popsim.networks.linear_controller import *
from popsim.networks.plasticity import *
from popsim.networks.q_learner import *
from popsim.networks.rate_networks import *
from popsim.networks.registry import *
from popsim.networks.registry import NETWORKS
from popsim.networks.spiking import *
from popsim.networks.teacher_forced import *

# Networks are listed in this order, not in that of their modules; any other comes after them.
_LISTED = ("gru", "tanh", "lstm", "vanilla", "low-rank", "two-areas", "short-term", "spiking")
for _name in dict.fromkeys((*_LISTED, *NETWORKS)):
    NETWORKS[_name] = NETWORKS.pop(_name)

__all__: list[str] = []
__all__ += activity.__all__
__all__ += area_rnn.__all__
__all__ += areas.__all__
__all__ += base.__all__
__all__ += building.__all__
__all__ += cells.__all__
__all__ += composed.__all__
__all__ += encoded_start.__all__
__all__ += initial_weights.__all__
__all__ += leaky.__all__
__all__ += linear_controller.__all__
__all__ += plasticity.__all__
__all__ += q_learner.__all__
__all__ += rate_networks.__all__
__all__ += registry.__all__
__all__ += spiking.__all__
__all__ += teacher_forced.__all__
