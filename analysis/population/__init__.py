"""Analysis of the joint activity of the units of a network."""

from popsim.analysis.population import (
    activity,
    components,
    decoding,
    maximum_entropy,
    rotational_dynamics,
    tuning,
)
from popsim.analysis.population.activity import *
from popsim.analysis.population.components import *
from popsim.analysis.population.decoding import *
from popsim.analysis.population.maximum_entropy import *
from popsim.analysis.population.rotational_dynamics import *
from popsim.analysis.population.tuning import *

__all__: list[str] = []
__all__ += activity.__all__
__all__ += components.__all__
__all__ += decoding.__all__
__all__ += maximum_entropy.__all__
__all__ += rotational_dynamics.__all__
__all__ += tuning.__all__
