"""Learning rules: updates of the model that do not come from gradients."""

from popsim.training.rules import hebbian, rewards, synapses
from popsim.training.rules.hebbian import *
from popsim.training.rules.rewards import *
from popsim.training.rules.synapses import *

__all__: list[str] = []
__all__ += hebbian.__all__
__all__ += rewards.__all__
__all__ += synapses.__all__
