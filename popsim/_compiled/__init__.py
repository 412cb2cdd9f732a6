"""The engine: how functions of one trial run for all trials at once, and how programs are compiled.

The rest of popsim imports from here, and knows nothing of jaxprs. docs/engine.md tells developers more.
"""

from popsim._compiled import compilation, derivatives, traces, trials_last
from popsim._compiled.compilation import *
from popsim._compiled.derivatives import *
from popsim._compiled.traces import *
from popsim._compiled.trials_last import *

__all__: list[str] = []
__all__ += compilation.__all__
__all__ += derivatives.__all__
__all__ += traces.__all__
__all__ += trials_last.__all__
