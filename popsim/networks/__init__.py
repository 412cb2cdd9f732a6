"""Recurrent networks that map inputs and feedback to outputs."""

from popsim.networks.activity import UnitSelector, unit_activity
from popsim.networks.base import AbstractNetwork, NetworkState, NetworkStep, Projection
from popsim.networks.gru import GRUNetwork
from popsim.networks.leaky_rnn import LeakyRNN, dale_weights
from popsim.networks.registry import NETWORKS, build_network, register_network

__all__ = [
    "AbstractNetwork",
    "GRUNetwork",
    "LeakyRNN",
    "NETWORKS",
    "NetworkState",
    "NetworkStep",
    "Projection",
    "UnitSelector",
    "build_network",
    "dale_weights",
    "register_network",
    "unit_activity",
]
