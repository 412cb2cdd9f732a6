"""Learning rules: updates of the model, and gradients that are computed while a trial runs."""

from popsim.training.rules import eligibility, hebbian, least_squares, online, rewards, synapses
from popsim.training.rules.eligibility import *
from popsim.training.rules.hebbian import *
from popsim.training.rules.least_squares import *
from popsim.training.rules.online import *
from popsim.training.rules.rewards import *
from popsim.training.rules.synapses import *

__all__: list[str] = []
__all__ += eligibility.__all__
__all__ += hebbian.__all__
__all__ += least_squares.__all__
__all__ += online.__all__
__all__ += rewards.__all__
__all__ += synapses.__all__
