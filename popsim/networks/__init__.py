"""Networks: what thinks between the senses and the command. One file each."""

from popsim.networks.abstract import AbstractNetwork as AbstractNetwork
from popsim.networks.abstract import NetworkState as NetworkState
from popsim.networks.dale_weights import dale_weights as dale_weights
from popsim.networks.gru import GRUNetwork as GRUNetwork
from popsim.networks.leaky_rnn import LeakyRNN as LeakyRNN
from popsim.networks.projection import NetworkStep as NetworkStep
from popsim.networks.projection import Projection as Projection
