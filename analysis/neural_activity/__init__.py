"""Analysis of the joint activity of the units of a network.

Members are analysed one by one. Trials and times are the samples, or each trial is a condition; `condition`,
and each of `factors`, labels the trials.
"""

from popsim.analysis.neural_activity import (
    communication,
    components,
    decoding,
    maximum_entropy,
    preprocessing,
    rotational_dynamics,
    spikes,
    tuning,
    unit_clusters,
)
from popsim.analysis.neural_activity.communication import *
from popsim.analysis.neural_activity.components import *
from popsim.analysis.neural_activity.decoding import *
from popsim.analysis.neural_activity.maximum_entropy import *
from popsim.analysis.neural_activity.preprocessing import *
from popsim.analysis.neural_activity.rotational_dynamics import *
from popsim.analysis.neural_activity.spikes import *
from popsim.analysis.neural_activity.tuning import *
from popsim.analysis.neural_activity.unit_clusters import *

__all__: list[str] = []
__all__ += preprocessing.__all__
__all__ += communication.__all__
__all__ += components.__all__
__all__ += decoding.__all__
__all__ += maximum_entropy.__all__
__all__ += rotational_dynamics.__all__
__all__ += spikes.__all__
__all__ += tuning.__all__
__all__ += unit_clusters.__all__
