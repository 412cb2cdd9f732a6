"""The engine: how functions of one trial run for all trials at once, and how programs are compiled.

The rest of popsim imports from here, and knows nothing of jaxprs; see docs/developers/engine.md.
"""

from popsim._compiled import choice, compilation, program_texts, traces, transformations, while_compiling
from popsim._compiled.choice import *
from popsim._compiled.compilation import *
from popsim._compiled.program_texts import *
from popsim._compiled.traces import *
from popsim._compiled.transformations import *
from popsim._compiled.while_compiling import *

__all__: list[str] = []
__all__ += choice.__all__
__all__ += compilation.__all__
__all__ += program_texts.__all__
__all__ += traces.__all__
__all__ += transformations.__all__
__all__ += while_compiling.__all__
