"""Choices and responses that an environment pays, and their best players."""

from popsim.tasks.rewards import (
    bandits,
    changing_environment,
    choice_parts,
    ideal_decisions,
    players,
    staircase,
    timed_clicks,
    timed_decisions,
    timed_responses,
    two_step,
)
from popsim.tasks.rewards.bandits import *
from popsim.tasks.rewards.changing_environment import *
from popsim.tasks.rewards.choice_parts import *
from popsim.tasks.rewards.ideal_decisions import *
from popsim.tasks.rewards.players import *
from popsim.tasks.rewards.staircase import *
from popsim.tasks.rewards.timed_clicks import *
from popsim.tasks.rewards.timed_decisions import *
from popsim.tasks.rewards.timed_responses import *
from popsim.tasks.rewards.two_step import *

__all__: list[str] = []
__all__ += bandits.__all__
__all__ += changing_environment.__all__
__all__ += choice_parts.__all__
__all__ += ideal_decisions.__all__
__all__ += players.__all__
__all__ += staircase.__all__
__all__ += timed_clicks.__all__
__all__ += timed_decisions.__all__
__all__ += timed_responses.__all__
__all__ += two_step.__all__
