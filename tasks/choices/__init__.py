"""Choices and other reports about stimuli."""

from popsim.tasks.choices import decisions, detection, directions, matching, memory, pulses, weighing
from popsim.tasks.choices.decisions import *
from popsim.tasks.choices.detection import *
from popsim.tasks.choices.directions import *
from popsim.tasks.choices.matching import *
from popsim.tasks.choices.memory import *
from popsim.tasks.choices.pulses import *
from popsim.tasks.choices.weighing import *

__all__: list[str] = []
__all__ += decisions.__all__
__all__ += detection.__all__
__all__ += directions.__all__
__all__ += matching.__all__
__all__ += memory.__all__
__all__ += pulses.__all__
__all__ += weighing.__all__
