"""Recurrent networks that map inputs and feedback to outputs."""

from popsim.networks.activity import UnitSelector, unit_activity
from popsim.networks.area_rnn import AreaRNN
from popsim.networks.areas import Areas, Sparse
from popsim.networks.base import AbstractNetwork, NetworkState, NetworkStep, Projection
from popsim.networks.cell import AbstractCellNetwork, CellNetwork
from popsim.networks.gated import GRUNetwork, LSTMNetwork
from popsim.networks.initial_weights import (
    dale_weights,
    draw_weights,
    identity_weights,
    per_gate,
    spectral_weights,
)
from popsim.networks.layers import StackedNetwork
from popsim.networks.leaky import AbstractLeakyNetwork, LeakyState
from popsim.networks.leaky_rnn import LeakyRNN
from popsim.networks.low_rank import LowRankRNN
from popsim.networks.plasticity import (
    AbstractPlasticity,
    DifferentiablePlasticity,
    FastWeights,
    ShortTermPlasticity,
)
from popsim.networks.registry import NETWORKS, build_network, register_network
from popsim.networks.vanilla import VanillaRNN
from popsim.networks.wrapper import AbstractNetworkWrapper, EncodedNetwork, TrainableStart

__all__ = [
    "AbstractCellNetwork",
    "AbstractLeakyNetwork",
    "AbstractNetwork",
    "AbstractNetworkWrapper",
    "AbstractPlasticity",
    "AreaRNN",
    "Areas",
    "CellNetwork",
    "DifferentiablePlasticity",
    "EncodedNetwork",
    "FastWeights",
    "GRUNetwork",
    "LSTMNetwork",
    "LeakyRNN",
    "LeakyState",
    "LowRankRNN",
    "NETWORKS",
    "NetworkState",
    "NetworkStep",
    "Projection",
    "ShortTermPlasticity",
    "Sparse",
    "StackedNetwork",
    "TrainableStart",
    "UnitSelector",
    "VanillaRNN",
    "build_network",
    "dale_weights",
    "draw_weights",
    "identity_weights",
    "per_gate",
    "register_network",
    "spectral_weights",
    "unit_activity",
]
