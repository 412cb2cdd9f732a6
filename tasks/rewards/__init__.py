"""Choices and responses that an environment pays, and their best players."""

from popsim.tasks.rewards import (
    bandits,
    following_evidence,
    ideal_decisions,
    players,
    timed_responses,
    two_step,
)
from popsim.tasks.rewards.bandits import *
from popsim.tasks.rewards.following_evidence import *
from popsim.tasks.rewards.ideal_decisions import *
from popsim.tasks.rewards.players import *
from popsim.tasks.rewards.timed_responses import *
from popsim.tasks.rewards.two_step import *

__all__: list[str] = []
__all__ += bandits.__all__
__all__ += following_evidence.__all__
__all__ += ideal_decisions.__all__
__all__ += players.__all__
__all__ += timed_responses.__all__
__all__ += two_step.__all__
