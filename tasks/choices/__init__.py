"""Choices and other reports about stimuli."""

from popsim.tasks.choices import decisions, delayed_choices, directions, memory, pulses
from popsim.tasks.choices.decisions import *
from popsim.tasks.choices.delayed_choices import *
from popsim.tasks.choices.directions import *
from popsim.tasks.choices.memory import *
from popsim.tasks.choices.pulses import *

__all__: list[str] = []
__all__ += decisions.__all__
__all__ += delayed_choices.__all__
__all__ += directions.__all__
__all__ += memory.__all__
__all__ += pulses.__all__
