"""Reaches and other movements of a hand."""

from popsim.tasks.motor import (
    adaptation,
    interactive_reaches,
    interception,
    obstacles,
    reach_sequences,
    reaching,
    tracking,
    two_targets,
)
from popsim.tasks.motor.adaptation import *
from popsim.tasks.motor.interactive_reaches import *
from popsim.tasks.motor.interception import *
from popsim.tasks.motor.obstacles import *
from popsim.tasks.motor.reach_sequences import *
from popsim.tasks.motor.reaching import *
from popsim.tasks.motor.tracking import *
from popsim.tasks.motor.two_targets import *

__all__: list[str] = []
__all__ += adaptation.__all__
__all__ += interactive_reaches.__all__
__all__ += interception.__all__
__all__ += obstacles.__all__
__all__ += reach_sequences.__all__
__all__ += reaching.__all__
__all__ += tracking.__all__
__all__ += two_targets.__all__
