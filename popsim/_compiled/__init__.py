"""The engine: how functions of one trial run for all trials at once, and how programs are compiled.

The rest of popsim imports from here, and knows nothing of jaxprs; see docs/developers/engine.md.
"""

from popsim._compiled.choice import *
from popsim._compiled.compilation import *
from popsim._compiled.program_texts import *
from popsim._compiled.traces import *
from popsim._compiled.transformations import *
from popsim._compiled.while_compiling import *
