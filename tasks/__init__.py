"""The task library, with one family of tasks per file."""

if __name__ != "popsim.tasks":
    raise ImportError(f"import this package as `popsim.tasks`, not as `{__name__}`.")

from popsim.tasks import (
    adaptation,
    bandits,
    choice_parts,
    decisions,
    flip_flop,
    ideal_decisions,
    interactive_reaches,
    interception,
    library,
    memory,
    multi_task,
    players,
    reach_sequences,
    reaching,
    selected_environment,
    session,
    stored_trials,
    timed_decisions,
    timed_responses,
    timing,
    tracking,
    trial_parts,
    two_step,
    wrappers,
)
from popsim.tasks.adaptation import *
from popsim.tasks.bandits import *
from popsim.tasks.choice_parts import *
from popsim.tasks.decisions import *
from popsim.tasks.flip_flop import *
from popsim.tasks.ideal_decisions import *
from popsim.tasks.interactive_reaches import *
from popsim.tasks.interception import *
from popsim.tasks.library import *
from popsim.tasks.memory import *
from popsim.tasks.multi_task import *
from popsim.tasks.players import *
from popsim.tasks.reach_sequences import *
from popsim.tasks.reaching import *
from popsim.tasks.selected_environment import *
from popsim.tasks.session import *
from popsim.tasks.stored_trials import *
from popsim.tasks.timed_decisions import *
from popsim.tasks.timed_responses import *
from popsim.tasks.timing import *
from popsim.tasks.tracking import *
from popsim.tasks.trial_parts import *
from popsim.tasks.two_step import *
from popsim.tasks.wrappers import *

__all__: list[str] = []
__all__ += adaptation.__all__
__all__ += bandits.__all__
__all__ += choice_parts.__all__
__all__ += decisions.__all__
__all__ += flip_flop.__all__
__all__ += ideal_decisions.__all__
__all__ += interactive_reaches.__all__
__all__ += interception.__all__
__all__ += library.__all__
__all__ += memory.__all__
__all__ += multi_task.__all__
__all__ += players.__all__
__all__ += reach_sequences.__all__
__all__ += reaching.__all__
__all__ += session.__all__
__all__ += selected_environment.__all__
__all__ += stored_trials.__all__
__all__ += timed_decisions.__all__
__all__ += timed_responses.__all__
__all__ += timing.__all__
__all__ += tracking.__all__
__all__ += trial_parts.__all__
__all__ += two_step.__all__
__all__ += wrappers.__all__
