"""Learning rules: updates of the model that do not come from gradients."""

from popsim.training.rules import hebbian, perturbation, reward_modulated, synapses
from popsim.training.rules.hebbian import *
from popsim.training.rules.perturbation import *
from popsim.training.rules.reward_modulated import *
from popsim.training.rules.synapses import *

__all__: list[str] = []
__all__ += hebbian.__all__
__all__ += perturbation.__all__
__all__ += reward_modulated.__all__
__all__ += synapses.__all__
