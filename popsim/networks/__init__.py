"""Recurrent networks that map inputs and feedback to outputs."""

from popsim.networks.activity import UnitSelector, unit_activity
from popsim.networks.base import AbstractNetwork, NetworkState, NetworkStep, Projection
from popsim.networks.cell import AbstractCellNetwork, CellNetwork, LSTMNetwork
from popsim.networks.gru import GRUNetwork
from popsim.networks.leaky_rnn import AbstractLeakyNetwork, LeakyRNN, dale_weights
from popsim.networks.low_rank import LowRankRNN
from popsim.networks.registry import NETWORKS, build_network, register_network
from popsim.networks.trainable_start import TrainableStart
from popsim.networks.vanilla import VanillaRNN

__all__ = [
    "AbstractCellNetwork",
    "AbstractLeakyNetwork",
    "AbstractNetwork",
    "CellNetwork",
    "GRUNetwork",
    "LSTMNetwork",
    "LeakyRNN",
    "LowRankRNN",
    "NETWORKS",
    "NetworkState",
    "NetworkStep",
    "Projection",
    "TrainableStart",
    "UnitSelector",
    "VanillaRNN",
    "build_network",
    "dale_weights",
    "register_network",
    "unit_activity",
]
