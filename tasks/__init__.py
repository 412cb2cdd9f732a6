"""The task library: a folder for each kind of task, and wrappers. All tasks take a `loss` to train with."""

if __name__ != "popsim.tasks":
    raise ImportError(f"import this package as `popsim.tasks`, not as `{__name__}`.")

from popsim.tasks import (
    blocks,
    choices,
    dynamics,
    library,
    mixtures,
    motor,
    multi_task,
    rewards,
    rings,
    sessions,
    stored,
    timing,
    trial_parts,
    wrappers,
)
from popsim.tasks.blocks import *
from popsim.tasks.choices import *
from popsim.tasks.dynamics import *
from popsim.tasks.library import *
from popsim.tasks.mixtures import *
from popsim.tasks.motor import *
from popsim.tasks.multi_task import *
from popsim.tasks.rewards import *
from popsim.tasks.rings import *
from popsim.tasks.sessions import *
from popsim.tasks.stored import *
from popsim.tasks.timing import *
from popsim.tasks.trial_parts import *
from popsim.tasks.wrappers import *

__all__: list[str] = []
__all__ += blocks.__all__
__all__ += choices.__all__
__all__ += dynamics.__all__
__all__ += library.__all__
__all__ += mixtures.__all__
__all__ += motor.__all__
__all__ += multi_task.__all__
__all__ += rewards.__all__
__all__ += rings.__all__
__all__ += sessions.__all__
__all__ += stored.__all__
__all__ += timing.__all__
__all__ += trial_parts.__all__
__all__ += wrappers.__all__
