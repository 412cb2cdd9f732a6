"""Recurrent networks that map inputs and feedback to outputs."""

from popsim.networks.activity import UnitSelector, unit_activity
from popsim.networks.base import AbstractNetwork, NetworkState, NetworkStep, Projection
from popsim.networks.gru import GRUNetwork
from popsim.networks.leaky_rnn import LeakyRNN, dale_weights

__all__ = [
    "AbstractNetwork",
    "GRUNetwork",
    "LeakyRNN",
    "NetworkState",
    "NetworkStep",
    "Projection",
    "UnitSelector",
    "dale_weights",
    "unit_activity",
]
