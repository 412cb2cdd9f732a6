"""Reaches and other movements of a hand."""

from popsim.tasks.motor import adaptation, interactive_reaches, reaching, several_targets, tracking
from popsim.tasks.motor.adaptation import *
from popsim.tasks.motor.interactive_reaches import *
from popsim.tasks.motor.reaching import *
from popsim.tasks.motor.several_targets import *
from popsim.tasks.motor.tracking import *

__all__: list[str] = []
__all__ += adaptation.__all__
__all__ += interactive_reaches.__all__
__all__ += reaching.__all__
__all__ += several_targets.__all__
__all__ += tracking.__all__
